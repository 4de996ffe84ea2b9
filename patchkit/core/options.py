"""The options of the commands that work on a target, shared by the command line and the bundle."""

from __future__ import annotations

from patchkit.core.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchkit.core.lockfile import Lock
    from patchkit.core.operate import ReadInput, Request
    from patchkit.core.roots import Caller, Choice


def target(parser: ArgumentParser, root: str = "/ if it is the image, else the managed root") -> None:
    """Which tree: --root (its default: `root`), --site, --stand-in."""
    parser.add_argument("--root", metavar="DIR", help=f"the root of the file tree (default: {root})")
    parser.add_argument("--site", metavar="PATH", help="the folder below the root where patch paths start")
    parser.add_argument(
        "--stand-in", action="store_true", help="the root is another release than the image, and that is meant"
    )


def choice(args: Namespace, caller: Caller | None = None) -> Choice:
    """The target options as the person gave them, to patchkit, if no other `caller` says how it was called."""
    from patchkit.core.roots import Caller, Choice

    if caller is None:
        caller = Caller(target=given(args))
    return Choice(root=args.root, site=args.site, stand_in=args.stand_in, caller=caller)


def given(args: Namespace) -> tuple[str, ...]:
    """The options that name the target, as words to type again."""
    words: list[str] = []
    for option, name in (("--root", "root"), ("--container", "container"), ("--site", "site"), ("-C", "folder")):
        value = getattr(args, name, None)
        if isinstance(value, str):
            words += [option, value]
    return (*words, "--stand-in") if args.stand_in else tuple(words)


def only(parser: ArgumentParser) -> None:
    """--only ID,..."""
    parser.add_argument("--only", metavar="ID,...", help="only these steps; none of their files may need another step")


def ids(text: str | None) -> tuple[str, ...]:
    """The ids of --only. Raises ConfigError for an empty list."""
    if text is None:
        return ()
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise ConfigError("--only: expected step ids separated by commas", hint="--only ID,ID")
    return found


def applying(parser: ArgumentParser) -> None:
    """What `apply` takes besides the target: --only, --stage, --dry-run."""
    only(parser)
    parser.add_argument("--stage", choices=("build", "runtime"), help="only the steps of this stage")
    parser.add_argument("--dry-run", action="store_true", help="print the plan that apply would carry out")


def force(parser: ArgumentParser) -> None:
    """--force"""
    parser.add_argument(
        "--force",
        action="store_true",
        help="give up files that somebody else has changed, and leave what steps did that cannot be undone",
    )


def request(lock: Lock, read_input: ReadInput, args: Namespace) -> Request:
    """What `args` ask for. Raises ConfigError."""
    from patchkit.core.operate import Request

    return Request(
        lock=lock,
        read_input=read_input,
        only=ids(getattr(args, "only", None)),
        stage=getattr(args, "stage", None),
        dry_run=getattr(args, "dry_run", False),
    )
