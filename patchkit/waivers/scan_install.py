"""Installs over the serving stack: pip, uv, conda, apt, dpkg. What the policy exempts is no finding."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from patchkit.model import shell_options
from patchkit.model.shell_types import Command
from patchkit.waivers import exempt
from patchkit.waivers.exempt import words
from patchkit.waivers.scan_places import place

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHORT = "iercftbC"
_LONG = tuple(
    sorted(
        words("""
    index-url extra-index-url index default-index find-links requirement constraint editable target prefix root
    trusted-host upgrade-strategy progress-bar root-user-action timeout retries cache-dir no-binary only-binary
    platform python-version python config-settings config-setting index-strategy proxy cert log report src abi
    implementation exists-action use-feature with from link-mode torch-backend build-constraint override prerelease
    resolution keyring-provider extra group no-build-package no-binary-package refresh-package upgrade-package
    reinstall-package no-build-isolation-package
    """)
    )
)
_VERBS = ("install", "uninstall", "sync", "add", "remove")
_PIP = re.compile(r"pip[0-9.]*|\$\{?\w*PIP\w*\}?", re.IGNORECASE)
PYTHON = re.compile(r"python[0-9.]*|pypy3?|\$\{?\w*PY(?:THON)?\w*\}?", re.IGNORECASE)
#: A folder that by its name is put over something.
OVERLAY = re.compile(
    r"(?:^|[/_.-])(?:patch(?:es|ed)?|overlays?|overrides?|hotfix(?:es)?|shims?|fork(?:ed|s)?|monkey\w*)(?:$|[/_.-])",
    re.IGNORECASE,
)
_APART = re.compile(r"(?:^|/)[^/]*v?env[^/]*/(?:[^/]+/)*bin/|^\$\{[^}]*\}/bin/", re.IGNORECASE)
_APT = ("apt", "apt-get", "aptitude", "microdnf", "dnf", "yum", "zypper", "apk")
_CONDA = ("conda", "mamba", "micromamba")
_LOCAL = re.compile(r"^(?:\.{0,2}/|/|file:|\$)|^[\w.-]+/")


def installs(command: Command) -> Iterator[str]:
    """The packages of the stack that a command installs, replaces or removes."""
    texts = [word.shown for word in command.argv]
    program = command.program or ""
    start = _pip_start(texts, program)
    if start:
        yield from _pip(command, texts, start)
    elif program in _APT and any(verb in texts for verb in ("install", "remove", "purge", "reinstall", "add")):
        yield from _system(texts[1:])
    elif (
        program == "dpkg" and any(re.fullmatch(r"-[iBEGO]*[irP]\w*|--install|--remove|--purge", t) for t in texts[1:])
    ) or (program == "rpm" and any(re.fullmatch(r"-[ivhUFe]+", text) for text in texts[1:])):
        yield from _system([posixpath.basename(text) for text in texts[1:]])
    elif program in _CONDA and any(verb in texts for verb in (*_VERBS, "update", "upgrade")):
        for text in texts[2:]:
            name = exempt.requirement(text.split("::")[-1].split("=")[0])
            if name in exempt.STACK:
                yield text
    elif program == "amdgpu-install":
        yield "rocm"


def pip_words(command: Command) -> bool:
    """Whether the command is a pip of some kind."""
    return _pip_start([word.shown for word in command.argv], command.program or "") > 0


def _pip_start(texts: list[str], program: str) -> int:
    """Where the words of pip's own command line start; 0 where the command is no pip."""
    if _PIP.fullmatch(program):
        return 1
    if PYTHON.fullmatch(program) and "-m" in texts[:6]:
        at = texts.index("-m")
        if texts[at + 1 : at + 2] == ["pip"]:
            return at + 2
        return at + 3 if texts[at + 1 : at + 3] == ["uv", "pip"] else 0
    if program == "uv" and len(texts) > 1:
        at = next((at for at, text in enumerate(texts[1:], 1) if not text.startswith("-")), 1)
        return at + 1 if texts[at] == "pip" else at if texts[at] in ("add", "remove", "sync") else 0
    return 1 if program == "easy_install" else 0


def _pip(command: Command, texts: list[str], start: int) -> Iterator[str]:
    while start < len(texts) and texts[start].startswith("-"):
        start += 1
    verb = texts[start] if start < len(texts) else ""
    if verb not in _VERBS:
        return
    parsed = shell_options.parse(command.argv[start + 1 :], short=_SHORT, long=_LONG)
    apart = _apart(command, texts[0]) or _aside(parsed, command)
    names = exempt.ENGINES if apart else exempt.STACK
    if parsed.has("--dry-run"):
        return
    for option in parsed.options:
        value = option.value or (option.word.shown if option.word is not None else "")
        if option.name in ("-e", "--editable") and value:
            yield from _one(value, command, names, source=True)
        elif option.name in ("-r", "--requirement") and value:
            yield from _file(value, command, names)
    for word in parsed.operands:
        yield from _one(word.shown, command, names, source=False)


def _aside(parsed: shell_options.Parsed, command: Command) -> bool:
    """Whether packages are put into a folder of their own: none of the image's, and none that is to hide it."""
    option = parsed.last("-t", "--target", "--prefix", "--root")
    if option is None:
        return False
    value = option.value or (option.word.shown if option.word is not None else "")
    path = command.path(value) or value
    return not (re.match(r"/(?:opt|usr|app)/", path) or OVERLAY.search(path) or place(path).where == "installed")


def requirement_files(command: Command) -> Iterator[str]:
    """The requirements files of a pip that the script has not written itself."""
    texts = [word.shown for word in command.argv]
    start = _pip_start(texts, command.program or "")
    while start and start < len(texts) and texts[start].startswith("-"):
        start += 1
    if not start or start >= len(texts) or texts[start] not in _VERBS or _apart(command, texts[0]):
        return
    parsed = shell_options.parse(command.argv[start + 1 :], short=_SHORT, long=_LONG)
    if parsed.has("--dry-run") or _aside(parsed, command):
        return
    for option in parsed.options:
        value = option.value or (option.word.shown if option.word is not None else "")
        if option.name in ("-r", "--requirement") and value and (command.path(value) or "") not in command.files:
            yield value


def required(text: str) -> Iterator[str]:
    """The packages of the stack that a requirements file names."""
    for line in text.splitlines():
        words = re.sub(r"^(?:-e|--editable)[ =]", "", line.split(" #")[0].strip()).rstrip("\\").strip()
        local = _LOCAL.match(words) and not words.split(" ")[0].endswith((".whl", ".tar.gz"))
        if words and not words.startswith(("#", "-")) and not local:
            made = Command(line=1, words=(), raw=words)
            yield from _one(words.split(";")[0].strip(), made, exempt.STACK - exempt.GENERAL, source=False)


def _apart(command: Command, program: str) -> bool:
    """Whether a pip is that of an environment of its own, by its path or because the script has made it."""
    path = command.path(program) or program
    made = posixpath.join(posixpath.dirname(posixpath.dirname(path)), "pyvenv.cfg")
    return _APART.search(program) is not None or made in command.files


def _one(text: str, command: Command, names: frozenset[str], *, source: bool) -> Iterator[str]:
    """What one requirement means: a name, a wheel, a repository, a directory."""
    text = text.strip()
    named = re.match(r"\s*([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*@\s*\S", text)
    if named is not None and not _LOCAL.match(text):
        if exempt.normal(named[1]) in names:
            yield text
        return
    if re.match(r"(?:git\+|hg\+|https?:|ssh:|git@)", text) and not re.search(r"\.(?:whl|tar\.gz|zip)\b", text):
        address = re.sub(r"^(?:git\+|hg\+)?(?:\w+://)?(?:[^@/]*@)?", "", text)
        repository = re.split(r"[@#?]", address)[0].rstrip("/").rsplit("/", 1)[-1]
        name = exempt.engine(repository) or exempt.normal(repository.removesuffix(".git"))
        egg = exempt.requirement(text) if "#egg=" in text else None
        if name in names or egg in names:
            yield text
        return
    if re.search(r"\.(?:whl|tar\.gz|zip)\b|\*", text):
        name = exempt.requirement(text) or ""
        if name in names or _any_wheel(text, name):
            yield text
        return
    if source or _LOCAL.match(text) or text in (".", "..") or text.startswith(".["):
        yield from _directory(text, command)
        return
    if exempt.requirement(text) in names:
        yield text


def _any_wheel(text: str, name: str) -> bool:
    """Whether a wheel that nothing names may be the engine's: `dist/*.whl` in a place that names the stack."""
    return (not name or name.startswith("$")) and re.search(r"\*|\$", text) is not None


def _directory(text: str, command: Command) -> Iterator[str]:
    """A source tree: the engine's if its path says so."""
    path = command.path(re.sub(r"(?<=.)\[[^\]]*\]$", "", text).removeprefix("file://")) or text
    found = place(path)
    if (
        (found.where in ("tree", "installed", "scratch") and (found.name in exempt.ENGINES or not found.name))
        or found.where == "installed"
        or (found.where == "elsewhere" and found.name in exempt.ENGINES and posixpath.basename(path) == found.name)
    ):
        yield found.shown


def _file(text: str, command: Command, names: frozenset[str]) -> Iterator[str]:
    """A requirements file: read where the script itself writes it, else judged by where it lies."""
    content = command.files.get(command.path(text) or "")
    if content is not None and content.text is not None:
        for line in content.text.splitlines():
            if line.strip() and not line.lstrip().startswith(("#", "-")):
                yield from _one(line.split(" #")[0], command, names, source=False)
        return
    found = place(command.path(text) or text)
    if found.name in exempt.ENGINES and found.where in ("tree", "installed", "scratch"):
        yield found.shown


def _system(words: list[str]) -> Iterator[str]:
    for word in words:
        name = word.split("=")[0].split("/")[-1]
        if exempt.SYSTEM.match(name) and not word.startswith("-"):
            yield name
