"""A virtual environment as the machine that `pip` steps work on, with wheels and an index made here."""

from __future__ import annotations

import base64
import hashlib
import io
import shlex
import shutil
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from .conftest import COMMIT, Workbench, lines, unified

if TYPE_CHECKING:
    from pathlib import Path

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def make_wheel(
    name: str, version: str, *needs: str, code: str = "", more: dict[str, str] | None = None
) -> tuple[str, bytes]:
    """A wheel with one module that holds its version, and `more` files."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n{code}",
        **(more or {}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(text)}\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join([*rows, f"{info}/RECORD,,\n"]))
    return f"{name}-{version}-py3-none-any.whl", buffer.getvalue()


class Index:
    """A package index on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        handler = partial(_Quiet, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def add(
        self,
        name: str,
        version: str,
        *needs: str,
        sha256: str = "",
        code: str = "",
        more: dict[str, str] | None = None,
    ) -> str:
        file, data = make_wheel(name, version, *needs, code=code, more=more)
        digest = sha256 or hashlib.sha256(data).hexdigest()
        (self.folder / "files").mkdir(exist_ok=True)
        (self.folder / "files" / file).write_bytes(data)
        page = self.folder / "simple" / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        old = page.read_text() if page.exists() else "<!DOCTYPE html>"
        page.write_text(f'{old}<a href="/files/{file}#sha256={digest}">{file}</a>\n')
        return digest

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Machine:
    """The bench with a virtual environment as its root; `run` works on this very machine, `/`."""

    def __init__(self, bench: Workbench, venv: Path) -> None:
        self.bench = bench
        self.root = bench.project.parent / "venv"
        shutil.copytree(venv, self.root, symlinks=True)
        self.site = self.root / SITE
        (self.site / "demo").mkdir()
        (self.site / "demo/_version.py").write_text(f"__commit_id__ = commit_id = 'g{COMMIT[:9]}'\n")
        (self.site / "demo/a.py").write_text(lines("a", 30))
        bench.image(site=SITE)

    def pip(self, *words: str) -> None:
        python = self.root / "bin" / "python"
        subprocess.run([python, "-m", "pip", "-q", "install", *words], check=True, capture_output=True)

    def patch(self, step: str, path: str, before: str, old: str, new: str) -> dict[str, Any]:
        self.bench.patch(f"{step}.patch", unified(path, before, before.replace(old, new)))
        return {"id": step, "patch": f"{step}.patch", "reason": "a test"}

    def stack(self, *steps: dict[str, Any], version: int = 1, more: tuple[str, ...] = ()) -> str:
        self.bench.stack(list(steps), version)
        result = self.bench.run("lock", "--image", "demo", "--from", str(self.root), *more)
        assert result.code == 0, result.err
        return result.out

    def where(self) -> tuple[str, ...]:
        return ("--image", "demo", "--root", "/", "--site", str(self.site))

    def typed(self, command: str) -> str:
        """What hints tell to type for this target."""
        return shlex.join(("patchkit", command, *self.where(), "-C", str(self.bench.project)))

    def run(self, command: str, *more: str) -> Any:
        return self.bench.run(command, *self.where(), *more)

    def version(self, name: str) -> str | None:
        python = str(self.root / "bin" / f"python{SITE[10:].partition('/')[0]}")
        ended = subprocess.run(
            [python, "-c", f"import {name}; print({name}.VERSION)"], capture_output=True, check=False
        )
        return ended.stdout.decode().strip() or None

    def first(self) -> dict[str, Any]:
        return self.patch("first", "demo/a.py", (self.site / "demo/a.py").read_text(), "a_15 = 15\n", "a_15 = 0\n")


def pip_step(*requirements: str, **more: Any) -> dict[str, Any]:
    return {"id": "kern", "pip": {"requirements": list(requirements), **more}, "reason": "a test"}
