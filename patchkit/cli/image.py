"""patchkit image list / show"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from patchkit.app import project as projects
from patchkit.cli import options
from patchkit.cli.output import print_error, print_json, printable
from patchkit.core.errors import ConfigError, PatchkitError
from patchkit.core.report import errors_json
from patchkit.core.verdicts import Outcome

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from patchkit.app import images


def configure(parser: ArgumentParser) -> None:
    """The options of `image`."""
    options.common(parser, "patchkit image list", "patchkit image show nightly-c50aca", image=False)
    parser.add_argument("action", choices=("list", "show"), help="list all images, or show one")
    parser.add_argument("name", nargs="?", help="the image to show: its exact name, or any unambiguous prefix")


def run(args: Namespace) -> int:
    """List or show images and return the exit code."""
    from patchkit.app import images

    project = projects.find(args.folder)
    if args.action == "list":
        if args.name is not None:
            raise ConfigError(
                f"patchkit image list: it takes no name, found {args.name!r}", hint=f"patchkit image show {args.name}"
            )
        return _list(images.overview(project), as_json=args.json)
    if args.name is None:
        raise ConfigError("patchkit image show: the image's name is missing", hint="patchkit image list")
    return _show(images.details(project, project.resolve(args.name)), as_json=args.json)


def _list(rows: list[images.Overview], *, as_json: bool) -> int:
    problems = [problem for row in rows if row.error is not None for problem in row.error.problems]
    error = ConfigError(*problems, hint="correct the files, then: patchkit image list") if problems else None
    if as_json:
        print_json(_document("list", None, error, {"images": [_row(row) for row in rows]}))
        return error.exit_code if error else 0
    for row in rows:
        print(printable(f"{row.name}  {row.reference or '(broken)'}"))
        print(f"    digest {row.digest or f'not set (patchkit image pin {row.name} fills it)'}, {row.platform or '?'}")
        unresolved = f", {row.unresolved} unresolved" if row.unresolved else ""
        print(f"    stack version {row.version or '?'}: {row.steps} steps{unresolved}, lock {row.lock}")
    if error is not None:
        print_error(error)
        return error.exit_code
    return 0


def _row(row: images.Overview) -> dict[str, Any]:
    return {
        "name": row.name,
        "reference": row.reference,
        "digest": row.digest,
        "platform": row.platform,
        "version": row.version,
        "steps": row.steps,
        "unresolved": row.unresolved,
        "lock": row.lock,
    }


def _document(action: str, name: str | None, error: PatchkitError | None, extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": f"image {action}",
        "image": name,
        "stack": None,
        "target": None,
        "stand_in": False,
        "outcome": Outcome.REPORTED.value,
        **extra,
        "errors": errors_json(error),
    }


def _show(found: images.Details, *, as_json: bool) -> int:
    from patchkit.app.images import image_json

    image, lock = found.image, found.lock
    if as_json:
        document = _document("show", image.name, None, {"details": image_json(image)})
        document["stack"] = None if lock is None else {"version": lock.version, "lock": lock.digest}
        document["lock_state"] = found.lock_state
        document["steps"] = [asdict(step) for step in found.steps]
        print_json(document)
        return 0
    for line in _show_lines(found):
        print(printable(line))
    return 0


def _show_lines(found: images.Details) -> Iterator[str]:
    image, lock = found.image, found.lock
    yield f"{image.name}  {image.reference}"
    yield f"  digest      {image.digest or f'not set (patchkit image pin {image.name} fills it)'}"
    yield f"  platform    {image.platform}"
    yield f"  site        {', '.join(image.site)}"
    for name, c in image.components:
        release = f", release {c.release} ({'exact' if c.exact else 'stand-in'})" if c.release else ""
        yield f"  component   {name}: {c.repo} at {c.commit or 'an unknown commit'}{release}"
    if image.identity is not None:
        yield f"  identity    {image.identity.file} records {image.identity.commit}"
    yield f"  lock        {found.lock_state}" + (f", version {lock.version}, {lock.digest}" if lock else "")
    for step in found.steps:
        upstream = f", upstream {', '.join(step.upstream)}" if step.upstream else ""
        yield f"  step {step.id} ({step.kind}, {step.type}{upstream})"
        if step.reason:
            yield f"      {' '.join(step.reason.split())}"
        yield from (f"      {file.path}  +{file.added} -{file.removed}" for file in step.files)
        yield from (f"      unresolved: {fact}" for fact in step.unresolved)
