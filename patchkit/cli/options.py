"""Options that every command of the full tool has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.core import options as shared
from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from datetime import date


#: What `--container` without a value is; an empty value is none that anybody means.
LIST = object()


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
    """Which tree: --root, --container, --site, --stand-in."""
    shared.target(parser)
    parser.add_argument(
        "--container",
        metavar="ID",
        nargs="?",
        const=LIST,
        help="work inside this container (its id, its name, or the beginning of one); without ID: list those that fit"
        " (apply and revert then end with exit code 2)",
    )


def today(parser: ArgumentParser) -> None:
    """--today: what makes a run the same on every day."""
    parser.add_argument("--today", metavar="DATE", help="take DATE (2026-12-01) for today")


def day(text: str | None, option: str = "--today") -> date:
    """The day that an option names; without one the day it is. Raises ConfigError."""
    from datetime import date

    if text is None:
        return date.today()  # noqa: DTZ011 - the person's own day is meant
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} {text}: expected a day such as 2026-12-01", hint=f"{option} 2026-12-01") from None


def template(parser: ArgumentParser) -> None:
    """--template: an own form of the waivers' documents."""
    parser.add_argument(
        "--template",
        metavar="FILE",
        help="render with this Jinja template (default: waivers/template.md.j2 if it is there, else the one that ships)",
    )
