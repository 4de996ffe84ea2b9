"""patchkit waiver new"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """The options of `waiver new`."""
    options.common(parser, "patchkit waiver new 2508 --image nightly-cb8104839c")
    parser.add_argument("pull", metavar="PR", help="the number of the pull request that introduces the patches")
    options.today(parser)


def run(args: Namespace) -> int:
    """Write the scaffold and return the exit code."""
    from patchkit.app import project as projects
    from patchkit.app import waivers
    from patchkit.cli.output import print_json, print_lines
    from patchkit.core.verdicts import Outcome

    if not args.pull.isascii() or not args.pull.isdigit() or args.pull.startswith("0"):
        problem = f"PR: expected the number of a pull request, found {args.pull!r}"
        raise ConfigError(problem, hint="patchkit waiver new 2508 --image NAME")
    if args.image is None:
        raise ConfigError("--image is missing: whose steps does the waiver cover?", hint="patchkit image list")
    project = projects.find(args.folder)
    image = project.resolve(args.image)
    path = waivers.new(project, int(args.pull), image, filed=options.day(args.today).isoformat())
    if args.json:
        fields = {"stack": None, "target": None, "stand_in": False, "outcome": Outcome.APPLIED.value, "path": path}
        print_json({"command": "waiver new", "image": image, **fields, "errors": []})
    else:
        print_lines([f"{path}: written; fill it in, then: patchkit waiver check"])
    return 0
