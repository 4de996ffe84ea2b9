"""Layers read: what the top one says holds, deletions and links included."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from patchkit.oci.documents import MalformedError
from patchkit.oci.entries import Entry, Kind
from patchkit.oci.rootfs import Found, RootFs
from patchkit.oci.scan import LayerIndex, scan
from patchkit.oci.types import Descriptor, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DIR, LINK, HARD, OPAQUE = "dir", "->", "=", ".wh..wh..opq"


def layer(*items: tuple[str, ...], format: int = tarfile.PAX_FORMAT) -> bytes:  # noqa: A002 - tarfile's word
    """An archive by Python's own writer: (path, content), (path, "dir"), (path, "->", target), (path, "=", target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for path, what, *rest in items:
            info = tarfile.TarInfo(path)
            if what == DIR:
                info.type, info.mode = tarfile.DIRTYPE, int(rest[0], 8) if rest else 0o755
                archive.addfile(info)
            elif what in (LINK, HARD):
                info.type, info.linkname = (tarfile.SYMTYPE if what == LINK else tarfile.LNKTYPE), rest[0]
                archive.addfile(info)
            else:
                info.size = len(what)
                archive.addfile(info, io.BytesIO(what.encode()))
    return buffer.getvalue()


class Stack:
    """Layers, the lowest first, and how often each was read."""

    def __init__(self, *layers: bytes) -> None:
        self.data = {digest_of(data): data for data in layers}
        assert len(self.data) == len(layers)
        self.descriptors = [Descriptor(media_type="", digest=d, size=len(b)) for d, b in self.data.items()]
        self.read: list[int] = []

    def __call__(self, descriptor: Descriptor, wanted: frozenset[str]) -> LayerIndex:
        self.read.append(list(self.data).index(descriptor.digest))
        return scan(iter([self.data[descriptor.digest]]), wanted)

    def find(self, path: str) -> Found | None:
        self.read.clear()
        return RootFs(self.descriptors, self, [path]).find(path)

    def content(self, path: str) -> str | None:
        found = self.find(path)
        return None if found is None or found.entry.data is None else found.entry.data.decode()


def test_the_top_layer_holds_and_those_below_are_left_unread() -> None:
    stack = Stack(layer(("a", DIR), ("a/f", "old")), layer(("a", DIR, "1777"), ("a/f", "new")))
    assert stack.content("a/f") == "new"
    assert stack.read == [1]
    found = stack.find("a/f")
    assert found is not None
    assert [(entry.path, entry.mode) for entry in found.parents] == [("a", 0o1777)]


def test_the_last_of_two_entries_of_one_path_holds() -> None:
    assert Stack(layer(("f", "first"), ("f", "second"))).content("f") == "second"


@pytest.mark.parametrize(
    ("above", "path", "there"),
    [
        ((("a", DIR), ("a/.wh.f", "")), "a/f", False),
        ((("a", DIR), ("a/.wh.f", "")), "a/g", True),
        (((".wh.a", ""),), "a/f", False),
        (((".wh.a", ""), ("a", DIR)), "a/f", False),
        ((("a", DIR), (f"a/{OPAQUE}", "")), "a/f", False),
        ((("a", DIR), ("a/g", "kept"), (f"a/{OPAQUE}", "")), "a/g", True),
        ((("a", "a file now"),), "a/f", False),
        ((("a", LINK, "b"),), "a/f", False),
        ((("a", DIR), ("a/.wh..wh.plnk", "")), "a/f", True),
        (((f"{OPAQUE}", ""),), "a/f", False),
    ],
)
def test_deletions(above: tuple[tuple[str, ...], ...], path: str, there: bool) -> None:
    stack = Stack(layer(("a", DIR), ("a/f", "f"), ("a/g", "g")), layer(*above))
    assert (stack.content(path) is not None) is there


def test_deleted_and_put_back() -> None:
    stack = Stack(layer(("f", "1")), layer((".wh.f", "")), layer(("f", "3")))
    assert stack.content("f") == "3"
    assert Stack(*list(stack.data.values())[:2]).content("f") is None


def test_links_on_the_way_lead_to_the_real_path() -> None:
    stack = Stack(layer(("lib", LINK, "usr/lib"), ("usr", DIR), ("usr/lib", DIR), ("usr/lib/f", "deep")))
    found = stack.find("lib/f")
    assert found is not None
    assert (found.asked, found.path, found.entry.data) == ("lib/f", "usr/lib/f", b"deep")
    assert [entry.path for entry in found.parents] == ["usr", "usr/lib"]


@pytest.mark.parametrize("target", ["/x/y", "../x/y", "./../x//y/"])
def test_forms_of_links(target: str) -> None:
    stack = Stack(layer(("a", DIR), ("a/l", LINK, target), ("x", DIR), ("x/y", DIR), ("x/y/f", "there")))
    assert stack.content("a/l/f") == "there"


def test_a_link_at_the_end_is_not_followed() -> None:
    found = Stack(layer(("l", LINK, "f"), ("f", "x"))).find("l")
    assert found is not None
    assert (found.entry.kind, found.entry.target) == (Kind.LINK, "f")


def test_circles_and_ways_out() -> None:
    with pytest.raises(ValueError, match="circle"):
        Stack(layer(("a", LINK, "b"), ("b", LINK, "a"))).find("a/f")
    with pytest.raises(ValueError, match="out of the root"):
        Stack(layer(("a", LINK, "../../x"))).find("a/f")


def test_a_directory_without_an_entry_is_one_and_hides_a_link_below() -> None:
    below = layer(("lib", LINK, "usr/lib"), ("usr", DIR), ("usr/lib", DIR), ("usr/lib/f", "below"))
    stack = Stack(below, layer(("lib/f", "above")))
    found = stack.find("lib/f")
    assert found is not None
    assert (found.path, found.entry.data) == ("lib/f", b"above")
    assert found.parents == (Entry(path="lib", kind=Kind.DIRECTORY, mode=0o755),)


def test_an_implied_directory_keeps_what_the_base_says_of_it() -> None:
    found = Stack(layer(("opt", DIR, "1777")), layer(("opt/f", "x"))).find("opt/f")
    assert found is not None
    assert found.parents[0].mode == 0o1777


def test_hard_links_show_their_target_and_split() -> None:
    stack = Stack(layer(("a", "same"), ("b", HARD, "a"), ("c", HARD, "b")))
    for path in ("b", "c"):
        found = stack.find(path)
        assert found is not None
        assert (found.entry.data, found.entry.split, found.entry.target) == (b"same", True, "a")
        assert found.entry.kind is Kind.FILE


def test_children() -> None:
    stack = Stack(layer(("d", DIR), ("d/a", "1"), ("d/b", "2"), ("d/e", DIR), ("d/e/x", "")), layer(("d/.wh.a", "")))
    assert RootFs(stack.descriptors, stack).children("d") == ("d/b", "d/e")


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_of_both_formats(format: int) -> None:  # noqa: A002 - tarfile's word
    path = "d/" + "n" * 150 + "/" + "é" * 90
    assert scan(iter([layer((path, "x"), format=format)]), {path}).entries[path].data == b"x"


def test_names_with_a_dot_and_slashes() -> None:
    found = scan(iter([layer(("./", DIR), ("./a/", DIR), ("./a/f", "x"), ("/b", "y"))]))
    assert set(found.entries) == {"a", "a/f", "b"}


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_gzip_in_pieces_and_in_members(size: int) -> None:
    plain = layer(("a", "x" * 5000), ("b", "y"))
    packed = gzip.compress(plain[:3000]) + gzip.compress(plain[3000:]) + b"\0" * 100
    found = scan(pieces(packed, size), {"a"})
    assert found.entries["a"].data == b"x" * 5000
    assert (found.digest, found.diff_id, found.size) == (digest_of(packed), digest_of(plain), len(packed))
    assert found.packed
    assert not scan(pieces(plain, size)).packed


def test_content_at_an_offset() -> None:
    plain = layer(("a", "hello"))
    entry = scan(iter([plain])).entries["a"]
    assert plain[entry.offset : entry.offset + entry.size] == b"hello"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x28\xb5\x2f\xfd" + b"x" * 600, "zstd"),
        (gzip.compress(layer(("a", "x")))[:-9], "ends early"),
        (b"\x1f\x8b" + b"x" * 600, "expected gzip"),
        (b"no archive at all" * 100, "cannot be read"),
        (layer(("a", "x" * 3000))[:1500], "cannot be read|ends early"),
        (layer(("../../etc/passwd", "x")), "inside the root"),
    ],
)
def test_no_layers(data: bytes, message: str) -> None:
    with pytest.raises(MalformedError, match=message):
        scan(iter([data]), {"a"})


def test_an_archive_without_its_end() -> None:
    """As umoci 0.4.7 writes them; but the content must be whole."""
    whole = layer(("a", "hello"))
    for size in (512 + 5, 512 + 100, 1024, 1536):
        assert scan(iter([whole[:size]]), {"a"}).entries["a"].data == b"hello"
    with pytest.raises(MalformedError, match="expected 517 bytes of an archive, found 516: it ends early"):
        scan(iter([whole[:516]]), {"a"})


def test_an_empty_layer() -> None:
    assert scan(iter([])).entries == {}
    assert scan(iter([b"\0" * 1024])).entries == {}
