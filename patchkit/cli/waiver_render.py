"""patchkit waiver render"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.cli import options

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchkit.core.errors import PatchkitError
    from patchkit.waivers.subject import WaiverFacts


def configure(parser: ArgumentParser) -> None:
    """The options of `waiver render`."""
    options.common(
        parser,
        "patchkit waiver render",
        "patchkit waiver render 2508 --check",
        "patchkit waiver render --template waivers/own.md.j2",
        image=False,
    )
    parser.add_argument("pulls", metavar="PR", nargs="*", help="the waivers to render (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 5 if a document differs")
    options.template(parser)


def run(args: Namespace) -> int:
    """Render the documents, or compare them, and return the exit code."""
    from patchkit.app import project as projects
    from patchkit.app import waivers
    from patchkit.cli.output import print_error, print_json, print_lines
    from patchkit.core.errors import FindingError

    project = projects.find(args.folder)
    subject = waivers.read(project, template=args.template)
    chosen = waivers.choose(subject, args.pulls)
    error: PatchkitError | None = None
    if args.check:
        changed = waivers.differing(subject, chosen)
        if changed:
            problems = [f"{each.output}: it is not what is rendered from {each.path}" for each in changed]
            error = FindingError(*problems, hint="patchkit waiver render; patchkit waiver check tells what differs")
    else:
        changed = waivers.write(project, subject, chosen)
    if args.json:
        print_json(_json(chosen, changed, error, check=args.check))
    else:
        words = {True: "differs" if args.check else "rendered", False: "is up to date"}
        print_lines(f"{each.output}: {words[each in changed]}" for each in chosen)
        if error is not None:
            print_error(error)
    return 0 if error is None else error.exit_code


def _json(
    chosen: tuple[WaiverFacts, ...], changed: list[WaiverFacts], error: PatchkitError | None, *, check: bool
) -> dict[str, Any]:
    from patchkit.core.report import errors_json
    from patchkit.core.verdicts import Outcome

    outcome = Outcome.CLEAN if check else Outcome.UNCHANGED
    if changed:
        outcome = Outcome.REFUSED if check else Outcome.APPLIED
    return {
        "command": "waiver render",
        "image": None,
        "stack": None,
        "target": None,
        "stand_in": False,
        "outcome": outcome.value,
        "documents": [{"path": each.output, "changed": each in changed} for each in chosen],
        "errors": errors_json(error),
    }
