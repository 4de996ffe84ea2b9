"""patchkit lock"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


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
    from patchkit.app import project as projects
    from patchkit.app.lock_report import check_report, lock_report
    from patchkit.cli.output import emit, emit_all
    from patchkit.io.progress import working

    project = projects.find(args.folder)
    names = project.images() if args.image is None else [project.resolve(args.image)]
    if args.check:
        reports = [check_report(project, name) for name in names]
    else:
        with working("lock"):
            reports = [
                lock_report(project, name, amend=args.amend, vendor=args.vendor, source=args.source) for name in names
            ]
    if len(reports) == 1:
        return emit(reports[0], as_json=args.json)
    return emit_all("lock", reports, as_json=args.json)
