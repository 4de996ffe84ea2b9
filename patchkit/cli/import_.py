"""patchkit import"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

#: Forms of the argument that are no script, and what to do instead until they are read, too.
_OTHER_FORMS = (
    (re.compile(r"(?:https?://.*/pull/\d+.*|[\w.-]+/[\w.-]+#\d+)"), "a pull request",
     "name its merge commit in a step: patch: {commit: OWNER/REPO@SHA, paths: [...]}"),
    (re.compile(r"https?://.*"), "an address", "fetch the script, read it, then import the file"),
    (re.compile(r".*\.(?:patch|diff)"), "a patch file", "put it beside stack.yaml and name it in a step: patch: NAME"),
)  # fmt: skip


def configure(parser: ArgumentParser) -> None:
    """The options of `import`."""
    options.common(
        parser,
        "patchkit import apply_patches.sh --image nightly-c50aca --dry-run",
        "patchkit import apply_patches.sh --image nightly-c50aca --set SITE=/usr/local/lib/python3.12/dist-packages",
    )
    parser.add_argument("script", metavar="SCRIPT.sh", help="the apply script to read; it is never run")
    parser.add_argument("--dry-run", action="store_true", help="print what would be written, write nothing")
    parser.add_argument(
        "--set",
        dest="given",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of a variable that the script itself does not fix (PWD: where it is started)",
    )
    parser.add_argument("--site", metavar="PATH", help="what the script calls the site, if not the image's own")


def run(args: Namespace) -> int:
    """Import the script and return the exit code."""
    from patchkit.app import import_report, import_script
    from patchkit.app import project as projects
    from patchkit.cli.output import print_error, print_json, print_lines

    _check_form(args.script)
    given = _given(args.given)
    project = projects.find(args.folder)
    plan = import_script.plan(project, project.resolve(args.image), Path(args.script), given=given, site=args.site)
    if not args.dry_run:
        import_script.write(project, plan)
    error = import_report.error(plan, dry_run=args.dry_run)
    if args.json:
        print_json(import_report.to_json(plan, dry_run=args.dry_run))
    else:
        print_lines(import_report.lines(plan, dry_run=args.dry_run))
        if error is not None:
            print_error(error)
    return 0 if error is None else error.exit_code


def _check_form(text: str) -> None:
    """Raise ConfigError for what `import` will read one day, but does not yet."""
    for form, name, instead in _OTHER_FORMS:
        if form.fullmatch(text):
            raise ConfigError(f"{text}: {name}: only scripts can be imported so far", hint=instead)
    if Path(text).is_dir():
        hint = "put its patches beside stack.yaml, one step each"
        raise ConfigError(f"{text}: a directory: only scripts can be imported so far", hint=hint)


def _given(pairs: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ConfigError(f"--set {pair}: expected NAME=VALUE", hint="--set SITE=/usr/local/lib/...")
        given[name] = value
    return given
