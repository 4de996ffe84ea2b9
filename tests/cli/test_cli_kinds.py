"""Steps that are more than a diff: whole files from a real HTTPS server, commands, packages; the full tool and the bundle."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Workbench

from .servers import DIGEST, KERNEL, Secure, kernel, where


def test_a_file_is_fetched_put_in_place_and_taken_back(bench: Workbench, secure: Secure) -> None:
    bench.stack([kernel(secure, size=len(KERNEL))])
    bench.lock()
    assert len(secure.ranges) == 1
    before = bench.snapshot()
    planned = bench.run("apply", *where(bench), "--dry-run", "--json").json
    assert planned["steps"][0]["files"] == [{"path": "demo/hsa/x.co", "change": "added"}]
    assert bench.run("apply", *where(bench)).code == 0
    file = bench.site / "demo/hsa/x.co"
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (KERNEL, 0o755)
    applied = bench.snapshot()
    assert "already applied" in bench.run("apply", *where(bench)).out
    assert bench.snapshot() == applied
    assert bench.run("verify", *where(bench)).code == 0
    file.write_bytes(b"x")
    assert bench.run("verify", *where(bench)).code == 4
    assert bench.run("revert", *where(bench), "--force").code == 0
    assert {p: (s[0], s[3]) for p, s in bench.snapshot().items()} == {p: (s[0], s[3]) for p, s in before.items()}
    assert len(secure.ranges) == 1, "the cache has it"


@pytest.mark.parametrize(("old", "verdict"), [(b"other bytes", "applies"), (KERNEL, "upstream")])
def test_a_file_that_is_there(bench: Workbench, secure: Secure, old: bytes, verdict: str) -> None:
    file = bench.site / "demo/x.co"
    file.write_bytes(old)
    file.chmod(0o711)
    bench.stack([kernel(secure, path="demo/x.co")])
    bench.lock()
    result = bench.run("apply", *where(bench), "--json").json
    assert (result["steps"][0]["verdict"], result["steps"][0]["files"][:1]) == (
        verdict,
        [{"path": "demo/x.co", "change": "modified"}] if verdict == "applies" else result["steps"][0]["files"][:1],
    )
    assert file.read_bytes() == KERNEL
    assert bench.run("revert", *where(bench)).code == 0
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (old, 0o711)


def test_a_link_in_its_place_is_a_conflict(bench: Workbench, secure: Secure) -> None:
    bench.stack([kernel(secure, path="demo/x.co")])
    bench.lock()
    (bench.site / "demo/x.co").symlink_to("a.py")
    before = bench.snapshot()
    result = bench.run("apply", *where(bench))
    assert result.code == 4, "the lock was made from this root, without that link"
    (bench.site / "demo/x.co").unlink()
    (bench.site / "demo/x.co").symlink_to("a.py")
    result = bench.run("lock", "--image", "demo", "--from", str(bench.root))
    assert result.code == 3
    assert "step kernel: conflict\ndemo/x.co: expected a regular file, found a symbolic link" in result.err
    assert before.keys() == bench.snapshot().keys()


def test_a_transfer_that_breaks_off_goes_on(bench: Workbench, secure: Secure) -> None:
    secure.broken["/x.co"] = 300_000
    bench.stack([kernel(secure)])
    bench.lock()
    assert secure.ranges[0] is None
    assert secure.ranges[1] == "bytes=300000-"
    assert bench.run("apply", *where(bench)).code == 0
    assert (bench.site / "demo/hsa/x.co").read_bytes() == KERNEL


def test_other_bytes_are_refused(bench: Workbench, secure: Secure) -> None:
    bench.stack([kernel(secure)])
    secure.files["/x.co"] = b"something else"
    found = hashlib.sha256(b"something else").hexdigest()
    result = bench.run("lock", "--image", "demo", "--from", str(bench.root))
    assert result.code == 6
    assert f"{secure.url}/x.co: expected sha256 {DIGEST}, found sha256 {found} (14 bytes)" in result.err
    secure.files["/x.co"] = KERNEL
    bench.stack([kernel(secure, size=5)])
    result = bench.run("lock", "--image", "demo", "--from", str(bench.root))
    assert result.code == 6
    assert f"expected sha256 {DIGEST} (5 bytes), found {len(KERNEL)} bytes" in result.err


def test_vendored_and_in_the_bundle(bench: Workbench, secure: Secure, tmp_path: Path) -> None:
    bench.stack([kernel(secure)])
    bench.lock("--vendor")
    shutil.rmtree(bench.root.parent / "cache")
    assert (bench.project / f"patches/demo/vendor/{DIGEST[:16]}-x.co").read_bytes() == KERNEL
    assert bench.run("bundle", "--image", "demo", "-o", str(tmp_path / "b.pyz")).code == 0
    words = [sys.executable, "-I", "-S", str(tmp_path / "b.pyz"), "apply", "--root", str(bench.root)]
    assert subprocess.run(words, capture_output=True, check=False, env={}).returncode == 0
    assert (bench.site / "demo/hsa/x.co").read_bytes() == KERNEL
    assert bench.run("verify", *where(bench)).code == 0


def machine(bench: Workbench) -> tuple[str, ...]:
    """This very machine, with the test's site on it."""
    return ("--image", "demo", "--root", "/", "--site", str(bench.site))


def test_a_command_by_the_command_line_and_by_the_bundle(bench: Workbench, tmp_path: Path) -> None:
    made = {
        "argv": ["/bin/sh", "-c", "cp demo/a.py demo/made.py"],
        "creates": "demo/made.py",
        "revert": ["rm", "demo/made.py"],
    }
    first = bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n")
    (bench.site / "demo/made.py").write_text(bench.pristine("demo/a.py").replace("a_15 = 15\n", "a_15 = 0\n"))
    last = bench.edit("made.patch", "demo/made.py", "a_2 = 2\n", "a_2 = 'made'\n")
    (bench.site / "demo/made.py").unlink()
    bench.stack([first, {"id": "make", "run": made, "reason": "a test"}, last])
    assert "note: step made: not tried: missing without what make makes" in bench.lock().out
    before = bench.snapshot()
    planned = bench.run("apply", *machine(bench), "--dry-run")
    assert planned.code == 0
    assert (
        "  make  applies     \n      would run: /bin/sh -c 'cp demo/a.py demo/made.py'\n".replace("     \n", "\n")
        in planned.out
    )
    assert bench.snapshot() == before
    assert bench.run("bundle", "--image", "demo", "-o", str(tmp_path / "b.pyz")).code == 0
    words = [sys.executable, "-I", "-S", str(tmp_path / "b.pyz")]
    site = ["--root", "/", "--site", str(bench.site)]

    def bundle(command: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*words, command, *site], capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"})

    done = bundle("apply")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "a_2 = 'made'" in bench.pristine("demo/made.py")
    assert bench.run("verify", *machine(bench)).code == 0
    applied = bench.snapshot()
    assert "already applied" in bench.run("apply", *machine(bench)).out
    assert bench.snapshot() == applied
    status = bench.run("status", *machine(bench), "--json").json
    assert [step["on_disk"] for step in status["steps"]] == ["applied", "applied", "applied"]
    outside = bench.run("revert", *where(bench))
    assert outside.code == 8
    assert "step make (run): only on the running machine can it be undone" in outside.err
    assert bundle("revert").returncode == 0
    assert bench.snapshot().keys() == before.keys()


def test_a_step_that_fails_shows_its_last_lines(bench: Workbench) -> None:
    first = bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n")
    bad = {"argv": ["/bin/sh", "-c", "echo no such kernel >&2; exit 7"], "revert": ["true"]}
    bench.stack([first, {"id": "bad", "run": bad, "reason": "a test"}])
    bench.lock()
    result = bench.run("apply", *machine(bench))
    assert result.code == 8
    assert result.out == ""
    (log,) = bench.project.parent.glob("patchkit-*.log")
    assert result.err == (
        "error: step bad (run): `/bin/sh -c 'echo no such kernel >&2; exit 7'` failed: exit status 7\n"
        "    no such kernel\n"
        "error: rolled back: every file of the stack is as it was before this run\n"
        "error: rolled back: step bad (run)\n"
        f"error: what the commands printed is kept in {log}\n"
        "hint: see its output above; correct the step or the machine, then run the same command again\n"
    )
    assert not (bench.site / ".patchkit").exists()
    assert "a_15 = 15" in bench.pristine("demo/a.py")
