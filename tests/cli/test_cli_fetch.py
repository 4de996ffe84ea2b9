"""What `lock` fetches, from a real HTTPS server that breaks off, stalls, lies or leads astray: by the command line."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.certificates import make_certificate

from .conftest import patchkit_process
from .machines import make_wheel, pip_step
from .servers import DIGEST, KERNEL, kernel, where

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Result, Workbench
    from .machines import Index, Machine
    from .servers import Secure

CUT = 300_000


def lock(bench: Workbench, *more: str) -> Result:
    return bench.run("lock", "--image", "demo", "--from", str(bench.root), *more)


def kept(bench: Workbench) -> dict[str, Path]:
    """What the cache keeps of transfers that ended early: by ending, the bytes have none."""
    folder = bench.root.parent / "cache/partial"
    return {path.suffix: path for path in folder.iterdir()} if folder.exists() else {}


def break_off(bench: Workbench, secure: Secure) -> Path:
    """A first `lock` whose transfer breaks off for good; the file with its bytes."""
    secure.broken["/x.co"] = CUT
    secure.once.add("/x.co")
    bench.stack([kernel(secure)])
    result = lock(bench)
    assert (result.code, result.out) == (6, "lock demo: refused, the lock is as it was\n")
    assert result.err == (
        f"error: step kernel (file): demo/hsa/x.co: {secure.url}/x.co: expected sha256 {DIGEST},"
        " found 404 Not Found (2 attempts)\n"
        "hint: check the address: nothing is there; then: patchkit lock --image demo\n"
    )
    assert not (bench.project / "patches/demo/stack.lock.json").exists()
    return kept(bench)[""]


def holds(bench: Workbench) -> None:
    """The lock is there, the file can be put in place, and nothing partial is left."""
    assert kept(bench) == {}
    assert bench.run("apply", *where(bench)).code == 0
    assert (bench.site / "demo/hsa/x.co").read_bytes() == KERNEL


def test_a_transfer_that_broke_off_goes_on_in_the_next_lock(bench: Workbench, secure: Secure) -> None:
    part = break_off(bench, secure)
    assert part.read_bytes() == KERNEL[:CUT]
    assert part.name == hashlib.sha256(f"{secure.url}/x.co".encode()).hexdigest()
    assert f"{(len(KERNEL) - CUT) / 1e6:.2f} MB received" in bench.lock().out
    assert secure.asked[-1] == (f"bytes={CUT}-", '"one"')
    holds(bench)


def test_a_file_that_changed_meanwhile_is_fetched_anew(bench: Workbench, secure: Secure) -> None:
    break_off(bench, secure)
    secure.tag = '"two"'
    secure.files["/x.co"] = other = KERNEL[::-1]
    bench.stack([kernel(secure, sha256=hashlib.sha256(other).hexdigest())])
    bench.lock()
    assert secure.asked[-1] == (f"bytes={CUT}-", '"one"')
    assert kept(bench) == {}
    assert bench.run("apply", *where(bench)).code == 0
    assert (bench.site / "demo/hsa/x.co").read_bytes() == other


@pytest.mark.parametrize("how", ["altered", "longer", "emptied", "other mark", "no mark", "torn mark"])
def test_what_was_kept_is_never_trusted(bench: Workbench, secure: Secure, how: str) -> None:
    part = break_off(bench, secure)
    mark = kept(bench)[".json"]
    if how == "altered":
        part.write_bytes(b"x" + KERNEL[1:CUT])
    elif how == "longer":
        part.write_bytes(KERNEL + b"more")
    elif how == "emptied":
        part.write_bytes(b"")
    elif how == "other mark":
        mark.write_text(mark.read_text().replace("one", "two"))
    elif how == "no mark":
        mark.unlink()
    else:
        mark.write_text(mark.read_text()[:-3])
    bench.lock()
    assert secure.ranges[-1] in ((f"bytes={CUT}-",) if how == "other mark" else (None,))
    holds(bench)


def test_a_whole_one_that_was_not_put_in_place_is_not_fetched(bench: Workbench, secure: Secure) -> None:
    part = break_off(bench, secure)
    part.write_bytes(KERNEL)
    before = len(secure.asked)
    bench.lock()
    assert len(secure.asked) == before
    holds(bench)


def test_without_a_mark_of_the_server_nothing_is_kept(bench: Workbench, secure: Secure) -> None:
    secure.tag = None
    secure.broken["/x.co"] = CUT
    secure.once.add("/x.co")
    bench.stack([kernel(secure)])
    assert lock(bench).code == 6
    assert kept(bench) == {}


def test_another_process_has_it(bench: Workbench, secure: Secure) -> None:
    """Both come to their end, each by itself."""
    part = break_off(bench, secure)
    with open(part, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        bench.lock()
        assert part.read_bytes() == KERNEL[:CUT]
    assert secure.ranges[-1] is None
    assert bench.run("apply", *where(bench)).code == 0


def test_killed_in_the_middle_of_a_transfer(bench: Workbench, secure: Secure) -> None:
    secure.stalls["/x.co"] = CUT
    bench.stack([kernel(secure)])
    words = [sys.executable, "-m", "patchkit", "lock", "--image", "demo", "--from", str(bench.root)]
    with subprocess.Popen([*words, "-C", str(bench.project)], stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while "" not in (there := kept(bench)) or ".json" not in there or there[""].stat().st_size < CUT // 2:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    size = kept(bench)[""].stat().st_size
    del secure.stalls["/x.co"]
    bench.lock()
    assert secure.asked[-1] == (f"bytes={size}-", '"one"')
    holds(bench)


def test_a_server_that_stalls(bench: Workbench, secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 seconds without a byte, or what PATCHKIT_TIMEOUT says; what came is gone on with."""
    secure.stalls["/x.co"] = CUT
    bench.stack([kernel(secure)])
    monkeypatch.setenv("PATCHKIT_TIMEOUT", "0.5")
    begun = time.monotonic()
    result = lock(bench)
    assert time.monotonic() - begun < 20
    assert (result.code, result.err) == (
        6,
        (
            f"error: step kernel (file): demo/hsa/x.co: {secure.url}/x.co: expected sha256 {DIGEST},"
            " found a stall: no byte for 0.5 s\n"
            "hint: check network and proxy, or wait longer: PATCHKIT_TIMEOUT=SECONDS; then: patchkit lock --image demo\n"
        ),
    )
    del secure.stalls["/x.co"]
    bench.lock()
    assert secure.ranges[-1] == f"bytes={CUT}-"
    holds(bench)
    monkeypatch.setenv("PATCHKIT_TIMEOUT", "soon")
    bench.stack([kernel(secure, sha256="0" * 64)], version=2)
    result = lock(bench)
    assert (result.code, "PATCHKIT_TIMEOUT: expected a number of seconds, found soon" in result.err) == (2, True)


def test_a_redirect_to_plain_http(bench: Workbench, secure: Secure) -> None:
    for target in ("http://localhost:1/x.co", "http://example.invalid/x.co"):
        secure.redirects["/x.co"] = target
        bench.stack([kernel(secure)])
        result = lock(bench)
        assert (result.code, result.err) == (
            6,
            (
                f"error: step kernel (file): demo/hsa/x.co: {secure.url}/x.co: expected sha256 {DIGEST},"
                f" found a redirect to {target}, which is not https\n"
                "hint: the server must redirect to an https:// address; then: patchkit lock --image demo\n"
            ),
        )
    assert kept(bench) == {}
    secure.files["/y.co"] = KERNEL
    secure.redirects["/x.co"] = f"{secure.url}/y.co"
    bench.lock()
    holds(bench)


def test_a_certificate_that_nobody_vouches_for(
    bench: Workbench, secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.pem").write_bytes(make_certificate())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other.pem"))
    bench.stack([kernel(secure)])
    result = lock(bench)
    assert result.code == 6
    assert f"step kernel (file): demo/hsa/x.co: {secure.url}/x.co: expected sha256 {DIGEST}, found TLS refused: " in (
        result.err
    )
    assert (
        "hint: name the certificate authority's file: PIP_CERT or REQUESTS_CA_BUNDLE, or pip's `cert` for" in result.err
    )
    assert secure.asked == []
    assert not (bench.project / "patches/demo/stack.lock.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_no_space_for_it(bench: Workbench, secure: Secure) -> None:
    """The cache is full: the machine refuses, and what came is not kept: it would only take the space."""
    cache = bench.root.parent / "cache"
    cache.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k,mode=700", "tmpfs", cache], check=True)
    try:
        bench.stack([kernel(secure)])
        result = lock(bench)
        assert result.code == 8
        blob = f"{cache}/blobs/{DIGEST[:2]}/{DIGEST[2:]}"
        assert result.err == (
            f"error: step kernel (file): demo/hsa/x.co: {blob}: cannot be written: No space left on device\n"
            "hint: free space, or choose another directory; then: patchkit lock --image demo\n"
        )
        assert kept(bench) == {}
        assert not (bench.project / "patches/demo/stack.lock.json").exists()
    finally:
        subprocess.run(["umount", cache], check=True)


def test_a_wheel_to_carry_with_a_wrong_hash(machine: Machine, index: Index) -> None:
    index.add("liar", "1.0", sha256="0" * 64)
    digest = hashlib.sha256(make_wheel("liar", "1.0")[1]).hexdigest()
    machine.bench.stack([pip_step("liar==1.0")])
    result = lock(machine.bench, "--vendor")
    assert result.code == 6
    assert f"error: step kern (pip): {index.url.removesuffix('/simple')}/files/liar-1.0-py3-none-any.whl:" in result.err
    assert f"expected sha256 {'0' * 64}, found sha256 {digest} (" in result.err
    assert not (machine.bench.project / "patches/demo/vendor").exists()


def test_a_wheel_to_carry_that_cannot_be_had(machine: Machine, index: Index) -> None:
    """Its hash is known: nothing about the step is, the wheel is not there."""
    machine.stack(pip_step("kern==2.0"))
    before = (machine.bench.project / "patches/demo/stack.lock.json").read_bytes()
    (index.folder / "files/kern-2.0-py3-none-any.whl").unlink()
    result = lock(machine.bench, "--vendor")
    assert result.code == 6
    assert "error: step kern (pip): " in result.err
    assert "found 404" in result.err
    index.close()
    result = lock(machine.bench, "--vendor")
    assert (result.code, "found Connection refused" in result.err) == (6, True)
    assert (machine.bench.project / "patches/demo/stack.lock.json").read_bytes() == before


def test_a_package_without_a_wheel(machine: Machine, index: Index) -> None:
    """A source archive is not built: neither by lock nor by apply; the way out is said."""
    page = index.folder / "simple/raw/index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<!DOCTYPE html><a href="/files/raw-1.0.tar.gz#sha256={"1" * 64}">raw-1.0.tar.gz</a>\n')
    machine.bench.stack([pip_step("raw==1.0")])
    result = lock(machine.bench)
    assert (result.code, result.err) == (
        2,
        (
            f"error: step kern (pip): {index.url}/raw/: it has raw==1.0 as a source archive only,"
            " which would have to be built: that runs its code, and gives other bytes each time\n"
            "hint: build it once (pip wheel --no-deps raw==1.0), put the wheel on an index of yours,"
            " and name that as the step's `index`; then: patchkit lock --image demo\n"
        ),
    )
    machine.stack(machine.first(), pip_step("raw==1.0", hashes="first-use"))
    result = machine.run("apply")
    assert result.code == 8
    assert "No matching distribution found for raw==1.0" in result.err
    assert "hint: only wheels are taken, since building a package runs its code" in result.err
    assert not (machine.site / ".patchkit").exists()


def test_pips_certificates_are_heard(bench: Workbench, secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for pip, PIP_CERT is enough for a file, and its configuration for an index that a step names itself."""
    monkeypatch.delenv("SSL_CERT_FILE")
    bench.stack([kernel(secure)])
    assert lock(bench).code == 6
    monkeypatch.setenv("PIP_CERT", str(secure.certificate))
    assert lock(bench).code == 0
    monkeypatch.delenv("PIP_CERT")
    pip = pip_step("kern==2.0", index=f"{secure.url}/simple", hashes="required")
    secure.files["/simple/kern/"] = (
        f'<!DOCTYPE html><a href="/k#sha256={DIGEST}">kern-2.0-py3-none-any.whl</a>'.encode()
    )
    bench.stack([pip], version=2)
    assert "TLS refused" in lock(bench).out
    settings = bench.project.parent / "pip.conf"
    settings.write_text(f"[global]\ncert = {secure.certificate}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    result = lock(bench, "--amend")
    assert (result.code, result.err) == (0, "")
    assert "TLS refused" not in result.out
    assert "it lists no wheel of kern==2.0 with a sha256" in result.out  # it was reached


@pytest.mark.parametrize("how", ["stalls", "has a wrong certificate"])
def test_an_index_that(
    how: str, machine: Machine, secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To pip it is one without the package; patchkit says why. The patience is pip's own (PIP_DEFAULT_TIMEOUT, 15
    seconds, tried twice)."""
    machine.stack(machine.first(), pip_step("kern==2.0"))
    secure.files["/simple/kern/"] = b"<!DOCTYPE html>"
    if how == "stalls":
        secure.stalls["/simple/kern/"] = 3
    else:
        secure.certificate = tmp_path / "other.pem"
        secure.certificate.write_bytes(make_certificate())
    monkeypatch.setenv("PIP_INDEX_URL", f"{secure.url}/simple")
    monkeypatch.setenv("PIP_CERT", str(secure.certificate))
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "0.5")
    result = machine.run("apply")
    assert result.code == 6, result.err
    assert "error: step kern (pip): pip install failed: exit status 1\n" in result.err
    assert ("timed out" if how == "stalls" else "certificate verify failed") in result.err
    assert "hint: check network, proxy and the index that pip is set to: pip config list\n" in result.err
    assert machine.version("kern") is None
    assert not (machine.site / ".patchkit").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_no_space_for_a_wheel(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add("big", "1.0", code=f"# {'x' * 2_000_000}\n")
    machine.stack(machine.first(), pip_step("big==1.0"))
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", small], check=True)
    try:
        done = patchkit_process(
            "apply", *machine.where(), "-C", str(machine.bench.project), env={**os.environ, "TMPDIR": str(small)}
        )
        assert done.returncode == 8
        assert b"step kern (pip): pip install failed: exit status " in done.stderr
        assert b"No space left on device" in done.stderr
        assert [path for path in small.iterdir() if path.suffix != ".log"] == []
    finally:
        subprocess.run(["umount", small], check=True)
    assert machine.version("big") is None
    assert not (machine.site / ".patchkit").exists()
