"""patchkit waiver scan"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.cli import options

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchkit.app.scan import Cover
    from patchkit.core.errors import PatchkitError
    from patchkit.waivers.scan_types import Report


def configure(parser: ArgumentParser) -> None:
    """The options of `waiver scan`."""
    options.common(
        parser,
        "patchkit waiver scan benchmarks/ docker/",
        "patchkit waiver scan run.sh --json",
        "patchkit waiver scan . --exempt transformers,'ray/dashboard/*'",
        image=False,
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="files, or folders with all that is below them")
    parser.add_argument(
        "--exempt",
        metavar="NAME,...",
        action="append",
        default=[],
        help="packages, or patterns of touched paths, that are no finding besides what the policy exempts",
    )
    parser.add_argument("--no-cache", action="store_true", help="read every file anew")


def run(args: Namespace) -> int:
    """Scan, print what was found and return the exit code."""
    from patchkit.cli.output import print_error, print_json, print_lines
    from patchkit.core.errors import FindingError
    from patchkit.waivers import scan_output
    from patchkit.waivers.scan import scan_report

    cover = _cover(args.folder)
    names = tuple(name.strip() for text in args.exempt for name in text.split(",") if name.strip())
    report = scan_report(args.paths, covered=cover, exempt=names, cache=not args.no_cache)
    open_ = sum(each.waiver is None for each in report.findings)
    error = None
    if open_:
        hint = "take it out, or declare it: a step of a stack, and patchkit waiver new PR --image NAME"
        error = FindingError(f"{open_} of {len(report.findings)} findings are covered by no waiver", hint=hint)
    elif report.unread:
        unread = [f"{path}: not read whole: {why}" for path, why in report.unread]
        error = FindingError(*unread, hint="look at it by hand: what was not read cannot be called clean")
    notes = cover.notes if cover is not None else ["there is no project here: nothing is covered (-C DIR names one)"]
    if args.json:
        print_json(_json(report, notes, error))
    else:
        print_lines([*scan_output.lines(report), *(f"note: {note}" for note in notes if report.findings)])
        if error is not None:
            print_error(error)
    return 0 if error is None else error.exit_code


def _cover(folder: str | None) -> Cover | None:
    """What the project covers; None where there is none, and none was named."""
    from patchkit.app import project as projects
    from patchkit.app.scan import Cover
    from patchkit.core.errors import ConfigError

    try:
        project = projects.find(folder)
    except ConfigError:
        if folder is not None:
            raise
        return None
    return Cover(project)


def _json(report: Report, notes: list[str], error: PatchkitError | None) -> dict[str, Any]:
    from patchkit.core.report import errors_json
    from patchkit.core.verdicts import Outcome
    from patchkit.waivers import scan_output

    return {
        "command": "waiver scan",
        "image": None,
        "stack": None,
        "target": None,
        "stand_in": False,
        "outcome": (Outcome.CLEAN if error is None else Outcome.REFUSED).value,
        **scan_output.data(report),
        "notes": notes,
        "errors": errors_json(error),
    }
