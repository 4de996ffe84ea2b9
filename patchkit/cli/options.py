"""Options that several commands share."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from patchkit.targets.directory import Choice


class Formatter(RawDescriptionHelpFormatter):
    """Help as wide as the terminal, measured without `shutil`, which takes longer to load than a command does."""

    def __init__(self, prog: str) -> None:
        try:
            width = os.get_terminal_size().columns
        except OSError:
            width = 100
        super().__init__(prog, width=max(min(width, 120), 60) - 2)


def common(parser: ArgumentParser, *examples: str, image: bool = True) -> None:
    """--json and -C, --image unless the command has its own, and the examples under the help."""
    parser.epilog = "\n".join(["example:" if len(examples) == 1 else "examples:", *(f"  {e}" for e in examples)])
    if image:
        parser.add_argument("--image", metavar="NAME", help="the image: its exact name, or any unambiguous prefix")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, and nothing else")
    parser.add_argument(
        "-C", dest="folder", metavar="DIR", help="the folder with images/ and patches/ (default: the nearest upward)"
    )


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
    from patchkit.targets.directory import Choice

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
