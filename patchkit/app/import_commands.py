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
from patchkit.model import rules, shell_effects
from patchkit.model.shellscript import Content

if TYPE_CHECKING:
    from patchkit.app.import_python import Replacement
    from patchkit.app.import_types import SiteView
    from patchkit.model.shell_effects import Fetch
    from patchkit.model.shellscript import Command, Disk

#: Programs and builtins that change no file of the site.
_NAMES = (
    "[ : . true false test echo printf cat grep egrep fgrep rg head tail wc sort uniq cut tr diff cmp comm sha256sum"
    " sha1sum md5sum stat file ls find which type hash command date sleep wait set shopt export local declare typeset"
    " readonly unset trap cd pushd popd pwd return exit break continue shift read getopts let mkdir mktemp mapfile"
    " readarray id whoami uname hostname env printenv nproc free df du ps kill rocm-smi rocminfo nvidia-smi amd-smi"
    " dirname basename realpath readlink seq jq ulimit umask tput clear time history alias od"
    " xxd hexdump less more base64 column nl tac yes expr bc rev fold paste"
)
HARMLESS = frozenset(_NAMES.split())
_GIT_QUIET = frozenset(
    [
        "status",
        "diff",
        "log",
        "show",
        "rev-parse",
        "config",
        "init",
        "add",
        "commit",
        "--version",
        "version",
        "ls-files",
        "tag",
    ]
)
_MOVERS = frozenset(
    ["cp", "mv", "install", "ln", "rsync", "rm", "tee", "dd", "truncate", "touch", "chmod", "chown", "unlink"]
)
_TRAPPED = re.compile(r"\b(?:patch|git|pip3?|python3?|curl|wget|sed|cp|mv)\b")
_EDITORS = ("sed", "perl", "awk", "gawk", "ed", "ex", "trap")
_FIND_ACTS = ("-delete", "-exec", "-execdir", "-ok")
_SHELLS = ("bash", "sh", "dash", "ksh", "zsh")
_BACKUP = re.compile(r"\.(orig|bak|backup|old|pristine)$|~$")
_MOVING = re.compile(r"/(?:main|master|HEAD|latest|nightly|develop)(?:/|$)|/pull/\d+|refs/heads|/releases/latest/")
_RAW = re.compile(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/([^/]+)/")
_SUM = re.compile(r"([0-9a-f]{64}) [ *](\S+)")
_BY_HAND = "write the step by hand, or leave it to the recipe"
_MARKERS = "markers and counts decide nothing: a step is judged from the bytes, `patchkit verify` compares files whole"
_LEDGER = "the ledger keeps the pristine bytes"


def translate(command: Command, site: SiteView, disk: Disk | None, sums: dict[str, str]) -> Made:
    """Make steps, findings and notes of one command; empty for one that changes nothing."""
    made = Made()
    program = command.program
    if command.words and program is None:
        word = command.argv[0]
        made.problem(command, "not-constant", f"`{_shown(command)}`: which program runs is not constant: {word.why}")
        return made
    _writes(command, site, made)
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
        _other(command, program or "", site, made, sums)
    return made


def _shown(command: Command) -> str:
    return command.raw.split("\n", 1)[0]


def _other(command: Command, program: str, site: SiteView, made: Made, sums: dict[str, str]) -> None:
    """Everything but pip, Python and the patching tools."""
    shown = _shown(command)
    if program in ("curl", "wget"):
        _fetch(command, site, made, sums)
    elif program == "git":
        if import_patches.git_subcommand(command)[0] not in _GIT_QUIET:
            made.problem(command, "command", f"`{shown}` changes a git tree", fix=_BY_HAND)
    elif program in _MOVERS:
        _moved(command, site, made, sums)
    elif program in _SHELLS or program in ("source", ".", "eval"):
        _inner(command, program, made)
    elif program in _EDITORS:
        _edited(command, program, made)
    elif program in ("grep", "egrep", "fgrep", "rg"):
        made.drop(command, "checks by grep", _MARKERS)
    elif program == "find" and any(word.text in _FIND_ACTS for word in command.argv):
        _cleaned(command, site, made)
    elif program and program not in HARMLESS:
        made.problem(command, "command", f"`{shown}`: what {program} changes is not known here", fix=_BY_HAND)


def _edited(command: Command, program: str, made: Made) -> None:
    """Editors that work by patterns, and traps, which run whenever."""
    if program == "trap":
        if _TRAPPED.search(command.raw):
            made.problem(command, "command", f"`{_shown(command)}` runs at the end, or at a signal", fix=_BY_HAND)
    elif program in ("ed", "ex") or any(re.match(r"-[a-zA-Z]*i|--in-place", w.text or "") for w in command.argv[1:]):
        why = f"`{_shown(command)}` edits by a pattern, which says neither what must be there nor how often"
        fix = "write a `replace` step: the exact text, what takes its place, and how often it occurs"
        made.problem(command, "sed", why, fix=fix)


def _pip(command: Command, found: tuple[str, int], made: Made) -> None:
    subcommand, start = found
    if subcommand == "install":
        import_packages.translate(command, start, made)
    elif subcommand in ("uninstall", "download", "wheel", "build", "sync"):
        made.problem(command, "packages", f"`{_shown(command)}`: a stack has no step for it", fix=_BY_HAND)


def _writes(command: Command, site: SiteView, made: Made) -> None:
    """Files that redirections write."""
    for redirect in command.redirects:
        if not redirect.writes or redirect.fd not in (None, 1):
            continue
        target = redirect.target
        if target.text is None:
            why = f"`{_shown(command)}` writes {target.raw}, which is not constant: {target.why}"
            made.problem(command, "not-constant", why, fix="give the variable: --set NAME=VALUE")
            continue
        path = site.relative(command.path(target.text))
        if path is not None:
            _overwritten(command, path, made)


def _overwritten(command: Command, path: str, made: Made) -> None:
    name = posixpath.basename(path)
    if name.startswith("."):
        made.drop(command, f"the marker file {path}", "whether a step is applied is judged from the files' bytes")
    elif _BACKUP.search(name):
        made.drop(command, f"the copy {path}", _LEDGER)
    else:
        fix = "write a patch that adds or changes the file, or a `file` step with its address and sha256"
        made.problem(command, "overwrite", f"`{_shown(command)}` writes {path} whole", fix=fix)


def _moved(command: Command, site: SiteView, made: Made, sums: dict[str, str]) -> None:
    """Programs that put files into place, change or remove them."""
    words = [word for word in command.argv[1:] if not (word.text or "").startswith("-")]
    unknown = [word for word in words if word.text is None]
    if unknown:
        why = f"`{_shown(command)}`: {unknown[0].raw} is not constant: {unknown[0].why}"
        made.problem(command, "not-constant", why, fix="give the variable: --set NAME=VALUE")
        return
    paths = [command.path(word.text or "") for word in words]
    if command.program in ("cp", "mv", "install") and len(paths) > 1:
        source, target = paths[-2], paths[-1]
        content = command.files.get(source or "")
        inside = site.relative(target) or ("" if target and site.place(target) else None)
        if content is not None and content.url is not None and inside is not None and source is not None:
            name = posixpath.basename(source) if (words[-1].text or "").endswith("/") or not inside else ""
            _file(command, posixpath.join(inside, name) if name else inside, content, made, sums, source)
            return
        paths = [target]
    for path in dict.fromkeys(path for each in paths if (path := site.relative(each)) is not None):
        if path.endswith(".pyc") or "__pycache__" in path:
            made.drop(command, "stale byte-code removed", "patchkit removes the byte-code of what it changes")
        elif command.program in ("cp", "mv", "install", "ln", "touch", "tee"):
            _overwritten(command, path, made)
        else:
            why = f"`{_shown(command)}` changes {path}"
            made.problem(command, "overwrite", why, fix=_BY_HAND)


def _cleaned(command: Command, site: SiteView, made: Made) -> None:
    if "__pycache__" in command.raw or ".pyc" in command.raw:
        made.drop(command, "stale byte-code removed", "patchkit removes the byte-code of what it changes")
    else:
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


def _fetch(command: Command, site: SiteView, made: Made, sums: dict[str, str]) -> None:
    found = shell_effects.fetch(command)
    if found is None or found.url is None:
        return
    for option in found.insecure:
        made.drop(command, option, "TLS certificates are always checked")
    if found.output is None:
        return
    if found.output.text is None:
        why = f"`{_shown(command)}`: where it goes is not constant: {found.output.why}"
        made.problem(command, "not-constant", why, fix="give the variable: --set NAME=VALUE")
        return
    target = command.path(found.output.text)
    path = site.relative(target)
    if path is not None and target is not None:
        _file(command, path, _content(command, found), made, sums, target)


def _content(command: Command, found: Fetch) -> Content:
    url = None if found.url is None else found.url.text
    return Content(text=None, url=url or "", line=command.line)


def _file(command: Command, path: str, content: Content, made: Made, sums: dict[str, str], fetched: str) -> None:
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
    body = {"file": {"path": path, "url": url, "sha256": sums.get(fetched)}}
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
