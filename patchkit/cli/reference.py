"""Generates docs/commands.md from the commands' own parsers, docs/waiver-rules.md from the rules: python -m patchkit.cli.reference [--check]"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.cli.main import COMMANDS
from patchkit.core.program import Parser
from patchkit.waivers import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = Path(__file__).parents[2] / "docs" / "commands.md"
RULES_PATH = PATH.with_name("waiver-rules.md")


def render() -> str:
    """The whole reference, the same text with every Python."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "Generated from the commands themselves by `python -m patchkit.cli.reference`; do not edit."
    for name, module, summary in COMMANDS:
        parser = Parser(f"patchkit {name}", summary)
        import_module(f"patchkit.cli.{module}").configure(parser)
        yield from _section(parser, "##")
    yield ""


def _section(parser: ArgumentParser, heading: str) -> Iterator[str]:
    """One command's section; its subcommands follow, each in a section below."""
    summary = parser.description or ""
    yield from ("", f"{heading} {parser.prog}", "", f"{summary[0].upper()}{summary[1:]}.", "")
    actions = [action for action in parser._actions if "--help" not in action.option_strings]  # noqa: SLF001 - argparse offers no other way to list them
    below = [action.choices for action in actions if isinstance(action, _SubParsersAction)]
    if not below:
        yield "| option | meaning |"
        yield "|---|---|"
        yield from (f"| `{_form(action)}` | {action.help} |" for action in actions if action.help != SUPPRESS)
        yield ""
    for line in (parser.epilog or "").splitlines()[1:]:
        yield f"    {line.strip()}"
    for subparsers in below:
        for subparser in subparsers.values():
            yield from _section(subparser, f"{heading}#")


def _form(action: Action) -> str:
    choices = "{" + ",".join(action.choices) + "}" if action.choices else None
    value = action.metavar or choices or action.dest
    if not action.option_strings:
        return {"?": f"[{value}]", "*": f"[{value} ...]"}.get(str(action.nargs), str(value))
    return action.option_strings[0] if action.nargs == 0 else f"{action.option_strings[0]} {value}"


def main(words: list[str]) -> int:
    """Write the references; with --check only compare, and return 1 where one is stale."""
    code = 0
    for path, text in ((PATH, render()), (RULES_PATH, rules.reference())):
        if words != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path}: stale; type: python -m patchkit.cli.reference", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
