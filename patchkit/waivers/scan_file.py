"""What one file alone says: which language it is in, whether it is worth reading, and the traces in it.

The result depends on nothing but the file's bytes and name, so it is cached by them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from patchkit.waivers import exempt
from patchkit.waivers.scan_types import Trace

if TYPE_CHECKING:
    from pathlib import PurePath

Language: TypeAlias = Literal["shell", "python", "docker", "yaml", "patch", "pth"]

MAX_BYTES = 1_000_000
_SUFFIXES: dict[str, Language] = {
    ".sh": "shell",
    ".bash": "shell",
    ".ksh": "shell",
    ".slurm": "shell",
    ".sbatch": "shell",
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".dockerfile": "docker",
    ".containerfile": "docker",
    ".patch": "patch",
    ".diff": "patch",
    ".pth": "pth",
}
_SHEBANG = re.compile(rb"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+)*)?(?:\S*/)?([a-z]+)")
_SHELLS = (b"sh", b"bash", b"dash", b"ksh", b"ash", b"zsh")
_DOCKER = re.compile(r"(?:dockerfile|containerfile)(?:[.-].*)?", re.IGNORECASE)
_TOKENS = tuple(
    token.encode()
    for token in [
        "vllm",
        "aiter",
        "sglang",
        "sgl",
        "lmcache",
        "flashinfer",
        "flash",
        "mooncake",
        "mori",
        "rtp",
        "tensorrt",
        "site-packages",
        "dist-packages",
        "site_packages",
        "torch",
        "triton",
        "transformers",
        "xformers",
        "rocm",
        "sitecustomize",
        "usercustomize",
        "pythonpath",
        "getsitepackages",
        "purelib",
        "amdgpu",
        "migraphx",
        "getsite",
        "sitepackages",
    ]
)
_INSTALLERS = (b"pip", b"uv ", b"conda", b"mamba", b"easy_install")
_MANAGERS = (b"apt", b"dpkg", b"dnf", b"yum", b"rpm", b"zypper", b"apk")
_PACKAGES = tuple(name.encode() for name in sorted(exempt.STACK))
_WORD = rb"(?<![a-z0-9])(?:%s)"
_NAMED = re.compile(
    _WORD % b"|".join(re.escape(token) for token in _TOKENS if token.isalpha()) + rb"|(?:site|dist)[_-]packages"
)
_INSTALLS = re.compile(_WORD % rb"pip[0-9.]*|uv|conda|micromamba|mamba|easy_install" + rb"(?![a-z0-9])")
_PACKAGE = re.compile(_WORD % b"|".join(re.escape(name) for name in _PACKAGES) + rb"(?![a-z])")
_SYSTEM = re.compile(exempt.SYSTEM.pattern.encode())
_APPLIES = re.compile(
    rb"git (?:apply|am)\b|\bapply\b[^\n]*\.(?:patch|diff)|\bpatch (?:-|<|[.\"'/$])|patch(?:es)?\.(?:sh|py)\b|quilt push"
)
#: Files that are looked at besides: requirements, and programs.
_LISTS = re.compile(rb"pip[0-9.]* +install[^\n]* (?:-r|--requirement)[ =]")
_PROGRAM = re.compile(rb"python[0-9.]* +(?:-\w +)*[^\s|;&<>()]+\.py\b")
_CONTEXT = re.compile(
    rb"\b(?:vllm|sglang|aiter|lmcache|mooncake|flashinfer|rocm|mi3[0-9]{2}x|gfx9[0-9a-f]{1,2}|sgl-workspace)\b|"
    rb"\b(?:torch|triton|rccl|nccl|gpus?|llm|inference|kimi|deepseek|llama|qwen|benchmark(?:s|ing)?|kernels/|tp[0-9])\b|"
    rb"(?:dist|site)-packages|VLLM_|/workspace/|/app/|SGLANG_|AITER_|LMCACHE_|vllm-|--tensor-parallel",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """The traces of one file; `context` says that it speaks of a serving stack, `unread` why it was not read whole."""

    traces: tuple[Trace, ...] = ()
    context: bool = False
    unread: str = ""


NOTHING = FileResult()


def language(path: PurePath, head: bytes, *, asked: bool = False) -> Language | None:
    """The language of a file by its name or its first line; with `asked`, a file that tells neither is shell."""
    name = path.name
    if _DOCKER.fullmatch(name):
        return "docker"
    found = _SUFFIXES.get(path.suffix.lower())
    if found is not None:
        return found
    shebang = _SHEBANG.match(head)
    if shebang is not None:
        return "shell" if shebang[1] in _SHELLS else "python" if shebang[1] == b"python" else None
    return "shell" if asked and b"\0" not in head else None


def worth_reading(data: bytes) -> bool:
    """Whether anything in a file can lead to a finding: nothing else is parsed."""
    lower = data.lower()
    if any(token in lower for token in _TOKENS) and _NAMED.search(lower) is not None:
        return True
    if any(token in lower for token in _INSTALLERS) and _INSTALLS.search(lower) and _PACKAGE.search(lower):
        return True
    if b"pip" in lower and b"install" in lower and _LISTS.search(lower) is not None:
        return True
    if b".py" in lower and b"python" in lower and _PROGRAM.search(lower) is not None:
        return True
    if _APPLIES.search(lower) is not None and _CONTEXT.search(data) is not None:
        return True
    return any(token in lower for token in _MANAGERS) and _SYSTEM.search(lower) is not None


def analyse(data: bytes, kind: Language, name: str) -> FileResult:
    """Read one file, called `name` (its folder's and its own name). Never raises for what it holds."""
    if len(data) > MAX_BYTES:
        return FileResult(unread=f"larger than {MAX_BYTES // 1000} kB")
    if b"\0" in data[:4096] and kind != "patch":
        return FileResult(unread="binary: it holds NUL bytes")
    text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\0", "")
    context = _CONTEXT.search(data) is not None
    unread = ""
    try:
        traces = _traces(text, data, kind, name)
    except (RecursionError, MemoryError):
        traces, unread = [], "nested too deep to be read"
    traces = [trace for trace in traces if trace.kind]
    return FileResult(
        traces=tuple(sorted(traces, key=lambda t: (t.line, t.kind, t.touches))), context=context, unread=unread
    )


def _traces(text: str, data: bytes, kind: Language, name: str) -> list[Trace]:
    if kind == "shell":
        from patchkit.waivers.scan_shell import shell

        return shell(text, name=name.rsplit("/", 1)[-1])
    if kind == "python":
        from patchkit.waivers.scan_python import python

        hook = name.rsplit("/", 1)[-1] in ("sitecustomize.py", "usercustomize.py")
        first = text.split("\n", 1)[0][:200]
        own = [Trace(line=1, kind="shadow", touches=name.rsplit("/", 1)[-1], text=first)] if hook else []
        return [*own, *python(text, name=name)]
    if kind == "docker":
        from patchkit.waivers.scan_docker import docker

        return docker(text, name=name.rsplit("/", 1)[-1])
    if kind == "yaml":
        from patchkit.waivers.scan_yaml import yaml_file

        return yaml_file(data, name=name)
    if kind == "pth":
        hooked = re.search(r"^import\s", text, re.MULTILINE) and len(text) < 10_000
        return [Trace(line=1, kind="shadow", touches=name.rsplit("/", 1)[-1], text=text[:100])] if hooked else []
    from patchkit.waivers.scan_patches import diff_touches

    shown = text.split("\n", 1)[0][:200]
    return [
        Trace(line=1, kind="patch", touches=each, text=shown) for each in diff_touches(text, "${PWD}", 1, known=False)
    ]
