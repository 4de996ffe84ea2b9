"""patchkit waiver new / render / check / scan: finds the subcommand in the table and loads only its module"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from patchkit.core.program import Parser

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

#: Name, module below patchkit.cli (with `configure` and `run`, as a command has them), and one line for the help.
SUBCOMMANDS: tuple[tuple[str, str, str], ...] = (
    ("new", "waiver_new", "write the scaffold of a waiver, with the gaps marked"),
    ("render", "waiver_render", "render the documents from the waivers and the stacks"),
    ("check", "waiver_check", "hold stacks, waivers and documents together; exit 5 where they part"),
    ("scan", "waiver_scan", "find patching of the serving stack that nobody declared; exit 5 where there is any"),
)


def configure(parser: ArgumentParser) -> None:
    """The subcommands of `waiver`."""
    parser.epilog = "examples:\n  patchkit waiver new 2508 --image nightly-cb8104839c\n  patchkit waiver check\n  patchkit waiver scan ."
    subparsers = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)
    for name, module, summary in SUBCOMMANDS:
        import_module(f"patchkit.cli.{module}").configure(subparsers.add_parser(name, help=summary, summary=summary))


def run(args: Namespace) -> int:
    """Run the subcommand and return its exit code."""
    module = next(module for name, module, _ in SUBCOMMANDS if name == args.action)
    code: int = import_module(f"patchkit.cli.{module}").run(args)
    return code
