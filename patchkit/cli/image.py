"""patchkit image list / show"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """The options of `image`."""
    options.common(parser, "patchkit image list", "patchkit image show nightly-c50aca", image=False)
    parser.add_argument("action", choices=("list", "show"), help="list all images, or show one")
    parser.add_argument("name", nargs="?", help="the image to show: its exact name, or any unambiguous prefix")


def run(args: Namespace) -> int:
    """List or show images and return the exit code."""
    from patchkit.app import images
    from patchkit.app import project as projects
    from patchkit.cli.output import print_error, print_json, print_lines
    from patchkit.report import images as report

    project = projects.find(args.folder)
    if args.action == "list":
        if args.name is not None:
            problem = f"patchkit image list: it takes no name, found {args.name!r}"
            raise ConfigError(problem, hint=f"patchkit image show {args.name}")
        rows = images.overview(project)
        error = report.list_error(rows)
        if args.json:
            print_json(report.list_json(rows))
        else:
            print_lines(report.list_lines(rows))
            if error is not None:
                print_error(error)
        return 0 if error is None else error.exit_code
    if args.name is None:
        raise ConfigError("patchkit image show: the image's name is missing", hint="patchkit image list")
    found = images.details(project, project.resolve(args.name))
    if args.json:
        print_json(report.show_json(found))
    else:
        print_lines(report.show_lines(found))
    return 0
