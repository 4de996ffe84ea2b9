"""The options of the commands that work on a target, shared by the command line and the bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchkit.core.roots import Choice


def target(parser: ArgumentParser) -> None:
    """Which tree: --root, --site, --stand-in."""
    parser.add_argument(
        "--root", metavar="DIR", help="the root of the file tree (default: / if it is the image, else the managed root)"
    )
    parser.add_argument("--site", metavar="PATH", help="the folder below the root where patch paths start")
    parser.add_argument(
        "--stand-in", action="store_true", help="the root is another release than the image, and that is meant"
    )


def choice(args: Namespace) -> Choice:
    """The target options as the person gave them."""
    from patchkit.core.roots import Choice

    return Choice(root=args.root, site=args.site, stand_in=args.stand_in)


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
