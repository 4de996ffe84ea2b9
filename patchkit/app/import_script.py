"""Makes a stack of a hand-written apply script. The script is read, never run.

What it does to the site becomes steps; what patchkit does another way, or more strictly, is named and
left behind; everything else is a finding with its line. `plan` decides, `write` puts it on disk.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.app import import_commands, import_lasting, import_stack
from patchkit.app.import_gate import gate
from patchkit.app.import_patches import Made, stem
from patchkit.app.import_story import Story, dead
from patchkit.app.import_types import Draft, Dropped, Finding, Known, SiteView, places
from patchkit.core.diffs import DiffError, parse
from patchkit.core.errors import ConfigError
from patchkit.model import rules, shell_targets, shellscript
from patchkit.model.load import COMMON, display, load_image, load_stack
from patchkit.model.shellscript import readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.app.import_gate import Gate
    from patchkit.app.project import Project
    from patchkit.model.shellscript import Command, Script

_MAX_FILE = 64 * 1024 * 1024
_GENERIC = re.compile(r"p|patch|tmp|temp|diff|fix|change|changes|file|out|x|mktemp-\d+|the-patch|")
_MAILED = (b"From ", b"From: ", b"Subject: ", b"Description: ", b"Date: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStep:
    """A step to be written: `lines` are where the script says it, `file` the patch file that it brings."""

    id: str
    kind: str
    lines: tuple[int, ...]
    paths: tuple[str, ...]
    file: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that an import does: `files` holds each file's content by its path below the project."""

    image: str
    script: str
    steps: tuple[NewStep, ...]
    findings: tuple[Finding, ...]
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    files: Mapping[str, bytes]
    stack_file: str
    creates: bool
    version: int
    proposed: int


class Beside:
    """The files of the tree that a script lies in: its repository, else its folder."""

    def __init__(self, script: Path) -> None:
        folder = Path(os.path.realpath(script.parent))
        above = (folder, *folder.parents)
        self.root = next((each for each in above if (each / ".git").exists()), folder)

    def read(self, path: str) -> bytes | None:
        """The content of an absolute path in the tree; None for anything else."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self.root) or not real.is_file() or real.stat().st_size > _MAX_FILE:
            return None
        return real.read_bytes()

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of the files in a folder of the tree."""
        real = Path(os.path.realpath(folder))
        if not real.is_relative_to(self.root) or not real.is_dir():
            return ()
        return tuple(sorted(each.name for each in real.iterdir() if each.is_file()))


def plan(
    project: Project, image: str, script: Path, *, given: Mapping[str, str] | None = None, site: str | None = None
) -> Plan:
    """Read `script` and decide everything; nothing is written.

    `given` are values of variables that the script itself does not fix, `site` stands for the image's own.
    Raises ConfigError for a script that is none, a broken project, and ids or files that are there already.
    """
    globs = (site.strip("/"),) if site is not None else load_image(Path(project.image_file(image))).site
    path = os.path.abspath(script)
    home = posixpath.dirname(path)
    given = dict(given or {})
    read = shellscript.parse(
        _bytes(script), display(script), path=path, cwd=given.get("PWD", home), given=given, disk=Beside(Path(path))
    )
    translation = _Translation(read, SiteView(globs=globs), Beside(Path(path)), home)
    translation.run()
    return _assemble(project, image, script.name, translation)


def _bytes(script: Path) -> bytes:
    try:
        if script.exists() and not script.is_file():
            raise ConfigError(f"{display(script)}: not a regular file", hint="name a shell script")
        return script.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{display(script)}: there is no such file", hint="name a shell script") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{display(script)}: cannot be read: {error}", hint="name a shell script") from None


class _Translation:
    """The commands of a script, one after the other, each through its gate."""

    def __init__(self, script: Script, site: SiteView, disk: Beside, home: str) -> None:
        self.script, self.site, self.disk, self.home = script, site, disk, home
        self.drafts: dict[tuple[object, ...], Draft] = {}
        self.findings: dict[tuple[int, str], Finding] = {}
        self.dropped: dict[tuple[int, str], Dropped] = {}

    def run(self) -> None:
        commands = self.script.commands
        sums = {path: found for command in commands for path, found in import_commands.checksums(command).items()}
        folders = {path for command in commands if not dead(command) for path in shell_targets.folders(command)}
        known = Known(sums=sums, folders=frozenset(folders))
        story = Story(self.script, [self.translated(command, known) for command in commands], known.folders)
        for at, (command, made) in enumerate(zip(commands, story.made, strict=True)):
            import_lasting.name(at, story, self.site, made)
            if made.drafts or made.findings or made.dropped:
                self.take(command, made, gate(command, self.script, self.site, self.home))
        for remark in self.script.remarks:
            if remark.kind == "ends":
                shown = remark.text.split("\n", 1)[0]
                self.drop(remark.line, f"the early end `{shown}`", "a stack is applied whole, or not at all")

    def translated(self, command: Command, known: Known) -> Made:
        """What one command gives; the call of a function gives what its commands do."""
        if self.script.calls_function(command):
            return Made()
        return import_commands.translate(command, self.site, self.disk, known)

    def drop(self, line: int, what: str, why: str) -> None:
        what, why = readable(what), readable(why)
        self.dropped.setdefault((line, what), Dropped(line=line, what=what, why=why))

    def find(self, finding: Finding) -> None:
        finding = replace(finding, message=readable(finding.message))
        self.findings.setdefault((finding.line, finding.message), finding)

    def take(self, command: Command, made: Made, found: Gate) -> None:
        """Keep what a command gives, as its gate says."""
        shown = command.raw.split("\n", 1)[0]
        condition = found.condition
        if condition is None:
            for draft in made.drafts:
                self.add(command, draft)
            for finding in made.findings:
                self.find(finding)
            for dropped in made.dropped:
                self.drop(dropped.line, dropped.what, dropped.why)
            return
        if not (made.drafts or made.findings):
            return
        why = f"`{condition.raw}` in line {condition.line}"
        if found.verdict == "never":
            reason = (
                "no command calls or reaches it"
                if condition.relation == "uncalled"
                else f"by the script's own values, {why} decides against it"
            )
            self.drop(command.line, f"`{shown}`", reason)
        elif found.verdict == "second":
            same = bool(made.drafts) and all(draft.key in self.drafts for draft in made.drafts)
            if same or not made.drafts:
                self.drop(command.line, f"the second way `{shown}`", f"it runs only after {why}: a step has one way")
            else:
                fix = "decide which of the two is meant, and write that step"
                self.find(Finding(line=command.line, code="condition", calls=command.calls, fix=fix,
                                  message=f"`{shown}` runs only where {why} fails"))  # fmt: skip
        elif found.verdict == "later":
            self.find(Finding(line=command.line, code="command", calls=command.calls, fix="write the step by hand, or leave it to the recipe",
                              message=f"`{shown}` runs at the end, or at a signal: {why}"))  # fmt: skip
        else:
            fix = "decide it: --set NAME=VALUE where a variable is all that is missing; else write the step"
            self.find(Finding(line=command.line, code="condition", calls=command.calls, fix=fix,
                              message=f"`{shown}` runs only as {why} turns out"))  # fmt: skip

    def add(self, command: Command, draft: Draft) -> None:
        if draft.key in self.drafts:
            self.drop(command.line, "the same once more", f"line {self.drafts[draft.key].lines[-1]} does it already")
            return
        self.drafts[draft.key] = draft
        if command.tolerated:
            what = command.tolerated.split("\n", 1)[0]
            self.drop(command.line, f"`{what}`" if what.startswith("||") else what,
                      "a step that fails stops everything, and nothing is changed")  # fmt: skip


def _assemble(project: Project, image: str, script: str, made: _Translation) -> Plan:
    """Give steps their ids and files, and the stack its text."""
    stack_path = Path(project.stack_file(image))
    creates = not stack_path.exists()
    stack = None if creates else load_stack(stack_path)
    taken = set() if stack is None else {step.id for step in stack.steps}
    steps, files = _named(made.drafts.values(), script)
    problems = [f"{display(stack_path)}: it has a step {step.id} already" for step in steps if step.id in taken]
    folder = stack_path.parent
    for name in files:
        places = (folder / name, folder.parent / COMMON / name)
        problems += [f"{display(place)}: it is there already" for place in places if os.path.lexists(place)]
    if problems:
        raise ConfigError(*problems, hint="nothing was written; remove what was imported before, or rename it")
    contents = {f"patches/{image}/{name}": data for name, data in files.items()}
    relative = f"patches/{image}/stack.yaml"
    plain = [dict(step.data) for step in steps]
    if plain and creates:
        contents[relative] = import_stack.new_stack(image, script, plain).encode("utf-8")
    elif plain:
        text = stack_path.read_bytes().decode("utf-8")
        contents[relative] = import_stack.appended(text, plain, display(stack_path)).encode("utf-8")
    version = 1 if stack is None else stack.version
    proposed = _proposed(project, image, version)
    return Plan(
        image=image,
        script=display(Path(made.script.name)),
        steps=tuple(steps),
        findings=tuple(sorted(made.findings.values(), key=lambda finding: finding.line)),
        dropped=tuple(sorted(made.dropped.values(), key=lambda dropped: dropped.line)),
        notes=_notes(made.script, image, version, proposed if plain else version, steps),
        files=contents,
        stack_file=relative,
        creates=creates,
        version=version,
        proposed=proposed if plain else version,
    )


def _proposed(project: Project, image: str, version: int) -> int:
    """The version that a changed stack needs: a higher one where this one was locked."""
    try:
        versions = project.lock_as_it_is(image).versions
    except ConfigError:
        return version
    return max(int(each) for each in versions) + 1 if str(version) in versions else version


def _notes(script: Script, image: str, version: int, proposed: int, steps: list[NewStep]) -> tuple[str, ...]:
    notes = [f"{name} is taken as {value}, its default in the script" for name, value in script.assumed]
    if proposed != version:
        notes.append(
            f"version {version} of the stack was locked: set `version: {proposed}` in patches/{image}/stack.yaml"
        )
    if steps:
        notes.append(f"next: patchkit lock --image {image}")
    return tuple(notes)


def _named(drafts: Iterable[Draft], script: str) -> tuple[list[NewStep], dict[str, bytes]]:
    """Ids and file names, each once."""
    steps: list[NewStep] = []
    ids: set[str] = set()
    files: dict[str, bytes] = {}
    for draft in drafts:
        key = _free(_id(draft), ids)
        ids.add(key)
        body = dict(draft.body)
        name = None
        if draft.patch is not None:
            name = draft.file_name
            if not name or not rules.PATCH_NAME.holds(name) or key != draft.hint:
                name = f"{key}.patch"
            files[name] = _headed(draft, script)
            body["patch"] = name
        data: dict[str, Any] = {"id": key, **body}
        if draft.upstream:
            data["upstream"] = list(draft.upstream)
        else:
            data["type"] = "local"
        data["reason"] = f"Imported from {script}, {places(draft.lines)}."
        kind = next(iter(draft.body))
        steps.append(NewStep(id=key, kind=kind, lines=draft.lines, paths=draft.paths, file=name, data=data))
    return steps, files


def _id(draft: Draft) -> str:
    hint = draft.hint
    if _GENERIC.fullmatch(hint) and draft.paths:
        hint = stem(posixpath.basename(draft.paths[0]))
    return hint if rules.STEP_ID.holds(hint) else f"step-{hint.strip('-')}".rstrip("-")


def _free(wanted: str, taken: set[str]) -> str:
    """`wanted`, or with the first number behind it that is free."""
    number = 2
    found = wanted
    while found in taken:
        found, number = f"{wanted}-{number}", number + 1
    return found


def _headed(draft: Draft, script: str) -> bytes:
    """The diff as the script has it, byte for byte, under a DEP-3 header where it has none."""
    data = draft.patch or b""
    if data.startswith(_MAILED):
        return data
    name = "".join(c for c in script if c.isprintable())
    head = (
        f"Description: imported from {name}, {places(draft.lines)}\nOrigin: other, {name}\nForwarded: not-needed\n---\n"
    )
    headed = head.encode("utf-8", "surrogateescape") + data
    try:
        strip, prefix = int(draft.body.get("strip", 1)), str(draft.body.get("prefix", ""))
        same = len(parse(headed, strip=strip, prefix=prefix)) == len(parse(data, strip=strip, prefix=prefix))
    except DiffError:
        return data
    return headed if same else data


def write(project: Project, made: Plan) -> tuple[str, ...]:
    """Put the plan's files on disk, the stack last; return their paths. A file that is there is never overwritten."""
    written: list[str] = []
    try:
        for relative, data in made.files.items():
            path = Path(project.path(relative))
            path.parent.mkdir(parents=True, exist_ok=True)
            if relative == made.stack_file and not made.creates:
                _replace(path, data)
            else:
                with path.open("xb") as stream:
                    written.append(relative)
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
    except FileExistsError as error:
        _undo(project, written)
        raise ConfigError(f"{error.filename}: it is there already", hint="nothing was written") from None
    except BaseException:
        _undo(project, written)
        raise
    return tuple(made.files)


def _undo(project: Project, written: list[str]) -> None:
    for relative in written:
        Path(project.path(relative)).unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    temp = path.with_name(f"{path.name}.tmp")
    with temp.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temp, path)
