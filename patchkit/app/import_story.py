"""What a whole script does with its files: which it reads again, which become part of a step, which it removes."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from patchkit.model import shell_targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from patchkit.app.import_patches import Made
    from patchkit.app.import_types import Draft
    from patchkit.model.shell_targets import Target
    from patchkit.model.shellscript import Command, Content, Script

_ROOTS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names to compare with, nothing is made there
_MADE = re.compile(r"/tmp/mktemp\.\d+(?:/|$)")  # noqa: S108 - how shell_effects calls what mktemp makes
#: Programs that name a file without making anything of what it holds.
_BLIND = frozenset(
    [
        "rm",
        "rmdir",
        "unlink",
        "shred",
        "chmod",
        "chown",
        "chgrp",
        "touch",
        "truncate",
        "echo",
        "printf",
        "ls",
        "stat",
        "test",
        "[",
        "mkdir",
        "mktemp",
        "trap",
    ]
)
_PYTHON = re.compile(r"python[0-9.]*|pypy3?")


class Story:
    """The commands of a script, and what each of them was translated into."""

    def __init__(self, script: Script, made: Sequence[Made], folders: frozenset[str]) -> None:
        self.script, self.made, self.folders = script, made, folders
        self.commands = commands = script.commands
        self.reads: dict[str, list[int]] = defaultdict(list)
        self.removed: dict[str, list[int]] = defaultdict(list)
        self.written: set[str] = set()
        self.readers: list[int] = []
        for at, command in enumerate(commands):
            if not dead(command):
                self.note(at, command)
        self.below = {above for path in self.written for above in _above(path)}

    def note(self, at: int, command: Command) -> None:
        """Take down which files a command names."""
        targets = self.targets(command)
        for target in targets:
            later = any(condition.relation == "trap" for condition in command.conditions)
            for path in self.paths(command, target):
                if target.how == "removes":
                    self.removed[path].append(len(self.commands) if later else at)
                elif target.how == "writes":
                    self.written.add(path)
        if command.stdin is not None:
            self.readers.append(at)
        if command.program in _BLIND or self.script.calls_function(command):
            return
        written = {target.word for target in targets if target.how == "writes"}
        named = [word for word in command.argv[1:] if word not in written]
        named += [redirect.target for redirect in command.redirects if redirect.operator == "<"]
        for word in named:
            text = re.sub(r"^--?[\w-]+=|^@", "", word.text or "")
            read = command.path(text) if text else None
            if read is not None and (not self.reads[read] or self.reads[read][-1] != at):
                self.reads[read].append(at)

    def targets(self, command: Command) -> tuple[Target, ...]:
        """What a command names to be changed; a function's words are for its own commands to name."""
        found = shell_targets.targets(command)
        if not self.script.calls_function(command):
            return found
        redirected = {redirect.target for redirect in command.redirects}
        return tuple(target for target in found if target.word in redirected)

    def paths(self, command: Command, target: Target) -> list[str]:
        """The absolute paths that a target means: with the names of what is put there, where it is a folder."""
        path = None if target.word.text is None else command.path(target.word.text)
        if path is None:
            return []
        moved = shell_targets.move(command)
        if moved is None or target.word != moved.target or not (target.into or path in self.folders):
            return [path]
        names = [posixpath.basename(word.text or "") for word in moved.sources]
        return [posixpath.join(path, name) if name not in ("", ".", "..", "*") else path for name in names]

    def is_own(self, path: str) -> bool:
        """Whether a path lies in a temporary folder that the script itself made."""
        return bool(_MADE.match(path)) or any(
            is_temporary(above) and above in self.folders for above in (path, *_above(path))
        )

    def is_read(self, path: str, at: int) -> bool:
        """Whether a command behind number `at` reads the file, or the folder that it is in."""
        places = (path, *(above for above in _above(path) if is_temporary(above)))
        return any(later > at for place in places for later in self.reads.get(place, ()))

    def is_removed(self, path: str, at: int) -> bool:
        """Whether a command behind number `at` removes the file, or the folder that it is in."""
        return any(later > at for place in (path, *_above(path)) for later in self.removed.get(place, ()))

    def is_written(self, path: str) -> bool:
        """Whether the script writes the file, or one in the folder."""
        return path in self.written or path in self.folders or path in self.below

    def is_used(self, path: str, at: int) -> bool:
        """Whether what is written to `path` by command number `at` becomes part of a step."""
        waiting, seen = [(path, at)], {path}
        while waiting:
            each, start = waiting.pop()
            for later in self.reads.get(each, ()):
                if later <= start:
                    continue
                command = self.commands[later]
                if self.made[later].drafts:
                    if _feeds(command, each):
                        return True
                    continue
                content = command.files.get(each)
                if content is not None and not self.ends(command) and self.is_part(content):
                    return True
                copies = {new for target in self.targets(command) for new in self.paths(command, target)}
                waiting += [(new, later) for new in copies - seen]
                seen |= copies
        return False

    def ends(self, command: Command) -> bool:
        """Whether what a command reads goes to a file that it names."""
        return any(target.how == "writes" and not target.notes for target in self.targets(command))

    def is_part(self, content: Content) -> bool:
        """Whether a content is part of what a step is made of."""
        if content.text is None:
            return any(_same(content, command.stdin) for command in self.translated())
        data = content.text.encode("utf-8", "surrogateescape")
        if not data.strip():
            return False
        return any(draft.patch is not None and data in draft.patch for draft in self.drafts()) or any(
            command.stdin is not None and content.text in (command.stdin.text or "") for command in self.translated()
        )

    def takers(self, url: str | None, line: int) -> Iterator[int]:
        """The commands whose standard input is what was fetched in `line` from `url`."""
        for at in self.readers:
            stdin = self.commands[at].stdin
            if stdin is not None and stdin.text is None and stdin.url == url and stdin.line == line:
                yield at

    def translated(self) -> Iterator[Command]:
        """The commands that steps were made of."""
        pairs = zip(self.commands, self.made, strict=True)
        return (command for command, made in pairs if made.drafts and not dead(command))

    def drafts(self) -> Iterable[Draft]:
        """The steps of all commands."""
        pairs = zip(self.commands, self.made, strict=True)
        return (draft for command, made in pairs if not dead(command) for draft in made.drafts)


def dead(command: Command) -> bool:
    """Whether a command never runs, by the script's own values."""
    return any(condition.held is False or condition.relation == "uncalled" for condition in command.conditions)


def is_temporary(path: str) -> bool:
    """Whether a path lies strictly below a folder for temporary files."""
    return path.startswith(tuple(f"{root}/" for root in _ROOTS))


def _above(path: str) -> Iterator[str]:
    """The folders above a path, the root left out."""
    while (path := posixpath.dirname(path)) not in ("/", ""):
        yield path


def _feeds(command: Command, path: str) -> bool:
    """Whether a translated command takes its change from `path`: of a Python program the program counts, not its words."""
    if not _PYTHON.fullmatch(command.program or ""):
        return True
    words = [word.text or "" for word in command.argv[1:] if not re.match(r"-.", word.text or "")]
    read = [redirect.target.text or "" for redirect in command.redirects if redirect.operator == "<"]
    return any(command.path(text) == path for text in (*words[:1], *read))


def _same(content: Content, other: Content | None) -> bool:
    return other is not None and content.url is not None and (content.url, content.line) == (other.url, other.line)
