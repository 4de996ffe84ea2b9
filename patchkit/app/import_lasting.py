"""Names what a command leaves behind that no step does: in the site, above it, or anywhere else.

Quiet are only a temporary folder that the script itself made, and working copies that go into a step.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from patchkit.app.import_story import is_temporary
from patchkit.model import shell_targets
from patchkit.model.shell_fetch import fetch
from patchkit.model.shellscript import Word

if TYPE_CHECKING:
    from patchkit.app.import_patches import Made
    from patchkit.app.import_story import Story
    from patchkit.app.import_types import SiteView
    from patchkit.model.shell_fetch import Fetch
    from patchkit.model.shell_targets import Target
    from patchkit.model.shellscript import Command

_BACKUP = re.compile(r"\.(orig|bak|backup|old|pristine)$|~$")
_LOG = re.compile(r"\.(?:log|err)$|^/var/log/")
_NO_MATCH = "no file at hand matches "
_WILD = re.compile(r"[*?]|\[.+\]")
_LOCAL = re.compile(r"(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?:[:/]|$)")
_FETCHERS = ("curl", "wget")
_MANY = 4
_LEDGER = "the ledger keeps the pristine bytes"
_MARKER = "whether a step is applied is judged from the files' bytes"
_SAID = "what a script says is no part of a stack"
_GIVE = "give the variable: --set NAME=VALUE"
_BY_HAND = "write the step by hand, or leave it to the recipe"
_PATCH = "write a patch that adds or changes the file, or a `file` step with its address and sha256"
_ELSEWHERE = "a stack changes the site alone: build it into the image, or leave it to the recipe"
_FETCH = "write a `file` step with its address and sha256 if the site needs it, else leave it to the recipe"


def name(at: int, story: Story, site: SiteView, made: Made) -> None:
    """Add to `made` what command number `at` leaves behind, unless a step of `made` does it."""
    command = story.commands[at]
    found: dict[tuple[str, str, str], list[str]] = {}
    for target in story.targets(command):
        if target.word.text is None and not target.word.why.startswith(_NO_MATCH):
            _unknown(command, target, made)
        elif not (command.program in _FETCHERS and target.how == "writes" and not target.notes):
            for code, what, fix in _lasting(at, story, site, target, made):
                places = found.setdefault((code, target.how, fix), [])
                places += [what] if what not in places else []
    for (code, how, fix), places in found.items():
        more = f" and {len(places) - _MANY} more" if len(places) > _MANY else ""
        made.problem(command, code, f"`{_shown(command)}` {how} {', '.join(places[:_MANY])}{more}", fix=fix)
    if command.program in _FETCHERS and not story.script.calls_function(command):
        _fetched(at, story, site, made)


def _shown(command: Command) -> str:
    return command.raw.split("\n", 1)[0]


def _unknown(command: Command, target: Target, made: Made) -> None:
    word = target.word
    if command.program == "exec" and word.raw.lstrip("> ").startswith("("):
        return  # its own commands are read
    if target.notes:
        made.drop(command, f"the messages to {word.raw}", _SAID)
        return
    why = f"`{_shown(command)}` {target.how} {word.raw}, which is not constant: {word.why}"
    made.problem(command, "not-constant", why, fix=_GIVE)


def _lasting(at: int, story: Story, site: SiteView, target: Target, made: Made) -> list[tuple[str, str, str]]:
    """Code, place and fix for each path that the target means, where it lasts and no step does it."""
    command, word = story.commands[at], target.word
    pattern = word.raw if word.text is None or (_WILD.search(word.raw) and not _WILD.search(word.text)) else ""
    if word.text is None:
        text = word.why.removeprefix(_NO_MATCH)
        target = shell_targets.Target(word=Word(text=text, raw=word.raw), how=target.how, notes=target.notes)
    paths = _paths(at, story, site, target)
    if not paths:
        why = f"`{_shown(command)}` {target.how} {word.raw}: the directory that it is taken from is not constant"
        made.problem(
            command, "not-constant", why, fix="let the script cd to a constant directory, or say --set PWD=DIR"
        )
    found = []
    for path in paths:
        inside = site.relative(path)
        place = site.place(path)
        if any(inside is not None and inside in draft.paths for draft in made.drafts):
            continue
        if place is not None and not (inside is not None and _is_passing(at, story, path, target)):
            if inside is None or not _dropped(command, inside, target, made):
                fix = _PATCH if target.how == "writes" else _BY_HAND
                what = pattern or inside or ("the site itself" if not place.above else f"{path}, above the site")
                found.append(("overwrite", what, fix))
        elif place is None and not (
            _is_quiet(at, story, path, target) or _dropped_outside(command, path, target, made)
        ):
            found.append(("outside", f"{pattern or path}, outside of {site.shown}", _ELSEWHERE))
    return found


def _paths(at: int, story: Story, site: SiteView, target: Target) -> list[str]:
    """The paths that a target means; the site itself, and what is above it, are folders surely."""
    command = story.commands[at]
    path = command.path(target.word.text or "")
    if path is not None and site.place(path) is not None and site.relative(path) is None and not target.into:
        target = shell_targets.Target(word=target.word, how=target.how, into=True)
    return list(dict.fromkeys(story.paths(command, target)))


def _is_passing(at: int, story: Story, path: str, target: Target) -> bool:
    """Whether a file of the site is a working copy that goes into a step, and is removed again."""
    if target.how == "removes":
        return path in story.written and story.is_used(path, -1)
    return story.is_used(path, at) and story.is_removed(path, at)


def _dropped(command: Command, path: str, target: Target, made: Made) -> bool:
    """Markers, backups and byte-code in the site are left behind on purpose."""
    name, program = posixpath.basename(path), command.program or ""
    if target.how == "removes" and (name.endswith(".pyc") or "__pycache__" in path):
        made.drop(command, "stale byte-code removed", "patchkit removes the byte-code of what it changes")
    elif (
        name.startswith(".") and (target.how == "writes" or program == "touch") and shell_targets.move(command) is None
    ):
        made.drop(command, f"the marker file {path}", _MARKER)
    elif target.how == "writes" and _BACKUP.search(name):
        made.drop(command, f"the copy {path}", _LEDGER)
    else:
        return False
    return True


def _is_quiet(at: int, story: Story, path: str, target: Target) -> bool:
    """Whether a path outside of the site does not last, or goes into a step."""
    if story.is_own(path) or (path.startswith("/dev/") and not is_temporary(path)):
        return True
    if is_temporary(path):
        if target.how == "writes":
            return story.is_read(path, at) or story.is_removed(path, at)
        return story.is_written(path)
    if target.how == "writes":
        return story.is_used(path, at)
    if target.how == "removes" and path in story.folders:
        return any(each.startswith(f"{path}/") and story.is_used(each, -1) for each in story.written)
    return path in story.written and story.is_used(path, -1)


def _dropped_outside(command: Command, path: str, target: Target, made: Made) -> bool:
    """Logs, markers and the like are named, but ask nobody for anything."""
    name, puts = posixpath.basename(path), shell_targets.move(command) is not None
    if target.notes or (_LOG.search(path) and not puts and target.how != "removes"):
        made.drop(command, f"the log {path}", _SAID)
    elif command.program == "touch" and (name.startswith(".") or is_temporary(path)):
        made.drop(command, f"the marker file {path}", _MARKER)
    elif target.how == "writes" and puts and _BACKUP.search(name):
        made.drop(command, f"the copy {path}", _LEDGER)
    elif target.how != "writes" and is_temporary(path):
        made.drop(command, f"what it does to {path}", "a temporary file is no part of a stack")
    else:
        return False
    return True


def _fetched(at: int, story: Story, site: SiteView, made: Made) -> None:
    """A fetch whose answer goes into no step."""
    command = story.commands[at]
    found = fetch(command)
    if found is None or (made.drafts and not found.more) or _asks_for_itself(command, found):
        return
    shown = _shown(command)
    what = "what it names" if found.url is None else found.url.shown
    if found.url is None or found.more:
        several = "several addresses" if found.more else "what its options name"
        made.problem(command, "fetch", f"`{shown}` fetches {several}: no step does that", fix=_FETCH)
        return
    output = found.target(command)
    if output is None:
        if any(_goes_on(taker, story, site) for taker in story.takers(found.url.text, command.line)):
            return
        if _is_probe(command, found):
            made.drop(command, f"the probe `{shown}`", "nothing of what it fetches is kept")
        else:
            made.problem(command, "fetch", f"`{shown}` fetches {what}, which goes into no step", fix=_FETCH)
        return
    if output.text is None:
        made.problem(command, "not-constant", f"`{shown}`: where it goes is not constant: {output.why}", fix=_GIVE)
        return
    path = command.path(output.text)
    if path == "/dev/null":
        made.drop(command, f"the probe `{shown}`", "nothing of what it fetches is kept")
    elif path is None or not story.is_used(path, at):
        place = path or f"{output.text}, in a directory that is not constant"
        made.problem(command, "fetch", f"`{shown}` fetches {place}, which goes into no step", fix=_FETCH)


def _asks_for_itself(command: Command, found: Fetch) -> bool:
    asked = ("--version", "--help", "-V", "-h", "--manual")
    return found.url is None and any(word.text in asked for word in command.argv[1:])


def _is_probe(command: Command, found: Fetch) -> bool:
    """Whether a fetch to the standard output only asks whether something is there."""
    words = [word.text or "" for word in command.argv[1:]]
    local = found.url is not None and _LOCAL.match(found.url.text or "") is not None
    return local or any(
        word in ("-I", "--head", "--spider") or re.fullmatch(r"-[sSfLk]*I[sSfLk]*", word) for word in words
    )


def _goes_on(taker: int, story: Story, site: SiteView) -> bool:
    """Whether the command that takes an answer was translated, or is named, or keeps it for a step."""
    made = story.made[taker]
    if made.drafts or made.findings:
        return True
    command = story.commands[taker]
    for target in story.targets(command):
        for path in story.paths(command, target) if target.how == "writes" else ():
            if story.is_used(path, taker) or site.place(path) is not None or not _is_quiet(taker, story, path, target):
                return True
    return False
