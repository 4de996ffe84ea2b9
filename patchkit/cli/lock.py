"""patchkit lock"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.app import project as projects
from patchkit.cli import options
from patchkit.cli.output import emit
from patchkit.core.errors import PatchkitError
from patchkit.core.report import Report, StepReport
from patchkit.core.verdicts import Outcome
from patchkit.io.progress import working

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchkit.core.lockfile import Lock


def configure(parser: ArgumentParser) -> None:
    """The options of `lock`."""
    options.common(
        parser,
        "patchkit lock --image nightly-c50aca",
        "patchkit lock --image nightly-c50aca --from /mnt/rootfs",
        "patchkit lock --check",
    )
    parser.add_argument(
        "--check", action="store_true", help="only tell whether the lock is fresh (all images without --image)"
    )
    parser.add_argument(
        "--amend", action="store_true", help="allow changed content under a version that was never applied anywhere"
    )
    parser.add_argument("--vendor", action="store_true", help="put remote patches into the project, beside the stack")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="SRC",
        help="read pristine files from SRC in this run: a root directory, vllm==0.33.0, git:DIR@REV",
    )


def run(args: Namespace) -> int:
    """Lock (or check) one image, or all without --image, and return the exit code."""
    project = projects.find(args.folder)
    names = project.images() if args.image is None else [project.resolve(args.image)]
    reports = [_one(project, name, args) for name in names]
    if len(reports) == 1:
        return emit(reports[0], as_json=args.json)
    return _emit_all(reports, as_json=args.json)


def _one(project: projects.Project, name: str, args: Namespace) -> Report:
    from patchkit.app.lock import check_lock, lock_stack

    try:
        if args.check:
            return _report(check_lock(project, name), Outcome.CLEAN, ())
        with working(f"lock {name}"):
            made = lock_stack(project, name, amend=args.amend, vendor=args.vendor, source=args.source)
    except PatchkitError as error:
        return Report(command="lock", image=name, outcome=Outcome.REFUSED, error=error)
    notes = made.notes
    if made.bytes_received:
        notes = (*notes, f"{made.bytes_received / 1e6:.2f} MB received")
    return _report(made.lock, Outcome.APPLIED if made.changed else Outcome.UNCHANGED, notes)


def _report(lock: Lock, outcome: Outcome, notes: tuple[str, ...]) -> Report:
    sources = tuple(f"pristine files from {source.description}" for source in lock.sources)
    return Report(
        command="lock",
        image=lock.image.name,
        outcome=outcome,
        version=lock.version,
        lock=lock.digest,
        steps=tuple(StepReport(id=s.id, verdict=None, changes=s.changes, upstream=s.upstream) for s in lock.steps),
        notes=(*sources, *notes),
    )


def _emit_all(reports: list[Report], *, as_json: bool) -> int:
    from patchkit.cli.output import print_json
    from patchkit.core.report import errors_json, to_json

    worst = max((report.exit_code for report in reports), default=0)
    if not as_json:
        for report in reports:
            emit(report, as_json=False)
        return worst
    print_json(
        {
            "command": "lock",
            "image": None,
            "stack": None,
            "target": None,
            "stand_in": False,
            "outcome": Outcome.REFUSED.value if worst else Outcome.REPORTED.value,
            "images": [to_json(report) for report in reports],
            "errors": [entry for report in reports for entry in errors_json(report.error)],
        }
    )
    return worst
