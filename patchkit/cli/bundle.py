"""patchkit bundle"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """The options of `bundle`."""
    options.common(parser, "patchkit bundle --image nightly-c50aca -o k3.pyz")
    parser.add_argument("-o", dest="output", metavar="FILE", required=True, help="the file to write, by custom *.pyz")


def run(args: Namespace) -> int:
    """Write the bundle and return the exit code."""
    import hashlib

    from patchkit.app import bundle
    from patchkit.app import project as projects
    from patchkit.cli.output import emit
    from patchkit.core.report import Report, StepReport
    from patchkit.core.verdicts import Outcome

    project = projects.find(args.folder)
    lock = project.lock(project.resolve(args.image))
    data = bundle.make_bundle(project, lock)
    bundle.write_bundle(args.output, data)
    waiting = [step.id for step in lock.steps if step.unresolved]
    notes = (f"unresolved, apply needs --only without them: {', '.join(waiting)}",) if waiting else ()
    report = Report(
        command="bundle",
        image=lock.image.name,
        outcome=Outcome.REPORTED,
        version=lock.version,
        lock=lock.digest,
        target=args.output,
        steps=tuple(StepReport(id=s.id, verdict=None, changes=s.changes) for s in lock.steps),
        notes=(f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}", *notes),
    )
    return emit(report, as_json=args.json)
