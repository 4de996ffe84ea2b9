"""A release on a package index: which file is read, how little of it, and what is remembered."""

from __future__ import annotations

import hashlib
import io
import os
import random
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

from patchkit.core.errors import ConfigError, ConflictError, UnreachableError
from patchkit.core.tree import LINK, FileState
from patchkit.io.http import Http, HttpError
from patchkit.sources import pipconfig, simple
from patchkit.sources.archive import RangedFile
from patchkit.sources.cache import Cache
from patchkit.sources.index import IndexSource

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "s3cr3t-p4ss"
FILLER = {f"demo/filler{number}.bin": random.Random(number).randbytes(50_000) for number in range(3)}
FILES = {"demo/a.py": b"a = 1\n", **FILLER, "demo/run.sh": b"#!/bin/sh\n", "demo/z.py": b"z = 1\n" * 100}
PURE = "demo-1.0-py3-none-any.whl"


def quick(*, ca_bundle: str | None = None) -> Http:
    return Http(ca_bundle=ca_bundle, read_timeout=1.0, backoff=0.01, attempts=2)


def no_network(*, ca_bundle: str | None = None) -> Http:
    raise AssertionError("a request, though the cache knows")


@pytest.fixture
def opened(cache: Cache) -> Iterator[Any]:
    made: list[IndexSource] = []

    def open_it(spec: str = "demo==1.0", *, platform: str | None = None, **options: Any) -> IndexSource:
        source = IndexSource(spec, platform=platform, **{"cache": cache, "http_factory": quick, **options})
        made.append(source)
        return source

    yield open_it
    for source in made:
        source.close()


def test_only_the_wanted_files_are_moved_and_never_twice(index: Any, kit: Any, opened: Any) -> None:
    wheel = kit.make_wheel(FILES, executable=("demo/run.sh",))
    index.add(PURE, wheel)
    source = opened()
    assert source.read("demo/a.py") == FileState(data=b"a = 1\n")
    assert source.read("demo/run.sh") == FileState(mode=0o755, data=b"#!/bin/sh\n")
    assert source.read("demo/none.py") is None
    assert source.describe() == f"demo==1.0 (wheel {PURE}, by range)"
    assert source.artifact_sha256 == hashlib.sha256(wheel).hexdigest()
    asked = [(seen.path, seen.headers.get("range")) for seen in index.server.seen]
    assert [path for path, _ in asked] == ["/simple/demo/", f"/files/{PURE}", f"/files/{PURE}"]  # page, tail, a.py
    assert len({seen.connection for seen in index.server.seen}) == 1
    assert source._http is not None
    assert source._http.bytes_received < 40_000
    assert len(wheel) > 150_000

    offline = opened(http_factory=no_network)
    assert offline.read("demo/a.py") == FileState(data=b"a = 1\n")
    assert offline.read("demo/run.sh") == FileState(mode=0o755, data=b"#!/bin/sh\n")
    assert offline.read("demo/none.py") is None
    assert offline.describe() == f"demo==1.0 (wheel {PURE}, from the cache)"
    assert offline.artifact_sha256 == source.artifact_sha256


def test_another_file_later_needs_that_file_only(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES))
    opened().read("demo/z.py")
    index.server.seen.clear()
    assert opened().read("demo/filler1.bin") == FileState(data=FILLER["demo/filler1.bin"])
    assert index.server.asked() == [f"/files/{PURE}"]
    index.server.seen.clear()
    assert opened().read("demo/nothing.py") is None
    assert index.server.asked() == []


def test_lost_blob_is_fetched_again(index: Any, kit: Any, opened: Any, cache: Cache) -> None:
    index.add(PURE, kit.make_wheel(FILES))
    opened().read("demo/a.py")
    path = cache.blob_file(hashlib.sha256(b"a = 1\n").hexdigest())
    assert path is not None
    Path(path).write_bytes(b"rotten")
    assert opened().read("demo/a.py") == FileState(data=b"a = 1\n")


def test_large_central_directory_is_one_request(index: Any, kit: Any, opened: Any) -> None:
    many = {f"demo/{'deep' * 20}/{number}.py": b"" for number in range(1000)}
    index.add(PURE, kit.make_wheel({**FILLER, **many, "demo/a.py": b"a"}))
    assert opened().read("demo/filler0.bin") == FileState(data=FILLER["demo/filler0.bin"])
    assert len(index.server.seen) == 5  # page, tail, directory, RECORD, file


def test_zip64(index: Any, opened: Any) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("demo/a.py", b"a = 1\n")
        for number in range(66_000):
            archive.writestr(zipfile.ZipInfo(str(number)), b"")
    index.add(PURE, buffer.getvalue())
    assert opened().read("demo/a.py") == FileState(data=b"a = 1\n")


def test_html_index_without_sizes(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES))
    index.as_html()
    assert opened().read("demo/a.py") == FileState(data=b"a = 1\n")
    assert index.server.seen[1].headers["range"] == "bytes=-32768"


def test_data_directories_of_a_wheel(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel({"demo-1.0.data/purelib/demo/a.py": b"pure", "demo-1.0.data/platlib/b.py": b"plat"}))
    source = opened()
    assert source.read("demo/a.py") == FileState(data=b"pure")
    assert source.read("b.py") == FileState(data=b"plat")


def test_directory_in_wheel_and_sdist(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES))
    with pytest.raises(ConflictError, match="demo: expected a file, found a directory"):
        opened().read("demo")
    with pytest.raises(ConfigError, match="relative to the site"):
        opened().read("../demo/a.py")


def test_damaged_bytes_are_found_by_crc(index: Any, kit: Any, opened: Any) -> None:
    wheel = bytearray(kit.make_wheel(FILES))
    wheel[30_000] ^= 1
    index.add(PURE, bytes(wheel))
    with pytest.raises(UnreachableError, match=r"demo/filler0.bin damaged"):
        opened().read("demo/filler0.bin")
    assert opened().read("demo/a.py") == FileState(data=b"a = 1\n")


def test_bytes_that_record_contradicts(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES, record={"demo/a.py": b"another"}))
    with pytest.raises(UnreachableError, match=r"demo/a.py: expected sha256=\S+ \(its RECORD\), found sha256="):
        opened().read("demo/a.py")
    assert opened().read("demo/z.py") is not None


def test_rubbish_for_a_wheel(index: Any, opened: Any) -> None:
    index.add(PURE, b"rubbish" * 10_000)
    with pytest.raises(UnreachableError, match="its central directory damaged"):
        opened().read("demo/a.py")


def test_size_that_the_index_tells_is_checked(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES), size=100_000)
    with pytest.raises(HttpError, match="of 100000, found Content-Range"):
        opened().read("demo/a.py")


# the sdist


def test_sdist_if_the_server_has_no_ranges(index: Any, kit: Any, opened: Any, cache: Cache) -> None:
    files = {"demo/a.py": b"sdist\n", "demo/run.sh": b"#!", "demo/link.py": "a.py", "PKG-INFO": b"x"}
    sdist = kit.make_sdist(files, modes={"demo/run.sh": 0o775})
    index.add(PURE, kit.make_wheel(FILES), ranges=False)
    index.add("demo-1.0.tar.gz", sdist)
    told: list[tuple[int, int | None]] = []
    source = opened(progress=lambda *at: told.append(at))
    assert source.read("demo/a.py") == FileState(data=b"sdist\n")
    assert source.read("demo/run.sh") == FileState(mode=0o755, data=b"#!")
    assert source.read("demo/link.py") == FileState(kind=LINK, mode=0o777, data=b"a.py")
    assert source.read("demo/none.py") is None
    with pytest.raises(ConflictError, match="found a directory"):
        source.read("demo")
    assert source.describe() == "demo==1.0 (sdist demo-1.0.tar.gz, whole)"
    assert source.artifact_sha256 == hashlib.sha256(sdist).hexdigest()
    assert told[-1] == (len(sdist), len(sdist))
    assert cache.blob_file(hashlib.sha256(sdist).hexdigest()) is not None
    offline = opened(http_factory=no_network)
    assert offline.read("demo/a.py") == FileState(data=b"sdist\n")
    assert offline.read("PKG-INFO") == FileState(data=b"x")  # not read before, but the whole sdist is in the cache


def test_sdist_with_source_layout_and_no_wheel(index: Any, kit: Any, opened: Any) -> None:
    index.add("demo-1.0.tar.gz", kit.make_sdist({"src/demo/a.py": b"src\n", "tests/demo/a.py": b"no\n"}))
    assert opened().read("demo/a.py") == FileState(data=b"src\n")


def test_sdist_with_another_sha256_leaves_nothing(index: Any, kit: Any, opened: Any, cache: Cache) -> None:
    index.add("demo-1.0.tar.gz", kit.make_sdist({"demo/a.py": b"x"}), hashes={"sha256": "0" * 64})
    with pytest.raises(HttpError, match=f"expected sha256 {'0' * 64}, found sha256 "):
        opened().read("demo/a.py")
    assert [name for _, _, names in os.walk(cache.root) for name in names] == []


def test_sdist_that_is_no_archive(index: Any, opened: Any) -> None:
    index.add("demo-1.0.tar.gz", b"rubbish")
    with pytest.raises(UnreachableError, match="expected a readable sdist, found it damaged"):
        opened().read("demo/a.py")


def test_whole_wheel_is_the_last_resort(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES), ranges=False)
    source = opened()
    assert source.read("demo/a.py") == FileState(data=b"a = 1\n")
    assert source.describe() == f"demo==1.0 (wheel {PURE}, whole)"


# what the index says


def test_yanked_only_when_nothing_else(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES), yanked="broken")
    index.add("demo-1.0.tar.gz", kit.make_sdist({"demo/a.py": b"sdist"}))
    assert opened().read("demo/a.py") == FileState(data=b"sdist")


def test_yanked_alone(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES), yanked=True)
    index.as_html()
    source = opened()
    assert source.read("demo/a.py") == FileState(data=b"a = 1\n")
    assert source.describe() == f"demo==1.0 (wheel {PURE}, by range, yanked)"


def test_platforms_read_their_own_wheel(index: Any, kit: Any, opened: Any) -> None:
    for machine in ("x86_64", "aarch64"):
        index.add(f"demo-1.0-cp38-abi3-manylinux_2_28_{machine}.whl", kit.make_wheel({"a.py": machine.encode()}))
    for platform, machine in (("linux/amd64", "x86_64"), ("linux/arm64", "aarch64"), (None, "x86_64")):
        assert opened(platform=platform).read("a.py") == FileState(data=machine.encode())
    with pytest.raises(ConfigError, match="found files for other platforms only"):
        opened(platform="linux/s390x").read("a.py")
    with pytest.raises(ConfigError, match="platform 'windows/amd64': expected one of linux/amd64, "):
        opened(platform="windows/amd64")


def names(*artifacts: str, machine: str = "x86_64", python: tuple[int, int] | None = (3, 12)) -> list[str]:
    made = [simple._artifact(name, f"https://h/{name}", "0" * 64, None, yanked=False) for name in artifacts]
    return [artifact.name for artifact in simple.ranked([a for a in made if a], machine, python)]


def test_ranking_of_wheels() -> None:
    cp311, cp312 = "d-1-cp311-cp311-manylinux_2_28_x86_64.whl", "d-1-cp312-cp312-manylinux2014_x86_64.whl"
    abi3, later = "d-1-cp38-abi3-linux_x86_64.whl", "d-1-cp313-abi3-manylinux_2_28_x86_64.whl"
    free, musl = "d-1-cp312-cp312t-manylinux_2_28_x86_64.whl", "d-1-cp312-cp312-musllinux_1_2_x86_64.whl"
    pure, two, arm = "d-1-py3-none-any.whl", "d-1-py2-none-any.whl", "d-1-cp312-cp312-manylinux_2_28_aarch64.whl"
    windows, sdist = "d-1-cp312-cp312-win_amd64.whl", "d-1.tar.gz"
    everything = (sdist, cp311, pure, abi3, cp312, later, free, musl, two, arm, windows)
    assert names(*everything) == [cp312, abi3, pure, sdist]
    assert names(*everything, machine="aarch64") == [arm, pure, sdist]
    assert names(*everything, python=None)[0] == cp312
    assert names("d-1.zip", "d-1.egg", "d-1-py3-none-any.whl.asc", "nonsense.whl") == []


def test_local_builds() -> None:
    def found(*listed: str, wanted: str) -> list[str]:
        made = [simple._artifact(f"d-{v}-py3-none-any.whl", "u", None, None, yanked=False) for v in listed]
        return [str(artifact.version) for artifact in simple.of_version([a for a in made if a], Version(wanted))]

    assert found("1.0", "1.0+cpu", "1.1", wanted="1.0") == ["1.0"]
    assert found("1.0+cpu", wanted="1.0.0") == ["1.0+cpu"]
    assert found("1.0", "1.0+cpu", wanted="1.0+cpu") == ["1.0+cpu"]
    assert found("1.0", wanted="1.0+cpu") == []
    with pytest.raises(ConfigError, match=r"1.0: expected one build, found 2") as caught:
        found("1.0+cpu", "1.0+rocm", wanted="1.0")
    assert caught.value.hint == "name one: 1.0+cpu, 1.0+rocm"


def test_release_that_is_not_there(index: Any, kit: Any, opened: Any) -> None:
    for number in range(8):
        index.add(f"demo-0.{number}-py3-none-any.whl", kit.make_wheel(FILES))
    with pytest.raises(ConfigError, match=r"found other versions only, the newest 0\.3, 0\.4, 0\.5, 0\.6, 0\.7"):
        opened().read("demo/a.py")
    with pytest.raises(ConfigError, match="found no project other-name"):
        opened("Other.Name==1").read("a.py")


def test_files_without_sha256_are_refused(index: Any, kit: Any, opened: Any) -> None:
    index.add(PURE, kit.make_wheel(FILES), hashes={"md5": "0"})
    with pytest.raises(ConfigError, match="without a sha256, which cannot be checked"):
        opened().read("demo/a.py")


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"{", "application/json"), (b"{}", "application/json"), (b'{"files": [1]}', "application/json"), (b"x", "a/b")],
)
def test_pages_that_are_none(index: Any, opened: Any, body: bytes, kind: str) -> None:
    index.server.serve("/simple/demo/", body, kind=kind)
    with pytest.raises(UnreachableError, match="expected an index page, found"):
        opened().read("demo/a.py")


def test_unreachable_index(index: Any, kit: Any, opened: Any) -> None:
    index.server.routes["/simple/demo/"] = kit.status(503)
    with pytest.raises(UnreachableError, match=r"/simple/demo/: expected 200, found 503"):
        opened().read("demo/a.py")


def test_artifact_that_moved_since_it_was_remembered(index: Any, kit: Any, opened: Any) -> None:
    wheel = kit.make_wheel(FILES)
    index.add(PURE, wheel)
    opened().read("demo/a.py")
    del index.server.routes[f"/files/{PURE}"]
    index.files.clear()
    index.server.serve("/elsewhere.whl", wheel)
    index.add(PURE, wheel, url="/elsewhere.whl")
    del index.server.routes[f"/files/{PURE}"]
    assert opened().read("demo/z.py") == FileState(data=FILES["demo/z.py"])


# what pip's configuration says


def test_extra_indexes(index: Any, other: Any, kit: Any, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    second = type(index)(other)
    second.add(PURE, kit.make_wheel(FILES))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"file:///nowhere {second.url}/")
    assert opened().read("demo/a.py") == FileState(data=b"a = 1\n")
    assert index.server.asked() == ["/simple/demo/"]


def test_first_index_that_fits_is_enough(
    index: Any, other: Any, kit: Any, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add(PURE, kit.make_wheel(FILES))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", other.url("/simple"))
    opened().read("demo/a.py")
    assert other.seen == []


def test_another_index_is_another_release(
    index: Any, other: Any, kit: Any, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add(PURE, kit.make_wheel(FILES))
    opened().read("demo/a.py")
    second = type(index)(other)
    second.add(PURE, kit.make_wheel({**FILES, "demo/a.py": b"other"}))
    monkeypatch.setenv("PIP_INDEX_URL", second.url)
    assert opened().read("demo/a.py") == FileState(data=b"other")


def test_index_on_disk(tmp_path: Path, kit: Any, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = kit.make_wheel(FILES)
    (tmp_path / "an index/demo").mkdir(parents=True)
    (tmp_path / "an index/demo" / PURE).write_bytes(wheel)
    page = tmp_path / "an index/demo/index.html"
    page.write_text(f'<a href="{PURE}#sha256={hashlib.sha256(wheel).hexdigest()}">x</a>')
    monkeypatch.setenv("PIP_INDEX_URL", str(tmp_path / "an index"))
    assert opened(http_factory=no_network).read("demo/a.py") == FileState(data=b"a = 1\n")
    page.write_text(f'<a href="{PURE}#sha256={"0" * 64}">x</a>')
    with pytest.raises(UnreachableError, match=f"expected sha256 {'0' * 64}"):
        opened(http_factory=no_network, cache=Cache(str(tmp_path / "other"))).read("demo/a.py")


def test_credentials_reach_their_host_and_nothing_else(
    index: Any, other: Any, kit: Any, opened: Any, monkeypatch: pytest.MonkeyPatch, cache: Cache
) -> None:
    wheel = kit.make_wheel(FILES)
    url = index.server.url("/simple", user=f"user:{SECRET}")
    monkeypatch.setenv("PIP_INDEX_URL", url)
    index.add(PURE, wheel)
    opened().read("demo/a.py")
    opened().read("demo/z.py")
    assert all("authorization" in seen.headers for seen in index.server.seen)
    index.files.clear()
    other.serve("/far.whl", wheel)
    index.add("demo-2.0-py3-none-any.whl", wheel, url=other.url(f"/far.whl?token={SECRET}"))
    assert opened("demo==2.0").read("demo/filler0.bin") is not None
    assert opened("demo==2.0").read("demo/filler1.bin") is not None
    assert other.seen
    assert not any("authorization" in seen.headers for seen in other.seen)
    for at, _, files in os.walk(cache.root):
        for name in files:
            assert SECRET.encode() not in Path(at, name).read_bytes()
    for answer in (kit.status(401), kit.content(b"{", kind="application/json"), kit.status(404)):
        index.server.routes["/simple/demo/"] = answer
        with pytest.raises((UnreachableError, ConfigError)) as caught:
            opened("demo==3.0").read("demo/a.py")
        assert SECRET not in str(caught.value) + caught.value.hint


def test_settings_from_environment_and_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://one.invalid/simple/\ncert = /global.pem\n"
        "extra-index-url =\n  https://two.invalid/simple\n  https://three.invalid/simple\n[install]\ncert = /install.pem\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    found = pipconfig.load_settings()
    assert found.urls[0] == "https://one.invalid/simple"
    assert found.urls[-2:] == ("https://two.invalid/simple", "https://three.invalid/simple")
    assert found.ca_bundle == "/install.pem"
    monkeypatch.setenv("PIP_INDEX_URL", "https://four.invalid/simple")
    monkeypatch.setenv("PIP_CERT", "/env.pem")
    found = pipconfig.load_settings()
    assert (found.urls[0], found.ca_bundle) == ("https://four.invalid/simple", "/env.pem")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ConfigError, match="configured with no-index"):
        pipconfig.load_settings()


def test_default_is_the_index_that_pip_knows() -> None:
    found = pipconfig.load_settings()
    assert len(found.urls) == 1
    assert found.urls[0].startswith("https://")


def test_broken_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("nonsense")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with pytest.raises(ConfigError, match="pip's configuration cannot be read") as caught:
        pipconfig.load_settings()
    assert caught.value.hint == "pip config debug"


def test_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pip"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(ConfigError, match="no package index is configured") as caught:
        pipconfig.load_settings()
    assert "PIP_INDEX_URL" in caught.value.hint
    monkeypatch.setenv("PIP_INDEX_URL", "https://one.invalid/simple")
    assert pipconfig.load_settings().urls == ("https://one.invalid/simple",)


PLACES = ("shared/a/pip/pip.conf", "shared/b/pip/pip.conf", "home/.pip/pip.conf", "home/.config/pip/pip.conf")


def write_pip_config(top: Path, place: str, chance: random.Random) -> None:
    lines = []
    for section in chance.sample(["global", "install", "download", "list"], 3):
        lines.append(f"[{section}]")
        for name in chance.sample(["index-url", "extra_index_url", "--cert", "Index-URL ", "timeout"], 2):
            value = f"https://{place.replace('/', '-')}.invalid/{section}/{name.strip()}"
            lines.append(f"{name} = {chance.choice([value, f'{value} {value}2', ''])}")
    (top / place).parent.mkdir(parents=True, exist_ok=True)
    (top / place).write_text("\n".join(dict.fromkeys(lines)) + "\n")


def options_of_pip(configuration: Any, errors: Any) -> dict[str, str]:
    expected: dict[str, str] = {}
    for name in ("index-url", "extra-index-url", "cert"):
        for section in (":env:", "download", "install", "global"):
            try:
                value = configuration.get_value(f"{section}.{name}")
            except errors.ConfigurationError:
                continue
            if value and name not in expected:
                expected[name] = value
    return expected


@pytest.mark.parametrize("seed", range(40))
def test_settings_are_those_of_pip(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chance = random.Random(seed)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", f"{tmp_path}/shared/a:{tmp_path}/shared/b")
    if chance.random() < 0.5:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    else:
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("PIP_CONFIG_FILE")
    for place in (*PLACES, "config/pip/pip.conf", "named.conf"):
        if chance.random() < 0.6:
            write_pip_config(tmp_path, place, chance)
    if chance.random() < 0.4:
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "named.conf"))
    if chance.random() < 0.4:
        monkeypatch.setenv("PIP_CERT", chance.choice(["", "/env.pem"]))
    configuration_module = pytest.importorskip("pip._internal.configuration")
    errors = pytest.importorskip("pip._internal.exceptions")
    configuration = configuration_module.Configuration(isolated=False)
    try:
        configuration.load()
    except errors.ConfigurationError:
        with pytest.raises(ConfigError):
            pipconfig.load_settings()
        return
    assert pipconfig._options() == options_of_pip(configuration, errors)


def test_ranged_file_reads_like_a_file() -> None:
    data, fetched = random.Random(1).randbytes(10_000), []

    def fetch(start: int, end: int) -> bytes:
        fetched.append((start, end))
        return data[start:end]

    file, plain, chance = RangedFile(len(data), fetch), io.BytesIO(data), random.Random(2)
    file.keep(9000, data[9000:])
    for _ in range(300):
        offset, size = chance.randrange(10_100), chance.choice([-1, 0, 1, 100, 5000])
        if chance.random() < 0.3:
            file.prefetch(min(offset, 9999), min(offset, 9999) + 500)
        assert file.seek(offset) == plain.seek(offset) == file.tell()
        assert file.read(size) == plain.read(size)
    assert all(start < end <= len(data) for start, end in fetched)
    with pytest.raises(OSError, match="before the start"):
        file.seek(-1)
