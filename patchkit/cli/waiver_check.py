"""patchkit waiver check"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchkit.waivers.check import Result

_SOON = 14


def configure(parser: ArgumentParser) -> None:
    """The options of `waiver check`."""
    options.common(
        parser,
        "patchkit waiver check",
        "patchkit waiver check --today 2026-12-01 --json",
        "patchkit waiver check --sarif > waivers.sarif",
        'patchkit waiver check --write-baseline --reason "carried before there were waivers" --until 2027-03-31',
        image=False,
    )
    options.today(parser)
    parser.add_argument(
        "--soon", metavar="DAYS", type=int, default=_SOON, help="a waiver that expires within DAYS is a finding (14)"
    )
    parser.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0, for code hosts")
    parser.add_argument("--github", action="store_true", help="print annotations of GitHub Actions")
    parser.add_argument(
        "--baseline", metavar="FILE", help="accept the findings that FILE lists (default: waivers/baseline.yaml)"
    )
    parser.add_argument(
        "--write-baseline", action="store_true", help="accept all findings of now; needs --reason and --until"
    )
    parser.add_argument("--reason", metavar="TEXT", help="why the findings are accepted")
    parser.add_argument("--until", metavar="DATE", help="the last day on which they are accepted")
    options.template(parser)


def run(args: Namespace) -> int:
    """Apply the rules, print the findings and return the exit code."""
    from patchkit.app import project as projects
    from patchkit.app import waivers
    from patchkit.waivers.check import check

    if sum((args.json, args.sarif, args.github)) > 1:
        problem = "--json, --sarif and --github: only one of them can be printed"
        raise ConfigError(problem, hint="run it once for each")
    if args.write_baseline != bool(args.reason and args.until):
        problem = "--write-baseline, --reason and --until: a suppression needs a reason and an end"
        raise ConfigError(problem, hint='patchkit waiver check --write-baseline --reason "..." --until 2027-03-31')
    today = options.day(args.today)
    until = options.day(args.until, "--until") if args.until else today
    project = projects.find(args.folder)
    kept = {"template": args.template, "baseline": args.baseline}
    if args.write_baseline:
        found = check(waivers.read(project, **kept, accept=False), today, soon=args.soon).findings
        path = waivers.write_baseline(project, args.baseline, found, args.reason, until)
        print(f"{path}: {len(found)} findings are accepted until {until}", file=sys.stderr)
    result = check(waivers.read(project, **kept), today, soon=args.soon)
    _print(result, args)
    return 0 if result.error is None else result.error.exit_code


def _print(result: Result, args: Namespace) -> None:
    """The result on stdout in the form that was asked for; for people the error besides, on stderr."""
    from patchkit.cli.output import print_error, print_json
    from patchkit.core.program import print_lines
    from patchkit.waivers import output

    if args.json:
        print_json(output.to_json(result))
        return
    if args.sarif:
        from patchkit import __version__

        sys.stdout.write(output.sarif(result, __version__))
        return
    if args.github:
        print_lines(output.github(result))
    elif sys.stdout.isatty():
        from patchkit.io import console  # the terminal library is loaded only for a terminal

        console.print_lines(list(output.lines(result)))
    else:
        print_lines(text for text, _ in output.lines(result))
    if result.error is not None:
        sys.stdout.flush()
        print_error(result.error)
