"""What goes over the wire to Debian's registry: how many bytes, and what a cut connection costs."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from patchkit.oci import upload
from patchkit.oci.entries import Entry
from patchkit.oci.layers import make_layer
from patchkit.oci.registry import Registry
from patchkit.oci.transfer import push, read_image
from patchkit.oci.transforms import append, describe
from patchkit.oci.types import Descriptor, History, digest_of

from .images import base
from .proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.io.wire import Wire
    from patchkit.oci.registry import Repository

MIB = 1 << 20
DATA = random.Random(3).randbytes(5 * MIB)
BLOB = Descriptor(media_type="", digest=digest_of(DATA), size=len(DATA))


@pytest.fixture
def proxy(open_registry: str) -> Iterator[Proxy]:
    made = Proxy(open_registry)
    yield made
    made.close()


@pytest.fixture
def repo(wire: Wire, proxy: Proxy) -> Repository:
    name = f"oci-test/traffic-{time.time_ns()}"
    return Registry(proxy.host, wire, login=lambda *_: None).repository(name, push=True)


def test_an_appended_layer_is_all_that_moves(wire: Wire, proxy: Proxy, repo: Repository) -> None:
    push(base(size=5 * MIB), repo, repo, "base")
    proxy.up = proxy.down = 0
    found = repo.manifest("base")
    image = read_image(repo, found.descriptor, found.raw)
    layer = make_layer([Entry(path="new", data=b"x" * 10_000)], parents={})
    derived = describe(append(image, layer, History(created_by="patchkit")), labels={"a": "b"})
    push(derived, repo, repo, "derived")
    assert proxy.up + proxy.down < 64 * 1024 + len(layer.data)
    proxy.up = proxy.down = 0
    sent = wire.bytes_sent
    assert push(derived, repo, repo, "derived").unchanged
    assert wire.bytes_sent == sent
    assert proxy.up + proxy.down < 20 * 1024


def test_cut_while_sending(repo: Repository, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """docker-registry 2.8.2 forgets an upload of which it got a part of a chunk: then it is begun anew."""
    monkeypatch.setattr(upload, "CHUNK", MIB)
    proxy.cuts = [("up", MIB + MIB // 2), ("up", MIB // 3), ("up", 2 * MIB), ("down", 100)]
    repo.upload(BLOB, lambda at: iter([DATA[at:]]))
    assert proxy.cuts == []
    assert b"".join(repo.chunks(BLOB)) == DATA
    assert proxy.up < len(DATA) + 4 * MIB


def test_cut_while_receiving(repo: Repository, proxy: Proxy) -> None:
    repo.upload(BLOB, lambda at: iter([DATA[at:]]))
    proxy.down = 0
    proxy.cuts = [("down", MIB), ("down", 2 * MIB), ("up", 1)]
    assert b"".join(repo.chunks(BLOB)) == DATA
    assert proxy.cuts == []
    assert proxy.down < len(DATA) + MIB  # it goes on where it broke off
