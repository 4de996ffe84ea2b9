"""From a file to an image or a stack: the one way in, which reports every problem at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from patchkit.core.errors import ConfigError
from patchkit.model import checks, edge, rules, yamlfile
from patchkit.model.image import Image
from patchkit.model.stack import Stack
from patchkit.model.waiver import Baseline, Waiver
from patchkit.model.yamlfile import Plain, Problem, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from patchkit.model.yamlfile import Document

T = TypeVar("T")

STACK_FILE = "stack.yaml"
COMMON = "common"


def load_image(path: Path) -> Image:
    """Load `images/NAME.yaml`.

    Raises one ConfigError that holds every problem of the file, each a line with file, line and
    path; its hint is the command to type once they are corrected.
    """
    name = path.stem
    return _load(Image, path, lambda data: checks.image(data, name), f"patchkit image show {name}")[0]


def load_stack(path: Path) -> Stack:
    """Load `patches/NAME/stack.yaml` and see that the patch files it names are there.

    Raises one ConfigError that holds every problem, as `load_image` does.
    """
    return read_stack(path)[0]


def read_stack(path: Path) -> tuple[Stack, Document]:
    """Load a stack as `load_stack` does, with the document that knows its lines."""
    folder = path.absolute().parent
    name = folder.name

    def check(data: Plain) -> Iterable[checks.Complaint]:
        yield from checks.stack(data, name)
        yield from _patch_files(data, path)

    return _load(Stack, path, check, f"patchkit lock --image {name}")


def load_waiver(path: Path) -> Waiver:
    """Load `waivers/PR.yaml`; raises as `load_image` does. What it does not state is for `waiver check` to name."""
    return read_waiver(path)[0]


def read_waiver(path: Path) -> tuple[Waiver, Document]:
    """Load a waiver as `load_waiver` does, with the document that knows its lines."""
    return _load(Waiver, path, checks.waiver, "patchkit waiver check")


def read_baseline(path: Path) -> tuple[Baseline, Document]:
    """Load `waivers/baseline.yaml`, with the document that knows its lines; raises as `load_image` does."""
    return _load(Baseline, path, checks.waiver, "patchkit waiver check")


def patch_file(stack_file: Path, name: str) -> Path:
    """Return the patch file that a step of `stack_file` calls `name`: beside it, or in patches/common/.

    Raises ConfigError where there is none, or one in each place.
    """
    found, complaint = _find_patch(stack_file, name)
    if found is None:
        raise ConfigError(f"{display(stack_file)}: {complaint}")
    return found


def display(path: Path) -> str:
    """Return how messages call a file: relative to the current directory where it lies below it."""
    here = Path.cwd()
    absolute = Path(os.path.normpath(here / path))
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else str(absolute)


def _load(
    kind: type[T], path: Path, check: Callable[[Plain], Iterable[checks.Complaint]], command: str
) -> tuple[T, Document]:
    name = display(path)
    hint = f"correct {name}, then type: {command}"
    try:
        document = yamlfile.read(path, name)
    except ConfigError as error:
        raise ConfigError(*error.problems, hint=hint) from error
    checks.fill_in(document.data)
    value, problems = edge.validate(kind, document)
    complaints = [
        Problem(line=document.line(where), where=where, text=text)
        for where, text in check(document.data)
        if not document.is_broken(where)
    ]
    explained = {complaint.where for complaint in complaints}
    problems = [found for found in problems if not (edge.is_unknown_key(found) and found.where in explained)]
    problems += (*document.problems, *complaints)
    if value is None or problems:
        problems.sort(key=lambda problem: problem.line)
        raise ConfigError(*(problem.render(name) for problem in problems), hint=hint)
    return value, document


def _patch_files(data: Plain, stack_file: Path) -> Iterator[checks.Complaint]:
    for at, step in enumerate(checks.items(data, "steps")):
        name = checks.text(step, "patch")
        if name is not None and rules.PATCH_NAME.holds(name):
            found, complaint = _find_patch(stack_file, name)
            if found is None:
                yield ("steps", at, "patch"), complaint


def _find_patch(stack_file: Path, name: str) -> tuple[Path | None, str]:
    beside = stack_file.parent / name
    common = stack_file.parent.parent / COMMON / name
    found = [place for place in (beside, common) if _is_file(place)]
    if len(found) == 1:
        return found[0], ""
    if found:
        return None, f"{shorten(name)} is there twice: {display(beside)} and {display(common)}: keep one"
    return None, f"no such file: neither {display(beside)} nor {display(common)}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
