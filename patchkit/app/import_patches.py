"""Translates `git apply`, `git am` and `patch`: which diff, onto which directory, how many parts stripped."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from patchkit.app.import_types import Draft, Dropped, Finding, SiteView
from patchkit.core.diffs import DiffError, parse
from patchkit.model import shell_effects, shell_options
from patchkit.model.shellscript import Content, Word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.model.shell_options import Option, Parsed
    from patchkit.model.shellscript import Command, Disk

_PULL = re.compile(
    r"https?://(?:github\.com|patch-diff\.githubusercontent\.com/raw)/([\w.-]+/[\w.-]+)/pull/(\d+)(?:\.\w+|/files\S*)?/?"
)
_PULL_API = re.compile(r"https?://api\.github\.com/repos/([\w.-]+/[\w.-]+)/pulls/(\d+)")
_COMMIT = re.compile(r"https?://github\.com/([\w.-]+/[\w.-]+)/commit/([0-9a-f]{40})(?:\.\w+)?")

_DEEPEST = 32
_UNKNOWN_STRIP = -1
_NO_FUZZ = "a hunk that fits only with fuzz may land in the wrong place: patchkit never uses it"
_EXACT = "every line of a hunk must be there exactly"
_ALL_OR_NOTHING = "a stack is applied all or nothing"
_FORWARD = "whether a step is applied already is judged from the files' bytes"
#: Options that make a tool less strict, or do what patchkit does another way, and why they go.
_LOOSE: Mapping[str, str] = {
    "-F": _NO_FUZZ,
    "--fuzz": _NO_FUZZ,
    "-C": _NO_FUZZ,
    "-l": _EXACT,
    "--ignore-whitespace": _EXACT,
    "--ignore-space-change": _EXACT,
    "--whitespace": "added lines stay as the diff has them",
    "--reject": _ALL_OR_NOTHING,
    "-3": "a three-way merge is a decision of its own: patchkit bump offers it, apply does not",
    "--3way": "a three-way merge is a decision of its own: patchkit bump offers it, apply does not",
    "-N": _FORWARD,
    "--forward": _FORWARD,
    "-t": _FORWARD,
    "--batch": _FORWARD,
    "-f": _FORWARD,
    "--force": _FORWARD,
    "-b": "the ledger keeps the pristine bytes",
    "--backup": "the ledger keeps the pristine bytes",
    "--recount": "the counts in a hunk's header must be right",
    "--inaccurate-eof": _EXACT,
}
_ASKS = ("--check", "--dry-run", "--stat", "--numstat", "--summary")
_FIXES: Mapping[str, str] = {
    "reverse": "turn the diff round and import that, or remove the step that it undoes",
    "options": "cut the diff to the part that is meant",
    "outside": "let the script cd into the site, say where it is with --site, or give the variable: --set NAME=VALUE",
    "not-constant": "give the variable: --set NAME=VALUE; or put the diff into a file and a `patch` step beside it",
    "missing-file": "put the file beside the script, where it calls it, and import again",
    "bad-diff": "mend the diff and import again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a command line asks of `git apply` or `patch`. `strip` None: the file name alone counts."""

    root: str | None
    strip: int | None
    reverse: bool = False
    asks: bool = False
    loose: tuple[tuple[str, str], ...] = ()
    refused: str = ""
    file: str | None = None
    sources: tuple[Content, ...] = ()
    names: tuple[str, ...] = ()
    why: str = ""


@dataclass(slots=True)
class Made:
    """What one command gives."""

    drafts: list[Draft] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)

    def problem(self, command: Command, code: str, message: str, *, fix: str = "", line: int = 0) -> None:
        """Note something that was not translated."""
        where = line or command.line
        calls = command.calls if where == command.line else ()
        fix = fix or _FIXES.get(code, "")
        self.findings.append(Finding(line=where, code=code, message=message, fix=fix, calls=calls))

    def drop(self, command: Command, what: str, why: str) -> None:
        """Note something that is left behind on purpose."""
        self.dropped.append(Dropped(line=command.line, what=what, why=why))


def git_subcommand(command: Command) -> tuple[str, int]:
    """`git [-C DIR] SUBCOMMAND`: the subcommand, and where its words start."""
    at = 1
    argv = command.argv
    while at < len(argv) and (argv[at].text or "").startswith("-"):
        at += 2 if argv[at].text in ("-C", "-c", "--git-dir", "--work-tree") else 1
    return (argv[at].text or "" if at < len(argv) else ""), at


def read_call(command: Command, disk: Disk | None) -> Call:
    """Understand the command line of `git apply`, `git am` or `patch`."""
    if command.program == "git":
        return _git_call(command, disk)
    return _patch_call(command, disk)


def _git_call(command: Command, disk: Disk | None) -> Call:
    argv = command.argv
    _, at = git_subcommand(command)
    root = command.cwd
    for index in range(1, at):
        if argv[index].text == "-C":
            root = None if argv[index + 1].text is None else command.path(argv[index + 1].text or "")
    parsed = shell_options.parse(argv[at + 1 :], short="pC", long=shell_options.GIT_APPLY_VALUED)
    folder = parsed.last("--directory")
    if folder is not None:
        root = _below(root, folder.value)
    refused = next((o.name for o in parsed.options if o.name in ("--include", "--exclude")), "")
    return _call(command, parsed, root, _strip(parsed, "-p", default=1), refused, parsed.operands, disk)


def _patch_call(command: Command, disk: Disk | None) -> Call:
    parsed = shell_options.parse(command.argv[1:], short="pdiFoBYzVDrgx", long=shell_options.PATCH_VALUED)
    root = command.cwd
    folder = parsed.last("-d", "--directory")
    if folder is not None:
        root = _below(root, folder.value)
    refused = "-o" if parsed.has("-o", "--output") else "-D" if parsed.has("-D", "--ifdef") else ""
    operands = parsed.operands
    inputs = tuple(operands[1:2])
    given = parsed.last("-i", "--input")
    if given is not None and given.word is not None:
        text = given.value
        inputs = (given.word if text is None else Word(text=text, raw=text),)
    call = _call(command, parsed, root, _strip(parsed, "-p", "--strip", default=None), refused, inputs, disk)
    if not operands:
        return call
    file = operands[0].text
    if file is None:
        return replace(call, why=f"{operands[0].raw}: {operands[0].why}")
    return replace(call, file=posixpath.normpath(posixpath.join(root or "", file)))


def _call(
    command: Command,
    parsed: Parsed,
    root: str | None,
    strip: int | None,
    refused: str,
    inputs: tuple[Word, ...],
    disk: Disk | None,
) -> Call:
    """What both tools have in common."""
    sources: list[Content] = []
    names: list[str] = []
    for word in inputs or (None,):
        if word is None or word.text == "-":
            stdin = command.stdin
            sources.append(stdin or Content(text=None, why="it is read from the standard input"))
            read = [redirect.target.text for redirect in command.redirects if redirect.operator == "<"]
            names.append(read[-1] or "" if read else "")
        elif word.text is None:
            sources.append(Content(text=None, why=f"{word.raw}: {word.why}"))
            names.append("")
        else:
            sources.append(shell_effects.read(command, word.text, disk))
            names.append(word.text)
    loose = tuple(
        (_spelt(o), _LOOSE[o.name])
        for o in parsed.options
        if o.name in _LOOSE and not (o.name == "-C" and command.program == "patch")
    )
    return Call(
        root=root,
        strip=strip,
        reverse=parsed.has("-R", "--reverse"),
        asks=parsed.has(*_ASKS) and not parsed.has("--apply"),
        loose=loose,
        refused=refused,
        sources=tuple(sources),
        names=tuple(names),
        why="how many parts -p strips" if strip == _UNKNOWN_STRIP else "",
    )


def _spelt(option: Option) -> str:
    equals = "=" if option.name.startswith("--") else ""
    return option.name if option.value is None else f"{option.name}{equals}{option.value}"


def _below(root: str | None, folder: str | None) -> str | None:
    if folder is None or (root is None and not folder.startswith("/")):
        return None
    return posixpath.normpath(posixpath.join(root or "/", folder))


def _strip(parsed: Parsed, *names: str, default: int | None) -> int | None:
    option = parsed.last(*names)
    if option is None:
        return default
    return int(option.value) if option.value is not None and option.value.isdigit() else _UNKNOWN_STRIP


def translate(command: Command, call: Call, site: SiteView) -> Made:
    """Make steps of what the call applies."""
    made = Made()
    shown = command.raw.split("\n", 1)[0]
    if call.asks:
        why = "patchkit judges every step before it changes a byte"
        made.drop(command, f"`{shown}`: a trial run", why)
    elif call.reverse:
        made.problem(command, "reverse", f"`{shown}` takes a diff back (-R): a stack only adds")
    elif call.refused:
        made.problem(command, "options", f"`{shown}`: {call.refused} takes a part of the diff, or puts it elsewhere")
    elif call.why:
        made.problem(command, "not-constant", f"`{shown}`: not constant: {call.why}")
    else:
        for source, name in zip(call.sources, call.names, strict=True):
            _one(command, call, source, name, site, made)
        for what, why in call.loose if made.drafts else ():
            made.drop(command, what, why)
    return made


def _one(command: Command, call: Call, source: Content, name: str, site: SiteView, made: Made) -> None:
    shown = command.raw.split("\n", 1)[0]
    if source.text is None and source.url is None:
        missing = "no such file" in source.why
        made.problem(
            command,
            "missing-file" if missing else "not-constant",
            f"`{shown}`: {source.why}" if missing else f"`{shown}`: the diff is not constant: {source.why}",
        )
        return
    root = posixpath.dirname(call.file) if call.file is not None else call.root
    place = None if root is None else site.place(root)
    if place is None:
        where = root or "a directory that is not constant"
        made.problem(command, "outside", f"`{shown}` patches {where}; the image's site is {site.shown}")
        return
    if source.text is None:
        _remote(command, call, source, place.below, len(place.above), made)
        return
    data = source.text.encode("utf-8", "surrogateescape")
    try:
        strip, prefix = _aim(data, call, site)
        sections = parse(data, strip=strip, prefix=prefix)
    except DiffError as error:
        _bad(command, source, name, str(error), made)
        return
    except _AimError as error:
        made.problem(command, "outside", f"`{shown}`: {error}")
        return
    body: dict[str, Any] = {"patch": None}
    if strip != 1:
        body["strip"] = strip
    if prefix:
        body["prefix"] = prefix
    file_name = posixpath.basename(name)
    made.drafts.append(
        Draft(
            lines=_lines(command, source),
            body=body,
            hint=stem(file_name) or stem(posixpath.basename(sections[0].path)),
            paths=tuple(dict.fromkeys(path for section in sections for path in section.paths)),
            patch=data,
            file_name=file_name if file_name.endswith((".patch", ".diff")) else "",
            what=shown,
        )
    )


def _lines(command: Command, source: Content) -> tuple[int, ...]:
    """Where the diff stands, and where it is applied: in a function, the line of the outermost call."""
    applied = command.calls[0] if command.calls else command.line
    return tuple(sorted({line for line in (source.line, applied) if line}))


def _bad(command: Command, source: Content, name: str, error: str, made: Made) -> None:
    """A diff that cannot be applied from its text: at the line of the script where the trouble is."""
    match = re.match(r"line (\d+): (.*)", error, re.DOTALL)
    what = name or "the diff"
    if match is None or not source.line:
        made.problem(command, "bad-diff", f"{what}: {error}")
    else:
        line = source.line + int(match[1]) - 1
        made.problem(command, "bad-diff", f"{what}, applied in line {command.line}: {match[2]}", line=line)


class _AimError(ValueError):
    """The diff names files that cannot be placed in the site."""


def _aim(data: bytes, call: Call, site: SiteView) -> tuple[int, str]:
    """`strip` and `prefix` of the step: from where the script stands to where the site starts."""
    if call.file is not None:
        return _aim_at(data, call.file, site)
    assert call.root is not None
    place = site.place(call.root)
    assert place is not None
    if call.strip is None:
        return _aim_by_name(data)[0], place.below
    sections = parse(data, strip=call.strip)
    if not place.above:
        return call.strip, place.below
    for path in (path for section in sections for path in section.paths):
        if site.relative(posixpath.join(call.root, path)) is None:
            raise _AimError(f"it changes {posixpath.join(call.root, path)}, which lies outside of {site.shown}")
    return call.strip + len(place.above), ""


def _aim_by_name(data: bytes) -> tuple[int, str]:
    """`strip` that leaves the last part of each name alone, as `patch` without -p does, and that part."""
    for strip in range(_DEEPEST):
        try:
            paths = {path for section in parse(data, strip=strip) for path in section.paths}
        except DiffError:
            continue
        if not any("/" in path for path in paths):
            return strip, paths.pop() if len(paths) == 1 else ""
    parse(data)  # the error of a diff that cannot be read at all
    raise _AimError("`patch` without -p takes file names alone, and the diff names files at different depths")


def _aim_at(data: bytes, file: str, site: SiteView) -> tuple[int, str]:
    """`patch FILE < DIFF`: the diff is for that file, whatever it calls it."""
    wanted = site.relative(file)
    if wanted is None:
        raise _AimError(f"it patches {file}, which lies outside of {site.shown}")
    strip, name = _aim_by_name(data)
    if not name:
        raise _AimError(f"it patches {file}, but the diff names several files")
    if name != posixpath.basename(wanted):
        raise _AimError(f"it patches {file}, but the diff names {name}")
    return strip, posixpath.dirname(wanted)


def _remote(command: Command, call: Call, source: Content, prefix: str, above: int, made: Made) -> None:
    """A diff by its address: a commit where the address names one, else what it is called and nothing more."""
    url = source.url or ""
    shown = command.raw.split("\n", 1)[0]
    pull, commit = _PULL.match(url) or _PULL_API.match(url), _COMMIT.match(url)
    body: dict[str, Any] = {"patch": None}
    upstream: tuple[str, ...] = ()
    if commit is not None:
        body["patch"] = {"commit": f"{commit[1]}@{commit[2]}", "paths": None}
        hint = f"{commit[1].split('/')[1]}-{commit[2][:9]}"
    elif pull is not None:
        body["patch"] = {"commit": None, "paths": None}
        upstream = (f"{pull[1]}#{pull[2]}",)
        hint = f"{pull[1].split('/')[1]}-{pull[2]}"
        why = "its content moves with the pull request: the step waits for the commit that is meant"
        made.dropped.append(Dropped(line=source.line or command.line, what=f"the address {url}", why=why))
    else:
        hint = stem(posixpath.basename(url.split("?")[0])) or "remote-patch"
        why = "it names no commit, so nothing tells what it will answer tomorrow: the step waits for a patch"
        made.dropped.append(Dropped(line=source.line or command.line, what=f"the address {url}", why=why))
    strip = 1 if call.strip is None else call.strip
    if strip + above != 1:
        body["strip"] = strip + above
    if prefix:
        body["prefix"] = prefix
    lines = _lines(command, source)
    made.drafts.append(Draft(lines=lines, body=body, hint=hint, upstream=upstream, what=shown, origin=url))


def stem(name: str) -> str:
    """A file's name as a step's id: without number and suffix."""
    text = re.sub(r"\.(patch|diff|py|txt|sh|co|h|hpp|cpp|cu|json|ya?ml)$", "", name.lower())
    text = re.sub(r"^\d+[-_.]", "", text)
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")
