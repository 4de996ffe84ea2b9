"""Translates one command of a script at a time: which program it is decides who reads it.

What no translator knows is named, never passed over: only programs that change nothing are skipped.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from patchkit.app import import_packages, import_patches
from patchkit.app.import_patches import Made, stem
from patchkit.app.import_python import follow
from patchkit.app.import_types import Draft
from patchkit.model import rules, shell_effects, shell_fetch, shell_options, shell_targets
from patchkit.model.shellscript import Content

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from patchkit.app.import_python import Replacement
    from patchkit.app.import_types import Known, SiteView
    from patchkit.model.shell_fetch import Fetch
    from patchkit.model.shellscript import Command, Disk

#: Programs and builtins that change no file of the site.
_NAMES = (
    "[ : . true false test echo printf cat grep egrep fgrep rg head tail wc sort uniq cut tr diff cmp comm sha256sum"
    " sha1sum md5sum stat file ls find which type hash command date sleep wait set shopt export local declare typeset"
    " readonly unset cd pushd popd pwd return exit break continue shift read getopts let mkdir mktemp mapfile"
    " readarray id whoami uname hostname env printenv nproc free df du ps kill rocm-smi rocminfo nvidia-smi amd-smi"
    " dirname basename realpath readlink seq jq ulimit umask tput clear time history alias od"
    " xxd hexdump less more base64 column nl tac yes expr bc rev fold paste rmdir sync jobs bg fg disown times"
    " sha224sum sha384sum sha512sum b2sum cksum zcat zgrep bzcat xzcat strings nm objdump readelf ldd arch getconf"
    " getent groups logname who w uptime vmstat pstree pgrep pidof ss netstat lsof lscpu lspci lsmod lsblk tty join"
    " shuf numfmt cp mv install ln rsync rm tee dd truncate touch chmod chown chgrp unlink shred compgen caller printenv"
)
HARMLESS = frozenset(_NAMES.split())
_GIT_QUIET = frozenset(
    [
        "status",
        "diff",
        "log",
        "show",
        "rev-parse",
        "--version",
        "version",
        "ls-files",
        "ls-tree",
        "ls-remote",
        "rev-list",
        "describe",
        "cat-file",
        "blame",
        "grep",
        "merge-base",
        "shortlog",
        "help",
        "name-rev",
        "for-each-ref",
        "show-ref",
        "diff-tree",
        "diff-files",
        "diff-index",
        "check-ignore",
    ]
)
_GIT_BOOKS = frozenset(["config", "init", "add", "commit", "tag"])
_EDITORS = ("sed", "perl", "awk", "gawk", "mawk", "ed", "ex")
_FIND_ACTS = ("-delete", "-exec", "-execdir", "-ok", "-okdir")
#: What an editor's program does that writes a file, though it edits none in place.
_WRITING = {
    "sed": re.compile(r"(?:^|[;{}\n\d/$])\s*[gpI]*w\s+\S"),
    "perl": re.compile(r"\b(?:open|unlink|rename|system|exec|syswrite|mkdir|File::)|`"),
    "awk": re.compile(r"print[^\n;}]*>|system\s*\("),
}
_XARGS = ("nIPdLaEs", ("max-args", "replace", "max-procs", "delimiter", "max-lines", "arg-file", "max-chars"))
_RUNNERS = ("env", "command", "time", "find")
_SHELLS = ("bash", "sh", "dash", "ksh", "zsh")
_MOVING = re.compile(r"/(?:main|master|HEAD|latest|nightly|develop)(?:/|$)|/pull/\d+|refs/heads|/releases/latest/")
_RAW = re.compile(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/([^/]+)/")
_SUM = re.compile(r"([0-9a-f]{64}) [ *](\S+)")
_BY_HAND = "write the step by hand, or leave it to the recipe"
_BOOKS = "what was changed stands in the ledger: no step needs git's own records"
_MARKERS = "markers and counts decide nothing: a step is judged from the bytes, `patchkit verify` compares files whole"


def translate(command: Command, site: SiteView, disk: Disk | None, known: Known) -> Made:
    """Make steps, findings and notes of one command; empty for one that changes nothing.

    Files that its words name, and that no step of it changes, are named by `import_lasting`.
    """
    made = Made()
    program = command.program
    if command.words and program is None:
        word = command.argv[0]
        made.problem(command, "not-constant", f"`{_shown(command)}`: which program runs is not constant: {word.why}")
        return made
    pip = import_packages.pip_words(command)
    if pip is not None:
        _pip(command, pip, made)
    elif re.fullmatch(r"python[0-9.]*|pypy3?", program or ""):
        _python(command, site, disk, made)
    elif program == "patch" or (program == "git" and import_patches.git_subcommand(command)[0] in ("apply", "am")):
        found = import_patches.translate(command, import_patches.read_call(command, disk), site)
        made.drafts += found.drafts
        made.findings += found.findings
        made.dropped += found.dropped
    else:
        _other(command, program or "", site, made, known)
    return made


def _shown(command: Command) -> str:
    return command.raw.split("\n", 1)[0]


def _other(command: Command, program: str, site: SiteView, made: Made, known: Known) -> None:
    """Everything but pip, Python and the patching tools."""
    if program in ("curl", "wget"):
        _fetch(command, site, made, known)
    elif program in ("cp", "mv", "install"):
        _placed(command, site, made, known)
    elif program in _SHELLS or program in ("source", ".", "eval"):
        _inner(command, program, made)
    elif program in _EDITORS:
        _edited(command, program, made)
    elif program in ("grep", "egrep", "fgrep", "rg"):
        made.drop(command, "checks by grep", _MARKERS)
    elif program == "find" and any(word.text in _FIND_ACTS for word in command.argv):
        _cleaned(command, site, made)
    elif program in _ACTING:
        _ACTING[program](command, made)
    elif program and program not in HARMLESS and not (program == "exec" and len(command.argv) == 1):
        why = f"`{_shown(command)}`: what {program} changes is not known here"
        made.problem(command, "command", why, fix=_BY_HAND)


def _git(command: Command, made: Made) -> None:
    """Git, where it applies no diff."""
    subcommand = import_patches.git_subcommand(command)[0]
    if subcommand in _GIT_BOOKS:
        made.drop(command, f"git's own records: `git {subcommand}`", _BOOKS)
    elif subcommand and subcommand not in _GIT_QUIET:
        made.problem(command, "command", f"`{_shown(command)}` changes a git tree", fix=_BY_HAND)


def _trap(command: Command, made: Made) -> None:
    """What a trap runs was read as commands of their own, where its text is constant."""
    if any(word.text is None for word in command.argv[1:2]):
        why = f"`{_shown(command)}` runs a text that is not constant"
        made.problem(command, "not-constant", why, fix="write the command out")


def _xargs(command: Command, made: Made) -> None:
    """What `xargs` runs: a program that changes nothing is passed over."""
    operands = shell_options.parse(command.argv[1:], short=_XARGS[0], long=_XARGS[1]).operands
    runs = posixpath.basename(operands[0].text or "") if operands else "echo"
    if not _is_reading(runs):
        made.problem(command, "command", f"`{_shown(command)}`: which files it changes is not known here", fix=_BY_HAND)


_ACTING: Mapping[str, Callable[[Command, Made], None]] = {"git": _git, "trap": _trap, "xargs": _xargs}


def _is_reading(program: str) -> bool:
    return program in HARMLESS and program not in shell_targets.NAMING and program not in _RUNNERS


def _edited(command: Command, program: str, made: Made) -> None:
    """Editors that work by patterns."""
    words = [word.text or "" for word in command.argv[1:]]
    if program in ("ed", "ex") or any(re.match(r"-[a-zA-Z]*i|--in-place", text) for text in words):
        why = f"`{_shown(command)}` edits by a pattern, which says neither what must be there nor how often"
        fix = "write a `replace` step: the exact text, what takes its place, and how often it occurs"
        made.problem(command, "sed", why, fix=fix)
        return
    writing = _WRITING["awk" if program.endswith("awk") else program]
    if any(writing.search(text) for text in words):
        made.problem(command, "command", f"`{_shown(command)}`: its program writes files", fix=_BY_HAND)


def _pip(command: Command, found: tuple[str, int], made: Made) -> None:
    subcommand, start = found
    if subcommand == "install":
        import_packages.translate(command, start, made)
    elif subcommand == "config" and any(word.text in ("set", "unset", "edit") for word in command.argv[start:]):
        made.problem(command, "packages", f"`{_shown(command)}` changes pip's own settings", fix=_BY_HAND)
    elif subcommand in ("uninstall", "download", "wheel", "build", "sync", "compile"):
        made.problem(command, "packages", f"`{_shown(command)}`: a stack has no step for it", fix=_BY_HAND)


def _placed(command: Command, site: SiteView, made: Made, known: Known) -> None:
    """What was fetched and is then put into the site becomes a `file` step."""
    moved = shell_targets.move(command)
    target = None if moved is None or moved.target.text is None else command.path(moved.target.text)
    place = None if target is None else site.place(target)
    if moved is None or place is None or place.above:
        return
    for word in moved.sources:
        source = None if word.text is None else command.path(word.text)
        content = None if source is None else command.files.get(source)
        if source is not None and content is not None and content.text is None and content.url is not None:
            name = posixpath.basename(source) if moved.into or not place.below or target in known.folders else ""
            _file(command, posixpath.join(place.below, name) if name else place.below, content, made, known, source)


def _cleaned(command: Command, site: SiteView, made: Made) -> None:
    """`find` that acts: byte-code removed is nothing, a program that reads is none, all else is named."""
    words = [word.text or "" for word in command.argv]
    acts = [at for at, text in enumerate(words) if text in _FIND_ACTS]
    runs = [posixpath.basename(words[at + 1]) if at + 1 < len(words) else "" for at in acts if words[at] != "-delete"]
    named = re.search(r"__pycache__|\.py\[?c[\]o]*(?:\s|['\"]|$)", command.raw) is not None
    if named and not {"!", "-not", "-o", "-or"} & {*words} and all(program in ("rm", "rmdir") for program in runs):
        made.drop(command, "stale byte-code removed", "patchkit removes the byte-code of what it changes")
    elif "-delete" in words or not all(map(_is_reading, runs)):
        why = f"`{_shown(command)}` changes or removes files that it searches, perhaps in {site.shown}"
        made.problem(command, "command", why, fix=_BY_HAND)


def _inner(command: Command, program: str, made: Made) -> None:
    """Shell code inside the script: what could be read was read; the rest is named."""
    words = command.argv[1:]
    plain = [word for word in words if not (word.text or "").startswith("-")]
    inline = any(re.match(r"-[a-z]*c", word.text or "") for word in words)
    if program in ("source", "."):
        named = plain[0].shown if plain else "another script"
        made.problem(command, "script", f"`{_shown(command)}` reads {named}", fix="import that script on its own")
    elif program == "eval" or inline:
        if any(word.text is None for word in (words if program == "eval" else plain[:1])):
            made.problem(command, "not-constant", f"`{_shown(command)}` runs a text that is not constant",
                         fix="write the command out")  # fmt: skip
    elif plain:
        made.problem(command, "script", f"`{_shown(command)}` runs another script", fix="import that script on its own")
    elif command.stdin is not None and command.stdin.text is None:
        made.problem(command, "script", f"`{_shown(command)}` runs a script: {command.stdin.why}", fix=_BY_HAND)


def _fetch(command: Command, site: SiteView, made: Made, known: Known) -> None:
    found = shell_fetch.fetch(command)
    if found is None or found.url is None:
        return
    for option in found.insecure:
        made.drop(command, option, "TLS certificates are always checked")
    output = found.target(command)
    if output is None or output.text is None or found.more or any(each.operator == ">>" for each in command.redirects):
        return
    target = command.path(output.text)
    path = site.relative(target)
    if path is not None and target is not None:
        _file(command, path, _content(command, found), made, known, target)


def _content(command: Command, found: Fetch) -> Content:
    url = None if found.url is None else found.url.text
    return Content(text=None, url=url or "", line=command.line)


def _file(command: Command, path: str, content: Content, made: Made, known: Known, fetched: str) -> None:
    """A `file` step: an address that moves, and a checksum that nobody gives, stay null."""
    url: str | None = content.url or None
    name = url or "the address"
    raw = _RAW.match(url or "")
    if url is None:
        made.drop(command, f"the address of {path}", "it is not constant")
    elif not rules.URL.holds(url):
        made.drop(command, f"the address {name}", "a file is fetched over https alone")
        url = None
    elif _MOVING.search(url) or (raw is not None and not re.fullmatch(r"[0-9a-f]{40}", raw[1])):
        made.drop(command, f"the address {name}", "what it answers changes: the step waits for one that does not")
        url = None
    lines = tuple(sorted({line for line in (content.line, command.line) if line}))
    body = {"file": {"path": path, "url": url, "sha256": known.sums.get(fetched)}}
    hint = stem(posixpath.basename(path))
    made.drafts.append(Draft(lines=lines, body=body, hint=hint, paths=(path,), what=_shown(command)))


def checksums(command: Command) -> dict[str, str]:
    """The sha256 that a `sha256sum -c` of the script demands, by absolute path."""
    if command.program != "sha256sum" or command.stdin is None or command.stdin.text is None:
        return {}
    found = ((command.path(name), digest) for digest, name in _SUM.findall(command.stdin.text))
    return {path: digest for path, digest in found if path is not None}


def _python(command: Command, site: SiteView, disk: Disk | None, made: Made) -> None:
    """A Python program: its exact replacements, and a finding for each line that does more."""
    content, argv, name = _program(command, disk)
    if content is None:
        return
    if content.text is None:
        made.problem(command, "python", f"`{_shown(command)}`: the program is not known: {content.why}", fix=_BY_HAND)
        return
    first = content.line or command.line
    fixed = next((f"/{glob}" for glob in site.globs if not re.search(r"[*?\[]", glob)), None)
    try:
        outcome = follow(content.text, argv, dict(command.environment), fixed)
    except (SyntaxError, ValueError) as error:
        line = first + (getattr(error, "lineno", 1) or 1) - 1
        made.problem(command, "python", f"{name}: no Python: {error}", line=line, fix=_BY_HAND)
        return
    for replacement in outcome.replacements:
        _replaced(command, replacement, first + replacement.line - 1, site, made)
    fix = "write a `replace` step with the exact text and its count, or a patch"
    for line, why in outcome.others:
        made.problem(command, "python", f"{name}: {why}", line=first + line - 1, fix=fix)


def _program(command: Command, disk: Disk | None) -> tuple[Content | None, tuple[str | None, ...], str]:
    """The text of a Python program, its argv and what messages call it."""
    words = list(command.argv[1:])
    while words and (words[0].text or "").startswith("-") and words[0].text != "-":
        option = words.pop(0).text or ""
        if option in ("-c", "-m"):
            rest = tuple(word.text for word in words[1:])
            if option == "-m":
                known = bool(words) and words[0].text in ("py_compile", "compileall", "json.tool", "site", "sysconfig")
                text = "" if known else None
                return Content(text=text, why="it runs a module"), (), "python -m"
            text = words[0].text if words else None
            why = words[0].why if words else ""
            return Content(text=text, why=why, line=command.line), ("-c", *rest), "python -c"
    argv = tuple(word.text for word in words)
    if not words or words[0].text == "-":
        return command.stdin, argv or ("-",), "python"
    if words[0].text is None:
        return Content(text=None, why=f"{words[0].raw}: {words[0].why}"), argv, "python"
    return shell_effects.read(command, words[0].text, disk), argv, posixpath.basename(words[0].text)


def _replaced(command: Command, found: Replacement, line: int, site: SiteView, made: Made) -> None:
    path = site.relative(command.path(found.path))
    if path is None:
        made.problem(command, "outside", f"it edits {found.path}, which lies outside of {site.shown}", line=line)
        return
    if found.count is None:
        why = f"a replacement in {path}: nothing says how often the text must occur"
        made.problem(command, "python", why, line=line, fix="write a `replace` step with the exact text and its count")
        return
    if any("\ud800" <= char <= "\udfff" for char in found.find + found.put):
        made.problem(command, "python", f"a replacement in {path}: a text that is not UTF-8", line=line, fix=_BY_HAND)
        return
    if found.first_only:
        made.drop(command, f"the first occurrence alone, in {path}", "the step wants the text to occur exactly once")
    body: dict[str, Any] = {"path": path, "find": found.find, "with": found.put, "count": found.count}
    applied = command.calls[0] if command.calls else command.line
    hint = stem(posixpath.basename(path)) + "-replace"
    made.drafts.append(
        Draft(
            lines=tuple(sorted({applied, line})), body={"replace": body}, hint=hint, paths=(path,), what=_shown(command)
        )
    )
