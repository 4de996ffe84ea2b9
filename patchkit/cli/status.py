"""patchkit status"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core.errors import ConfigError, PatchkitError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchkit.app.outlook import Wish
    from patchkit.app.project import Project
    from patchkit.upstream.outlook import StackOutlook

_REPO = re.compile(r"(?:[^/=\s]+/)?[^/=\s]+/[^/=\s]+")
_DATE = re.compile(r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?)?)?")


def configure(parser: ArgumentParser) -> None:
    """The options of `status`."""
    options.common(
        parser,
        "patchkit status",
        "patchkit status --offline --image nightly-cb8104839c",
        "patchkit status --markdown --fail-on drop,refresh,review,unknown",
        "patchkit status --fetch --save",
    )
    options.target(parser)
    parser.add_argument("--on-disk", action="store_true", help="only what is on disk: what a bundle's status says")
    parser.add_argument(
        "--offline", action="store_true", help="ask no forge: answer from what is known, and say its age"
    )
    parser.add_argument("--as-of", metavar="DATE", help="what was known by the end of DATE (2026-09-30); asks no forge")
    parser.add_argument("--fetch", action="store_true", help="make or refresh the cached clones of the upstreams first")
    parser.add_argument(
        "--clone", metavar="OWNER/REPO=DIR", action="append", default=[], help="read this clone of an upstream"
    )
    parser.add_argument("--save", action="store_true", help="write what is known to patches/upstream.json")
    parser.add_argument("--markdown", action="store_true", help="print Markdown, for a comment on a pull request")
    parser.add_argument(
        "--fail-on",
        metavar="ACTION,...",
        help="exit with 5 if a step has one of: keep, drop, bump, refresh, review, local, unknown",
    )


def run(args: Namespace) -> int:
    """Report each step's state on disk and upstream, and what to do; the exit code."""
    from patchkit.app import outlook
    from patchkit.app import project as projects
    from patchkit.io.progress import working
    from patchkit.upstream.outlook import finding

    if args.container is not None and (args.container is options.LIST or not args.container.strip()):
        from patchkit.cli import container

        return container.run("status", args)
    fail_on = _fail_on(args.fail_on)
    wish = _wish(args)
    project = projects.find(args.folder)
    images = _images(project, args)
    if args.on_disk:
        _require_alone(args)
        return _on_disk(project, images, args)
    several = len(images) != 1
    with working("status"):
        stacks, record = outlook.look(project, images, wish, args, several=several)
    error: PatchkitError | None = finding(stacks, fail_on)
    if args.save:
        try:
            outlook.save(project, record)
        except PatchkitError as failed:
            error = failed
    _print(stacks, args, error=error, several=several)
    errors = [stack.report.exit_code for stack in stacks]
    return max([*errors, 0 if error is None else error.exit_code], default=0)


def _require_alone(args: Namespace) -> None:
    """Raise ConfigError for options that ask about upstream beside --on-disk."""
    others = [
        name for name in ("offline", "as_of", "fetch", "clone", "save", "markdown", "fail_on") if getattr(args, name)
    ]
    if others:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise ConfigError(
            f"--on-disk and {named}: what is on disk says nothing of upstream", hint="leave one of them out"
        )


def _on_disk(project: Project, images: list[str], args: Namespace) -> int:
    from patchkit.app import on_disk
    from patchkit.cli.output import emit, emit_all

    reports = [on_disk.look(project, project.lock(image), args).report for image in images]
    if len(reports) == 1:
        return emit(reports[0], as_json=args.json)
    return emit_all("status", reports, as_json=args.json)


def _images(project: Project, args: Namespace) -> list[str]:
    """The image that is named; without one all of them, unless the options name a target, which is of one image."""
    if args.image is not None or args.root is not None or args.container is not None:
        return [project.resolve(args.image)]
    return project.images()


def _wish(args: Namespace) -> Wish:
    from patchkit.app.outlook import Wish

    if args.as_of is not None and not _is_date(args.as_of):
        raise ConfigError(
            f"--as-of {args.as_of}: expected a date such as 2026-09-30, or a time such as 2026-09-30T12:00:00Z",
            hint="patchkit status --as-of 2026-09-30",
        )
    if args.fetch and (args.offline or args.as_of):
        raise ConfigError("--fetch and --offline, --as-of: only one of them can be meant", hint="leave --fetch out")
    if args.save and args.as_of:
        raise ConfigError("--save and --as-of: what is saved is what is known now", hint="leave one of them out")
    if args.json and args.markdown:
        raise ConfigError("--json and --markdown: only one of them can be printed", hint="leave one of them out")
    clones = {}
    for text in args.clone:
        repo, equals, directory = text.partition("=")
        if not equals or not directory or not _REPO.fullmatch(repo):
            raise ConfigError(
                f"--clone {text}: expected owner/repo=directory", hint="--clone vllm-project/vllm=/src/vllm"
            )
        clones[repo] = directory
    return Wish(offline=args.offline or args.as_of is not None, as_of=args.as_of, fetch=args.fetch, clones=clones)


def _is_date(text: str) -> bool:
    from patchkit.upstream.record import last_instant

    if not _DATE.fullmatch(text):
        return False
    try:
        last_instant(text)
    except ValueError:
        return False
    return True


def _fail_on(text: str | None) -> tuple[str, ...]:
    from patchkit.upstream.outlook import FAIL_ON

    if text is None:
        return ()
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    wrong = [word for word in words if word not in FAIL_ON]
    if wrong or not words:
        found = ", ".join(wrong) or "nothing"
        raise ConfigError(
            f"--fail-on: expected some of {', '.join(FAIL_ON)}, found {found}",
            hint="--fail-on drop,refresh,review,unknown",
        )
    return words


def _print(stacks: tuple[StackOutlook, ...], args: Namespace, *, error: PatchkitError | None, several: bool) -> None:
    """The stacks on stdout; on stderr what failed."""
    from patchkit.core.program import print_error, print_json
    from patchkit.report import upstream

    if args.json:
        print_json(upstream.stacks_json(stacks, error) if several else upstream.stack_json(stacks[0], error))
        return
    if args.markdown:
        sys.stdout.write(upstream.markdown(stacks))
    else:
        _print_tables(stacks)
    sys.stdout.flush()
    for failed in (*(stack.report.error for stack in stacks), error):
        if failed is not None:
            print_error(failed)


def _print_tables(stacks: tuple[StackOutlook, ...]) -> None:
    from patchkit.report import upstream

    lines = [line for stack in stacks for line in (*upstream.table(stack), ("", ""))][:-1]
    if sys.stdout.isatty():
        from patchkit.io.console import print_lines  # the terminal library is loaded only for a terminal

        print_lines(lines)
        return
    from patchkit.core.program import print_lines as print_plain

    print_plain([text for text, _ in lines])
