"""A project whose stack fits the image vllmlike: every kind of change a file can undergo."""

from __future__ import annotations

import difflib
import io
import json
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema

if TYPE_CHECKING:
    from docker.models.containers import Container

ROOT = Path(__file__).parents[2]
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schemas/output.schema.json").read_text()))
SITE = "usr/local/lib/python3.12/dist-packages"
COMMIT = "c50aca14416ef29f6ed0ed256302f30646726dcd"
NAME = "vllmlike"
#: What the stack touches; by-products (byte-code) aside.
TOUCHED = ("vllm/scheduler.py", "vllm/worker.py", "vllm/entrypoints/windows.py", "vllm/entrypoints/probe.py",
           "vllm/entrypoints/serve.py", "vllm/entrypoints/run.py", "vllm/extra/deep/new.py")  # fmt: skip
#: Byte-code that the stack makes stale: gone for good once it was applied.
STALE = ("vllm/__pycache__", "vllm/__pycache__/scheduler.cpython-312.pyc")


@dataclass(frozen=True)
class Result:
    """What one run of the command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document = json.loads(self.out)
        SCHEMA.validate(document)
        assert isinstance(document, dict)
        return document


@dataclass(frozen=True)
class Project:
    """A project folder, and the command line as a process of its own."""

    folder: Path

    def words(self, command: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "patchkit", command, "--image", NAME, *words, "-C", str(self.folder)]

    def run(self, command: str, *words: str, **options: Any) -> Result:
        done = subprocess.run(self.words(command, *words), capture_output=True, check=False, text=True, **options)
        assert "Traceback" not in done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def in_turn(self, command: str, *words: str) -> Result:
        """One run when its turn has come: a bundle that lost its client works on, and holds the container."""
        end = time.monotonic() + 60
        while (done := self.run(command, *words)).code == 7 and time.monotonic() < end:
            pass
        return done

    def bundle(self) -> bytes:
        path = self.folder / "stack.pyz"
        assert self.run("bundle", "-o", str(path)).code == 0
        return path.read_bytes()


def unpack(container: Container, path: str, target: Path) -> None:
    """Copy `path` out of the container, as any user can."""
    chunks, _ = container.get_archive(path)
    # Debian 12's own Python has no filters yet; a later one warns where none is named
    named: dict[str, Any] = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        for entry in archive:
            entry.uid = entry.gid = 0
            archive.extract(entry, target, set_attrs=False, **named)
            if entry.isreg():
                (target / entry.name).chmod(entry.mode)


def make_project(folder: Path, container: Container, *, version: int = 1) -> Project:
    """The project, locked on the files of `container`; `version` 2 leaves steps out and changes one."""
    pristine = folder / "pristine" / SITE
    pristine.parent.mkdir(parents=True, exist_ok=True)
    unpack(container, f"/{SITE}", pristine.parent)
    for name in ("images", "patches"):
        (folder / name).mkdir(exist_ok=True)
    image = {"name": NAME, "reference": "patchkit-test/vllmlike:1", "site": SITE,
             "components": {"vllm": {"repo": "vllm-project/vllm", "commit": COMMIT}},
             "identity": {"file": "vllm/_version.py", "commit": COMMIT[:9]}}  # fmt: skip
    (folder / f"images/{NAME}.yaml").write_text(json.dumps(image))
    project = Project(folder)
    write_stack(project, version)
    return project


def write_stack(project: Project, version: int) -> None:
    """Version 1 edits, moves and adds files; version 2 keeps less of that and removes one."""
    pristine = project.folder / "pristine" / SITE
    folder = project.folder / "patches" / NAME
    folder.mkdir(exist_ok=True)
    worker = diff(pristine, "vllm/worker.py", "2048", "4096")
    patches = {
        "scheduler": diff(pristine, "vllm/scheduler.py", "tokens > limit", f"tokens >= limit + {version}"),
        "serve": "diff --git a/vllm/entrypoints/serve.py b/vllm/entrypoints/run.py\nsimilarity index 100%\n"
        "rename from vllm/entrypoints/serve.py\nrename to vllm/entrypoints/run.py\n",
        "extra": "diff --git a/vllm/extra/deep/new.py b/vllm/extra/deep/new.py\nnew file mode 100644\n"
        "--- /dev/null\n+++ b/vllm/extra/deep/new.py\n@@ -0,0 +1 @@\n+NEW = True\n",
    }
    if version == 1:
        patches["worker"] = worker
        patches["windows"] = diff(pristine, "vllm/entrypoints/windows.py", "LAST = True", "LAST = False")
        patches["probe"] = diff(pristine, "vllm/entrypoints/probe.py", "RAW = True", "RAW = False")
    else:
        text = (pristine / "vllm/entrypoints/windows.py").read_bytes().decode()
        lines = "".join(f"-{line}" for line in text.splitlines(keepends=True))
        patches["windows"] = (
            "diff --git a/vllm/entrypoints/windows.py b/vllm/entrypoints/windows.py\ndeleted file mode 100644\n"
            f"--- a/vllm/entrypoints/windows.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n{lines}\n\\ No newline at end of file\n"
        )
    for name, text in patches.items():
        (folder / f"{name}.patch").write_bytes(text.encode())
    steps = [{"id": n, "patch": f"{n}.patch", "reason": "a test", "removal": {"when": "manual"}} for n in patches]
    (folder / "stack.yaml").write_text(json.dumps({"image": NAME, "version": version, "steps": steps}))
    done = project.run("lock", "--from", str(project.folder / "pristine"))
    assert done.code == 0, done.err


def diff(pristine: Path, path: str, old: str, new: str) -> str:
    before = (pristine / path).read_bytes().decode()
    assert before.count(old) == 1
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), before.replace(old, new).splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    text = ""
    for line in lines:
        text += line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
    return text


Tree = dict[str, tuple[object, ...]]


def tree(container: Container, path: str = f"/{SITE}") -> Tree:
    """Everything below the site: kind, mode, owner, attributes and content; the ledger's log and times aside."""
    chunks, _ = container.get_archive(path)
    found: Tree = {}
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        for entry in archive:
            name = entry.name.partition("/")[2]
            data = b""
            if entry.isreg() or entry.islnk():
                stream = archive.extractfile(entry)
                assert stream is not None
                data = stream.read() if not name.endswith(".patchkit/log") else b""
            kind = tarfile.REGTYPE if entry.islnk() else entry.type
            link = "" if entry.islnk() else entry.linkname
            found[name] = (kind, entry.mode, entry.uid, entry.gid, entry.pax_headers.get("SCHILY.xattr.security.capability"),
                           link, data)  # fmt: skip
    return found


def without_ledger(found: Tree) -> Tree:
    return {path: state for path, state in found.items() if not path.startswith(".patchkit")}


def content(found: Tree) -> Tree:
    """What patching is about: the tree without ledger and stale byte-code."""
    return {path: state for path, state in without_ledger(found).items() if path not in STALE}
