"""Calls of `git apply`, `patch` and their like, and which files of the stack a diff changes."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.model import shell_options
from patchkit.waivers import exempt
from patchkit.waivers.scan_places import HERE, place
from patchkit.waivers.scan_types import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.model.shell_types import Command

_ASKS = (
    "--check",
    "--dry-run",
    "--stat",
    "--numstat",
    "--summary",
    "--version",
    "--help",
    "--abort",
    "--show-current-patch",
)
_HEADER = re.compile(r"^(?:\+\+\+|---|rename to|diff --git) (.+)$", re.MULTILINE)
_REPOSITORY = re.compile(
    r"(?:github\.com|gitlab\.com|githubusercontent\.com(?:/raw)?)/[\w.-]+/([\w.-]+?)(?:\.git)?(?:/|$)"
)
#: A name that tells a script that patches: `apply_k3_patches.sh`, `patch_vllm.py`.
PATCHER = re.compile(r"(?:^|[/_.-])(?:patch|patches|hotfix)(?:[_.-].*)?\.(?:sh|py|bash)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    folder: str
    strip: int
    files: tuple[str, ...]
    text: str | None = None
    url: str = ""


def patches(command: Command) -> Iterator[Trace]:
    """What a call of a patching tool applies, a trace for each patch file (or for each file of a diff at hand)."""
    call = _call(command)
    if call is None:
        return
    folder = place(call.folder)
    known = folder.name != "" or folder.where == "installed"
    if not known and posixpath.isabs(call.folder) and not call.folder.startswith(("/workspace", HERE)):
        if call.text is not None:
            yield from _diff(command, call, call.text, known=False)
        return
    if call.text is not None:
        yield from _diff(command, call, call.text, known=known)
    elif not call.files:
        touches = folder.shown if known else "a diff that is read while it runs"
        yield from _fetched(command, call.url, touches, known=known)
    for file in call.files if call.text is None else ():
        yield from _file(command, call, file, known=known)


def _diff(command: Command, call: _Call, text: str, *, known: bool) -> Iterator[Trace]:
    """A diff that the script itself holds."""
    for touches in diff_touches(text, call.folder, call.strip, known=known):
        yield Trace(line=command.line, kind="patch", touches=touches, text=command.raw)


def _fetched(command: Command, url: str, touches: str, *, known: bool) -> Iterator[Trace]:
    """A diff that comes from somewhere while the script runs: its address may say of which project it is."""
    named = exempt_url(url) if url else None
    if named != "" or known:
        sure = known or bool(named)
        yield Trace(line=command.line, kind="patch", touches=url or touches, text=command.raw, sure=sure)


def _file(command: Command, call: _Call, file: str, *, known: bool) -> Iterator[Trace]:
    """A patch file: one that the script has written before, or one to be looked for."""
    path = command.path(file) or file
    content = command.files.get(path)
    if content is not None and content.text is not None:
        yield from _diff(command, call, content.text, known=known)
    elif content is not None:
        yield from _fetched(command, content.url or "", file, known=known)
    else:
        yield Trace(
            line=command.line,
            kind="patch",
            touches=file,
            text=command.raw,
            patch=path,
            folder=call.folder,
            strip=call.strip,
            sure=known or _named(path),
        )


def exempt_url(url: str) -> str | None:
    """The engine whose repository an address names; "" for a repository that is none, None for no address."""
    found = _REPOSITORY.search(url)
    return None if found is None else exempt.engine(found[1]) or ""


def _named(path: str) -> bool:
    """Whether the name of a patch file names an engine."""
    words = re.split(r"[^a-z0-9]+", path.rsplit("/", 1)[-1].lower())
    return any(word in exempt.ENGINES for word in words)


def diff_touches(text: str, folder: str, strip: int, *, known: bool) -> list[str]:
    """The files of the stack that a diff changes, applied in `folder`. `known`: the folder is the stack's."""
    found: list[str] = []
    names: list[str] = []
    for header in _HEADER.findall(text):
        name = header.split("\t")[0].strip()
        if re.match(r"a/.* b/", name):
            name = "b/" * (strip > 0) + name.rsplit(" b/", 1)[-1]
        if name not in ("/dev/null", "") and not re.match(r"\d", name):
            names.append(name)
    for name in names:
        parts = name.split("/")
        rest = "/".join(parts[strip:]) if len(parts) > strip >= 0 else name
        where = place(posixpath.join(folder, rest))
        if where.where in ("installed", "tree", "scratch"):
            shown = rest if known and where.where == "installed" and where.name == "" else where.shown
            if shown not in found:
                found.append(shown)
    return found


def _call(command: Command) -> _Call | None:
    program = command.program or ""
    if program == "git":
        return _git(command)
    if program in ("patch", "gpatch"):
        return _patch(command)
    if program == "quilt" and any(word.text in ("push", "import") for word in command.argv[1:3]):
        return _Call(folder=command.cwd or "", strip=1, files=())
    if program in ("wiggle", "stg", "gitapply") and any(
        word.text in ("import", "--replace", "-r") for word in command.argv
    ):
        return _Call(folder=command.cwd or "", strip=1, files=())
    return None


def _git(command: Command) -> _Call | None:
    words, folder = list(command.argv[1:]), command.cwd or ""
    while words and words[0].shown.startswith("-"):
        option = words.pop(0).shown
        if option in ("-C", "--work-tree", "-c", "--git-dir") and words:
            value = words.pop(0).shown
            folder = command.path(value) or value if option in ("-C", "--work-tree") else folder
        elif option.startswith("--work-tree="):
            folder = command.path(option.split("=", 1)[1]) or folder
    verb = words[0].shown if words else ""
    if verb == "cherry-pick":
        named = place(folder).name
        return _Call(folder=folder, strip=1, files=()) if named and "--abort" not in [w.shown for w in words] else None
    if verb not in ("apply", "am"):
        return None
    parsed = shell_options.parse(tuple(words[1:]), short="pC", long=(*shell_options.GIT_APPLY_VALUED, "whitespace"))
    if parsed.has(*_ASKS) and not parsed.has("--apply"):
        return None
    below = parsed.last("--directory")
    if below is not None and below.value:
        folder = posixpath.join(folder, below.value)
    if verb == "am" and parsed.has("--continue", "--skip", "--quit"):
        return None
    files = tuple(word.shown for word in parsed.operands if word.shown != "-")
    return _finish(command, folder, _strip(parsed.last("-p")), files)


def _patch(command: Command) -> _Call | None:
    parsed = shell_options.parse(command.argv[1:], short="pdiFoBYzrgVD", long=shell_options.PATCH_VALUED)
    if parsed.has(*_ASKS, "-v", "-C"):
        return None
    given_folder = parsed.last("-d", "--directory")
    folder = command.cwd or ""
    if given_folder is not None:
        value = given_folder.value or (given_folder.word.shown if given_folder.word is not None else "")
        folder = command.path(value) or value
    given = parsed.last("-i", "--input")
    files = [given.value or (given.word.shown if given.word is not None else "")] if given is not None else []
    operands = [word.shown for word in parsed.operands]
    if operands:
        target = command.path(operands[0]) or operands[0]
        folder = target
        files += operands[1:2]
    if not parsed.operands and not files and command.stdin is None and not command.redirects and len(command.argv) == 1:
        return None
    return _finish(command, folder, _strip(parsed.last("-p", "--strip")), tuple(files))


def _strip(option: shell_options.Option | None) -> int:
    value = "" if option is None or option.value is None else option.value
    return int(value) if value.isdigit() else 1


def _finish(command: Command, folder: str, strip: int, files: tuple[str, ...]) -> _Call:
    if files:
        return _Call(folder=folder, strip=strip, files=files)
    for redirect in command.redirects:
        if redirect.operator == "<":
            name = redirect.target.shown
            stdin = command.stdin
            known = stdin is not None and stdin.text is not None
            return _Call(
                folder=folder, strip=strip, files=() if known else (name,), text=stdin.text if known and stdin else None
            )
    if command.stdin is not None:
        return _Call(folder=folder, strip=strip, files=(), text=command.stdin.text, url=command.stdin.url or "")
    return _Call(folder=folder, strip=strip, files=())
