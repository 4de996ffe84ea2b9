"""Judges one command of a script: which kind of patching it is, if any, and what it touches."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.model import shell_options
from patchkit.waivers import exempt, scan_install, scan_moves
from patchkit.waivers.exempt import words
from patchkit.waivers.scan_patches import PATCHER, patches
from patchkit.waivers.scan_places import place, touched
from patchkit.waivers.scan_types import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.model.shell_types import Command, Word
    from patchkit.waivers.kinds import Kind
    from patchkit.waivers.scan_places import Place

SHELLS = ("bash", "sh", "dash", "ksh", "zsh", "ash")
#: Programs that run another command, given as their last words.
_RUNNERS = words("""
    docker podman nerdctl kubectl srun xargs ssh su find parallel flock chroot singularity apptainer enroot setsid
    numactl taskset ionice unbuffer script watch mpirun mpiexec torchrun uv poetry pipenv conda runuser gosu doas
    sshpass pdsh oc crictl ctr nsenter unshare buildah retry run_cmd time eval
    """)
_JUDGED = words("""
    pip pip3 sed cp mv patch git python python3 tee rm curl wget ln install apt-get apt tar perl rsync cmake ninja
    make hipcc uv dd
    """)
_SERVER = re.compile(
    r"\bvllm\s+serve\b|vllm\.entrypoints|sglang\.launch_server|\bvllm-router\b|lmcache_server|\bsglang serve\b"
)
_CLIENT = re.compile(
    r"bench|client|eval|log|result|test|util|tool|script|doc|recipe|example|data|cache|plugin|harness|router|proxy|"
    r"metric|monitor|report|sweep|dashboard|exporter|helper|agent|load|run"
)
REBUILD_NAMES = ("AITER_REBUILD", "VLLM_FORCE_REBUILD", "VLLM_FORCE_BUILD", "LMCACHE_REBUILD")
_HOOK = re.compile(
    r"(?:^|/)(?:sitecustomize|usercustomize)\.py$|(?:site|dist)-packages/[^/]*\.pth$|\$\{?\w*SITE\w*\}?/[^/]*\.pth$"
)
_SETTERS = words("docker podman nerdctl srun sbatch kubectl singularity apptainer env export")
_POSITIONAL = re.compile(r'"?\$\{?[@*1-9]\}?"?')
_PTH = re.compile(r"[^/]+\.pth")
_BUILD_VERBS = ("install", "develop", "build_ext", "build", "bdist_wheel", "build_py")
_COMPILERS = ("hipcc", "nvcc", "amdclang++", "clang++", "g++", "gcc", "clang", "ld")


def judge(command: Command) -> Iterator[Trace]:
    """Every kind of patching that a command is."""
    yield from patches(command)
    yield from _missing(command)
    yield from _called(command)
    for file in scan_install.requirement_files(command):
        path = command.path(file) or file
        yield Trace(line=command.line, kind="install", touches=file, text=command.raw, patch=path)
    for kind, found in (
        ("download", scan_moves.downloads),
        ("edit", scan_moves.edits),
        ("overwrite", scan_moves.overwrites),
        ("overwrite", scan_moves.checkouts),
        ("install", scan_install.installs),
        ("rebuild", _rebuilds),
        ("mount", _mounts),
        ("shadow", _shadows),
    ):
        fetches = command.program in ("curl", "wget")
        if kind == "overwrite" and fetches:
            continue
        for touches in found(command):
            real: Kind = "shadow" if kind == "overwrite" and (is_hook(touches) or _PTH.fullmatch(touches)) else kind  # type: ignore[assignment]
            yield Trace(line=command.line, kind=real, touches=touches, text=command.raw)
    for touches, built in scan_moves.removes(command):
        yield Trace(line=command.line, kind="rebuild" if built else "overwrite", touches=touches, text=command.raw)


def inner_texts(command: Command) -> Iterator[str]:
    """Texts of shell that a command hands on: `docker exec c bash -c TEXT`, `ssh host TEXT`."""
    argv, program = command.argv, command.program or ""
    if program in SHELLS or program not in _RUNNERS:
        return
    if program == "ssh":
        yield _remote(command)
        if command.stdin is not None and command.stdin.text is not None:
            yield command.stdin.text
        return
    for at, word in enumerate(argv[1:], 1):
        if posixpath.basename(word.shown) in SHELLS:
            texts = [each.shown for each in argv[at + 1 :]]
            option = next((i for i, text in enumerate(texts) if re.fullmatch(r"-\w*c", text)), None)
            if option is not None and option + 1 < len(texts):
                yield texts[option + 1]
                return
            if command.stdin is not None and command.stdin.text is not None:
                yield command.stdin.text
    if program in ("su", "runuser", "pdsh", "sshpass", "parallel", "watch", "script", "flock"):
        yield from (word.shown for word in argv[1:] if " " in word.shown)


def handed_text(words: list[str]) -> str | None:
    """The text that a list of words hands to a shell, `["sudo", "bash", "-c", TEXT]`; None where it hands none."""
    at = next((at for at, word in enumerate(words[:3]) if posixpath.basename(word) in SHELLS), None)
    option = next(
        (i for i, word in enumerate(words) if at is not None and i > at and re.fullmatch(r"-\w*c", word)), None
    )
    return words[option + 1] if option is not None and option + 1 < len(words) else None


def _remote(command: Command) -> str:
    """What ssh's remote shell reads: the words after the host, joined by blanks."""
    parsed = shell_options.parse(command.argv[1:], short="bcDEeFIiJLlmOopQRSWw", long=())
    words = parsed.operands[1:]
    if not words:
        return ""
    at = next(at for at, word in enumerate(command.argv) if word is words[0])
    return " ".join(word.shown for word in command.argv[at:])


def inner_command(command: Command) -> Command | None:
    """The command that `xargs`, `docker exec`, `find -exec` and the like run; None where there is none."""
    if command.program not in _RUNNERS or command.program == "ssh" or scan_install.pip_words(command):
        return None
    texts = [word.shown for word in command.argv]
    own = texts[: texts.index("--")] if "--" in texts else texts  # `kubectl patch` changes an object of the cluster
    start = own.index("patch") + 1 if command.program in ("kubectl", "oc") and "patch" in own else 1
    for at, word in enumerate(command.argv[start:], start):
        name = posixpath.basename(word.shown)
        if name in _JUDGED and command.program != "git":
            words = command.argv[at:]
            if command.program == "find":
                words = tuple(_found(each, command) for each in words if each.shown not in (";", "+"))
            elif command.program == "xargs":
                words = (*words, *_piped(command))
            cwd = "${PWD}" if command.program in ("docker", "podman", "kubectl", "ssh", "srun") else command.cwd
            return replace(command, words=words, cwd=cwd, redirects=())
    return None


def forwarded(command: Command) -> Command:
    """A command that a function is handed as words or as a text (`"$@"`, `bash -c "$*"`) stands where the call does."""
    argv = command.argv
    if not command.calls or not argv:
        return command
    runs = command.program in _RUNNERS or command.program in SHELLS
    texts = [word for word in argv[1:] if runs and re.search(r"\s", word.shown)]
    given = any(_POSITIONAL.fullmatch(word.raw) for word in (argv[0], *texts))
    return replace(command, line=command.calls[-1]) if given else command


def _found(word: Word, command: Command) -> Word:
    """`{}` of `find DIR -name x -exec ...`"""
    if "{}" not in word.shown:
        return word
    texts = [each.shown for each in command.argv]
    name = next(
        (texts[i + 1] for i, t in enumerate(texts[:-1]) if t in ("-name", "-path", "-iname", "-wholename")), "x.py"
    )
    path = posixpath.join(texts[1], name.lstrip("*/") if "/" in name else name)
    return replace(word, text=path, raw=path)


def _piped(command: Command) -> tuple[Word, ...]:
    """What `xargs` gets from a known standard input, or a word for what is not known."""
    content = command.stdin
    first = command.argv[0]
    if content is not None and content.text is not None:
        return tuple(replace(first, text=text, raw=text) for text in content.text.split()[:100])
    return ()


def _missing(command: Command) -> Iterator[Trace]:
    """A script that by its name patches, called by its path."""
    argv, program = command.argv, command.program or ""
    if program in (*SHELLS, "source", ".") or scan_install.PYTHON.fullmatch(program):
        word = next((word.shown for word in argv[1:] if not word.shown.startswith("-")), "")
    else:
        word = argv[0].shown if argv and "/" in argv[0].shown else ""
    if PATCHER.search(word) and "\n" not in word:
        path = command.path(word) or word
        if path in command.files:
            return
        yield Trace(line=command.line, kind="missing-patch", touches=word, text=command.raw, patch=path, sure=False)


def _called(command: Command) -> Iterator[Trace]:
    """A call of a Python program by its file, which is looked at with the words that it gets."""
    texts = [word.shown for word in command.argv]
    if not scan_install.PYTHON.fullmatch(command.program or ""):
        return
    at = next((at for at, text in enumerate(texts[1:], 1) if not text.startswith("-")), 0)
    if not at or not texts[at].endswith(".py") or "-m" in texts[:at] or "-c" in texts[:at]:
        return
    path = command.path(texts[at]) or texts[at]
    if path not in command.files:
        argv = tuple(texts[at + 1 :])
        yield Trace(line=command.line, kind="edit", touches=texts[at], text=command.raw, patch=path, argv=argv)


def _rebuilds(command: Command) -> Iterator[str]:
    """What builds modules of the stack."""
    program, texts = command.program or "", [word.shown for word in command.argv]
    given = [(name, word.shown) for name, word in command.env]
    given += [(name, value) for name, equals, value in (text.partition("=") for text in texts[1:]) if equals]
    for name, value in given:
        if name in REBUILD_NAMES and value not in ("", "0", "False", "false"):
            yield name
    cwd = place(command.cwd or "")
    home = cwd if cwd.name in exempt.ENGINES or cwd.where == "installed" else None
    if scan_install.PYTHON.fullmatch(program):
        yield from _python_builds(command, texts, home)
    elif program in ("cmake", "ninja", "make", "meson", "bazel"):
        named = [place(command.path(text) or text) for text in _folders(texts)]
        found = next((each for each in named if each.name in exempt.ENGINES or each.where == "installed"), None)
        if found is None and not {"--version", "clean", "lint", "docs", "help"} & set(texts):
            found = home
        if found is not None:
            yield found.shown
    elif program in _COMPILERS and "-o" in texts[:-1]:
        target = texts[texts.index("-o") + 1]
        touches = touched(command.path(target) or target)
        if touches is not None:
            yield touches


def _python_builds(command: Command, texts: list[str], home: Place | None) -> Iterator[str]:
    """`setup.py develop`, `python -m build`, the JIT of aiter."""
    script = next((text for text in texts[1:] if not text.startswith("-")), "")
    where = place(command.path(script) or script)
    engine = where.name in exempt.ENGINES or where.where == "installed"
    if script.endswith("setup.py") and engine and any(verb in texts for verb in _BUILD_VERBS):
        yield posixpath.dirname(where.shown) or where.name
    elif texts[1:3] == ["-m", "build"] and home is not None:
        yield home.shown
    elif "-m" in texts and any(re.match(r"aiter\.(?:jit|aot)|aiter\.ops.*compile", text) for text in texts):
        yield "aiter"


def _folders(texts: list[str]) -> Iterator[str]:
    for at, text in enumerate(texts[:-1]):
        if text in ("-C", "-S", "-B", "--build", "--install", "--directory"):
            yield texts[at + 1]
    for text in texts[1:]:
        joined = re.match(r"-[CSB]([./$\w].*)", text)
        if joined is not None:
            yield joined[1]
    if texts[0].endswith("cmake"):
        yield from (text for text in texts[1:] if "/" in text and not text.startswith("-"))


def _mounts(command: Command) -> Iterator[str]:
    """Installed paths that a container, or `mount`, gets something else over."""
    program, texts = command.program or "", [word.shown for word in command.argv]
    if program == "mount" and any(t in ("-B", "overlay") or "bind" in t for t in texts[1:-1]):
        yield from mount_target(texts[-1])
        return
    if not any(
        re.search(r"docker|podman|nerdctl|srun|sbatch|enroot|singularity|apptainer|pyxis|salloc", t) for t in texts[:4]
    ):
        return
    for at, text in enumerate(texts):
        value = ""
        if text in ("-v", "--volume", "--mount", "--bind", "-B", "--container-mounts", "-m"):
            value = texts[at + 1] if at + 1 < len(texts) else ""
        elif (
            option := re.match(r"(?:--(?:volume|mount|bind|container-mounts|container-mount)=|-v(?=[./$~]))(.+)", text)
        ) is not None:
            value = option[1]
        if value:
            yield from mount_value(value)


def mount_value(text: str) -> Iterator[str]:
    """`SRC:DST[:ro][,SRC:DST]` or `type=bind,source=…,target=…`"""
    fields = dict(part.split("=", 1) for part in text.split(",") if re.match(r"\w+=", part))
    target = fields.get("target") or fields.get("dst") or fields.get("destination")
    if target:
        yield from mount_target(target)
        return
    for part in text.split(","):
        sides = re.split(r":(?![-=?+])", re.sub(r"\$\{[^}]*\}", lambda m: m[0].replace(":", "\0"), part))
        if len(sides) > 1:
            yield from mount_target(sides[1].replace("\0", ":"))


def mount_target(path: str) -> Iterator[str]:
    """A path in a container, if it is the stack's."""
    found = place(path.strip())
    if found.where == "installed" or (found.where == "tree" and found.code):
        yield found.shown


def _shadows(command: Command) -> Iterator[str]:
    """Python paths that come before the stack, and hooks that run in every interpreter."""
    program = command.program or ""
    server = _SERVER.search(" ".join(word.shown for word in command.argv)) is not None
    for name, word in command.env:
        if name == "PYTHONPATH":
            yield from python_path(word.shown, server=server, command=command)
    texts = [word.shown for word in command.argv]
    settings = [word.shown for word in command.words[: len(command.words) - len(command.argv)]]  # `env A=B PROGRAM`
    for text in settings + (texts[1:] if program in _SETTERS else []):
        if "PYTHONPATH=" in text:
            found = re.match(r"(?:--?\w[\w-]*=)?(?:.*,)?PYTHONPATH=(.*)", text)
            if found is not None:
                yield from python_path(found[1], server=server, command=command)
    targets = [redirect.target.shown for redirect in command.redirects if redirect.writes]
    if program in ("cp", "mv", "ln", "install", "tee", "curl", "wget"):
        targets += texts[-1:] if program != "tee" else texts[1:]
    for target in targets:
        if _HOOK.search(command.path(target) or target) and touched(command.path(target) or target) is None:
            yield target


def python_path(value: str, *, server: bool = False, command: Command | None = None) -> Iterator[str]:
    """The parts of a PYTHONPATH that can hide the installed stack; `command` knows what the script has written."""
    written = command.files if command is not None else {}
    for part in re.split(r":(?![-=?+])", re.sub(r"\$\{PYTHONPATH[^}]*\}|\$PYTHONPATH\b", "", value)):
        if not part.strip():
            continue
        found = place(part)
        hooked = any(posixpath.join(part, f"{name}.py") in written for name in ("sitecustomize", "usercustomize"))
        fork = scan_install.OVERLAY.search(part) or _copy_of_engine(part) or hooked
        if found.name in exempt.ENGINES or fork or (server and found.where != "installed"):
            yield f"PYTHONPATH={part}"


def _copy_of_engine(path: str) -> bool:
    """Whether a folder is by its name a copy of an engine: `vllm-perf`, but not `vllm-bench`."""
    name = exempt.normal(posixpath.basename(path.rstrip("/")))
    engine = next((each for each in exempt.ENGINES if name.startswith(f"{each}-")), None)
    return engine is not None and not _CLIENT.search(name.removeprefix(f"{engine}-"))


def is_hook(path: str) -> bool:
    """Whether a file runs in every interpreter: sitecustomize, usercustomize, a `.pth` in the site."""
    return _HOOK.search(path) is not None
