"""A small project on disk, with an image's root to patch, and the command line to drive it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from patchkit.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .machines import Index, Machine
    from .servers import Secure

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "docs/schemas/output.schema.json").read_text())
)
SITE = "usr/lib/python3/dist-packages"
COMMIT = "c50aca14416ef29f6ed0ed256302f30646726dcd"


@dataclass
class Result:
    """What one run of the command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout, held against the committed schema."""
        document = json.loads(self.out)
        SCHEMA.validate(document)
        return document


@dataclass
class Workbench:
    """A project folder, a pristine root, and the command line."""

    project: Path
    root: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *words: str) -> Result:
        self.capsys.readouterr()
        code = main([*words, "-C", str(self.project)])
        captured = self.capsys.readouterr()
        return Result(code, captured.out, captured.err)

    @property
    def site(self) -> Path:
        return self.root / SITE

    def image(self, name: str = "demo", **changes: Any) -> None:
        fields: dict[str, Any] = {
            "name": name,
            "reference": f"example/demo:{name}",
            "site": SITE,
            "components": {"demo": {"repo": "example/demo", "commit": COMMIT}},
            "identity": {"file": "demo/_version.py", "commit": COMMIT[:9]},
            **changes,
        }
        path = self.project / "images" / f"{name}.yaml"
        path.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))

    def stack(self, steps: list[dict[str, Any]], version: int = 1, name: str = "demo") -> None:
        folder = self.project / "patches" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stack.yaml").write_text(json.dumps({"image": name, "version": version, "steps": steps}))

    def patch(self, file: str, text: str, name: str = "demo") -> None:
        folder = self.project / "patches" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(textwrap.dedent(text))

    def edit(self, file: str, path: str, old: str, new: str, *, context: int = 3) -> dict[str, Any]:
        """A patch file that replaces `old` by `new` in the pristine `path`, and the step that names it."""
        before = self.pristine(path)
        assert before.count(old) == 1
        self.patch(file, unified(path, before, before.replace(old, new), context))
        return {"id": file.removesuffix(".patch"), "patch": file, "reason": "a test", "removal": {"when": "manual"}}

    def pristine(self, path: str) -> str:
        return (self.site / path).read_text()

    def lock(self, *more: str) -> Result:
        result = self.run("lock", "--image", "demo", "--from", str(self.root), *more)
        assert result.code == 0, result.err
        return result

    def snapshot(self) -> dict[str, tuple[object, ...]]:
        return snapshot(self.root)


def unified(path: str, before: str, after: str, context: int = 3) -> str:
    import difflib

    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=context
    )
    return "".join(lines)


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below `root`: kind, mode, size, mtime and content of each entry."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files, "."]:
            path = Path(folder) / name
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            key = os.path.normpath(path.relative_to(root).as_posix())
            found[key] = (status.st_mode, status.st_size, status.st_mtime_ns, content)
    return found


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    """Files below `root` with mode and content; without times, directories and byte-code."""
    return {
        path.relative_to(root).as_posix(): (path.lstat().st_mode, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def lines(prefix: str, count: int) -> str:
    return "".join(f"{prefix}_{n} = {n}\n" for n in range(1, count + 1))


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed run keeps goes away with the test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Workbench:
    """A project with the image `demo` and five small modules in its root; no stack yet."""
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "cache"))
    project, root = tmp_path / "project", tmp_path / "root"
    (project / "images").mkdir(parents=True)
    (project / "patches" / "common").mkdir(parents=True)
    demo = root / SITE / "demo"
    demo.mkdir(parents=True)
    (demo / "_version.py").write_text(f"__commit_id__ = commit_id = 'g{COMMIT[:9]}'\n")
    for name in ("a", "b", "c", "d", "e"):
        (demo / f"{name}.py").write_text(lines(name, 30))
    bench = Workbench(project, root, capsys)
    bench.image()
    return bench


@pytest.fixture
def five(bench: Workbench) -> Workbench:
    """The stack of five steps, one a module, locked against the root."""
    steps = [bench.edit(f"{n}.patch", f"demo/{n}.py", f"{n}_15 = 15\n", f"{n}_15 = 'patched'\n") for n in "abcde"]
    bench.stack(steps)
    bench.lock()
    return bench


def patchkit_process(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The command line as a process of its own."""
    import sys

    return subprocess.run([sys.executable, "-m", "patchkit", *words], capture_output=True, check=False, **options)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with pip; not to be changed."""
    path = tmp_path_factory.mktemp("machine") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True, capture_output=True)
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The package index that pip is set to; it holds kern 1.0 and 2.0."""
    from .machines import Index

    running = Index(tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", running.url)
    for version in ("1.0", "2.0"):
        running.add("kern", version)
    yield running
    running.close()


@pytest.fixture
def machine(bench: Workbench, venv: Path, index: Index) -> Machine:
    """The bench with a virtual environment as its root."""
    from .machines import Machine

    return Machine(bench, venv)


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secure]:
    """An HTTPS server that this machine trusts; it has the file of `servers.kernel`."""
    from .servers import KERNEL, Secure

    running = Secure(tmp_path)
    running.files["/x.co"] = KERNEL
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(running.certificate))
    yield running
    running.close()
