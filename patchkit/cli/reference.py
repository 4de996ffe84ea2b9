"""Generates docs/commands.md from the commands' own parsers: python -m patchkit.cli.reference [--check]"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.cli.main import COMMANDS
from patchkit.core.program import Parser

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = Path(__file__).parents[2] / "docs" / "commands.md"


def render() -> str:
    """The whole reference, the same text with every Python."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "Generated from the commands themselves by `python -m patchkit.cli.reference`; do not edit."
    for name, module, summary in COMMANDS:
        parser = Parser(f"patchkit {name}")
        import_module(f"patchkit.cli.{module}").configure(parser)
        yield ""
        yield f"## patchkit {name}"
        yield ""
        yield f"{summary[0].upper()}{summary[1:]}."
        yield ""
        yield "| option | meaning |"
        yield "|---|---|"
        for action in parser._actions:  # noqa: SLF001 - argparse offers no other way to list them
            if action.help != SUPPRESS and "--help" not in action.option_strings:
                yield f"| `{_form(action)}` | {action.help} |"
        yield ""
        for line in (parser.epilog or "").splitlines()[1:]:
            yield f"    {line.strip()}"
    yield ""


def _form(action: Action) -> str:
    choices = "{" + ",".join(action.choices) + "}" if action.choices else None
    value = action.metavar or choices or action.dest
    if not action.option_strings:
        return f"[{value}]" if action.nargs == "?" else str(value)
    return action.option_strings[0] if action.nargs == 0 else f"{action.option_strings[0]} {value}"


def main(words: list[str]) -> int:
    """Write the reference; with --check only compare, and return 1 where it is stale."""
    text = render()
    if words == ["--check"]:
        if PATH.exists() and PATH.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PATH}: stale; type: python -m patchkit.cli.reference", file=sys.stderr)
        return 1
    PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
