"""Registries that answer wrongly, late, half or never: a retry that works, or a message with the cause; and never a
manifest whose blobs or diff_ids are wrong."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import UnreachableError
from patchkit.io.credentials import Login
from patchkit.io.http import HttpError, Response, WrongContentError
from patchkit.oci import upload
from patchkit.oci.asking import MissingError
from patchkit.oci.auth import Auth, Challenge, parse_challenges
from patchkit.oci.layers import make_layer
from patchkit.oci.registry import Registry
from patchkit.oci.transfer import check, push, read_image
from patchkit.oci.transforms import append, rebuilt
from patchkit.oci.types import OCI_MANIFEST, Descriptor, History, digest_of

from .fake import Fake, Handler, content, cut_after, done_and_gone, error, half_taken, hang_up, status
from .images import base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.io.wire import Wire
    from patchkit.oci.registry import Repository

LOGIN = Login(user="tester", password="s3cr3t-p4ss", source="/a/config.json")
DATA = bytes(range(256)) * 1000
BLOB = Descriptor(media_type="", digest=digest_of(DATA), size=len(DATA))


def repository(wire: Wire, fake: Fake, name: str = "team/a", login: Login | None = None) -> Repository:
    return Registry(fake.host, wire, login=lambda *_: login).repository(name, push=True)


@pytest.fixture
def repo(wire: Wire, fake: Fake) -> Repository:
    return repository(wire, fake)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "CHUNK", 60_000)


def send(repo: Repository, data: bytes = DATA, blob: Descriptor = BLOB) -> list[int]:
    """Upload; return the offsets that it was read from."""
    read = []

    def source(at: int) -> Iterator[bytes]:
        read.append(at)
        return iter([data[at:]])

    repo.upload(blob, source)
    return read


# -- manifests


def put_image(fake: Fake, tag: str = "v1") -> tuple[str, bytes]:
    image = base()
    for layer in image.added:
        fake.put(layer.data)
    fake.put(image.config_bytes)
    for key in (tag, image.digest):
        fake.manifests["team/a", key] = image.manifest.media_type, image.manifest_bytes
    return image.digest, image.manifest_bytes


def test_a_manifest_by_digest_with_other_bytes(repo: Repository, fake: Fake) -> None:
    digest, raw = put_image(fake)
    fake.on("GET", "manifests", content(raw + b" ", OCI_MANIFEST))
    with pytest.raises(WrongContentError) as caught:
        repo.manifest(digest)
    assert str(caught.value) == f"{repo}@{digest}: expected {digest}, found {digest_of(raw + b' ')}"


def test_a_manifest_by_tag_that_is_not_what_its_header_says(repo: Repository, fake: Fake) -> None:
    digest, raw = put_image(fake)
    fake.on("GET", "manifests", content(raw + b" ", OCI_MANIFEST, Docker_Content_Digest=digest))
    with pytest.raises(WrongContentError, match=f"expected {digest}"):
        repo.manifest("v1")


def test_schema_1(repo: Repository, fake: Fake) -> None:
    old = json.dumps({"schemaVersion": 1, "name": "a", "tag": "v1", "fsLayers": [], "history": []}).encode()
    fake.on("GET", "manifests", content(old, "application/vnd.docker.distribution.manifest.v1+prettyjws"))
    with pytest.raises(UnreachableError, match="expected a manifest of schema 2, found schema 1") as caught:
        repo.manifest("v1")
    assert "skopeo copy --format v2s2" in caught.value.hint
    assert "manifest.list.v2+json" in fake.seen[-1].headers["accept"]


@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"{}", b"[]", b'{"schemaVersion": 2}'])
def test_an_answer_that_is_no_manifest(repo: Repository, fake: Fake, body: bytes) -> None:
    fake.on("GET", "manifests", content(body, "text/html"))
    with pytest.raises(WrongContentError, match="expected a manifest, found"):
        repo.manifest("v1")


def test_a_missing_repository_and_something_that_is_no_registry(repo: Repository, fake: Fake) -> None:
    fake.on("GET", "manifests", error(404, "NAME_UNKNOWN"), status(404, b"<html>nothing here</html>"))
    with pytest.raises(MissingError) as caught:
        repo.manifest("v1")
    assert caught.value.hint == "the registry answers, it has no such repository: check its name"
    with pytest.raises(MissingError) as caught:
        repo.manifest("v1")
    assert caught.value.hint == f"this is no registry's answer: check the address {fake.host}"


def test_the_registry_stores_something_else(repo: Repository, fake: Fake) -> None:
    fake.on("PUT", "manifests", status(201, Docker_Content_Digest="sha256:" + "0" * 64))
    with pytest.raises(WrongContentError, match="which the registry says that it has stored"):
        repo.put_manifest("v1", b"{}", OCI_MANIFEST)


def test_overload(repo: Repository, fake: Fake) -> None:
    digest, _ = put_image(fake)
    fake.on("GET", "manifests", status(503), status(429, Retry_After="1"), hang_up)
    before = time.monotonic()
    assert repo.manifest("v1").digest == digest
    assert time.monotonic() - before >= 1
    fake.on("GET", "manifests", status(429, Retry_After="900"))
    with pytest.raises(HttpError, match="found 429") as caught:
        repo.manifest("v1")
    assert caught.value.hint == "the server asks to wait 900 s: try again then"
    fake.always("GET", "manifests", status(500))
    with pytest.raises(HttpError, match=r"found 500 .*\(4 attempts\)") as caught:
        repo.manifest("v1")
    assert caught.value.hint == "the server is overloaded: try again later"


def test_rights(wire: Wire, fake: Fake) -> None:
    fake.always("GET", "manifests", error(403, "DENIED"))
    with pytest.raises(HttpError) as caught:
        repository(wire, fake).manifest("v1")
    assert str(caught.value) == f"{fake.host}/team/a:v1: expected to be allowed, found 403 DENIED (denied)"
    assert caught.value.hint == f"log in: docker login {fake.host}"


def test_401_without_a_challenge_and_with_one_that_nobody_knows(wire: Wire, fake: Fake) -> None:
    fake.on("GET", "manifests", status(401), status(401, WWW_Authenticate="Negotiate"))
    for _ in range(2):
        with pytest.raises(HttpError, match="expected to be let in, found 401"):
            repository(wire, fake, login=LOGIN).manifest("v1")
    assert all("authorization" not in seen.headers for seen in fake.seen)


def test_basic_that_is_refused_is_not_tried_for_ever(wire: Wire, fake: Fake) -> None:
    fake.always("GET", "manifests", error(401, "UNAUTHORIZED", WWW_Authenticate='Basic realm="x"'))
    with pytest.raises(HttpError) as caught:
        repository(wire, fake, login=LOGIN).manifest("v1")
    assert caught.value.hint.startswith("the login from /a/config.json is refused")
    assert len(fake.asked("GET", "manifests")) == 2


@pytest.mark.parametrize("answer", [b"{}", b"no", b'{"token": "a b"}', b'{"token": 7}', b"[]", b'{"token": "\\n"}'])
def test_a_token_service_without_tokens(wire: Wire, fake: Fake, answer: bytes) -> None:
    other = Fake()
    other.always("GET", "token", content(answer))
    offer = f'Bearer realm="http://{other.host}/token",service="s"'
    fake.always("GET", "manifests", error(401, "UNAUTHORIZED", WWW_Authenticate=offer))
    with pytest.raises(HttpError, match="expected a token, found none in its answer"):
        repository(wire, fake, login=LOGIN).manifest("v1")
    other.close()


def test_challenges() -> None:
    offers = 'Basic realm="a, b", Bearer realm="https://x/t?y=1",service="s \\"q\\"",scope="repository:a:pull,push"'
    assert parse_challenges(offers) == (
        Challenge(scheme="basic", realm="a, b"),
        Challenge(scheme="bearer", realm="https://x/t?y=1", service='s "q"'),
    )
    assert parse_challenges("Bearer realm=https://x/t,service=s") == (
        Challenge(scheme="bearer", realm="https://x/t", service="s"),
    )
    for nothing in ("", "Negotiate", "=,=", '"'):
        assert parse_challenges(nothing) == ()


# -- blobs that are read


def test_a_blob_that_breaks_off_is_gone_on_with(repo: Repository, fake: Fake) -> None:
    fake.put(DATA)
    rest = DATA[100_000:]
    told = f"bytes 100000-{len(DATA) - 1}/{len(DATA)}"
    fake.on("GET", "blobs", cut_after(DATA, 100_000), cut_after(rest, 50_000, code=206, Content_Range=told), hang_up)
    assert b"".join(repo.chunks(BLOB)) == DATA
    ranges = [seen.headers.get("range") for seen in fake.asked("GET", "blobs")]
    assert ranges == [None, "bytes=100000-", "bytes=150000-", "bytes=150000-"]


def test_a_registry_without_ranges(repo: Repository, fake: Fake) -> None:
    fake.put(DATA)
    fake.ranges = False
    fake.on("GET", "blobs", cut_after(DATA, 100_000))
    assert b"".join(repo.chunks(BLOB)) == DATA
    assert repo.part(BLOB, 5, 9) == DATA[5:9]


@pytest.mark.parametrize(
    "told", ["bytes 0-9/10", f"bytes 100001-{len(DATA) - 1}/{len(DATA)}", f"bytes 100000-{len(DATA) - 1}/9", "lies"]
)
def test_a_registry_that_lies_about_the_range(repo: Repository, fake: Fake, told: str) -> None:
    fake.on("GET", "blobs", cut_after(DATA, 100_000), status(206, DATA[100_000:], Content_Range=told))
    with pytest.raises(HttpError, match=f"Content-Range: lies|expected bytes 100000-.*found {told}"):
        list(repo.chunks(BLOB))
    fake.on("GET", "blobs", status(206, b"12345", Content_Range="bytes 1-5/9"))
    with pytest.raises(WrongContentError, match="bytes 0-4: expected this range, found bytes 1-5/9"):
        repo.part(BLOB, 0, 5)


def test_a_lie_in_the_bytes_of_a_range_is_found_by_the_digest(repo: Repository, fake: Fake) -> None:
    told = f"bytes 100000-{len(DATA) - 1}/{len(DATA)}"
    fake.on("GET", "blobs", cut_after(DATA, 100_000), status(206, DATA[:-100_000], Content_Range=told))
    with pytest.raises(WrongContentError, match=f"expected {BLOB.digest}, found sha256:"):
        list(repo.chunks(BLOB))


def test_other_bytes_more_bytes_fewer_bytes(repo: Repository, fake: Fake) -> None:
    for data, found in (
        (DATA[::-1], "found sha256:"),
        (DATA + b"x", "found more"),
        (DATA[:-1], f"found {len(DATA) - 1}"),
    ):
        fake.on("GET", "blobs", content(data))
        with pytest.raises(WrongContentError, match=found):
            list(repo.chunks(BLOB))


def test_a_blob_that_always_breaks_off_at_once(repo: Repository, fake: Fake) -> None:
    fake.always("GET", "blobs", cut_after(DATA, 0))
    with pytest.raises(HttpError, match=r"ends early|reset"):
        list(repo.chunks(BLOB))


def test_redirects_to_a_blob_store_take_no_login_along(wire: Wire, fake: Fake) -> None:
    store = Fake()
    store.put(DATA)
    where = f"http://{store.host}/v2/store/blobs/{BLOB.digest}?signature=abc"
    fake.on("GET", "blobs", status(401, WWW_Authenticate='Basic realm="x"'), status(307, Location=where))
    assert b"".join(repository(wire, fake, login=LOGIN).chunks(BLOB)) == DATA
    assert "authorization" in fake.seen[-1].headers
    assert [seen.headers.get("authorization") for seen in store.seen] == [None]
    store.close()


# -- blobs that are sent


def test_a_session_elsewhere_gets_no_login(wire: Wire, fake: Fake) -> None:
    store = Fake()
    store.uploads["s"] = bytearray()
    where = f"http://{store.host}/v2/store/blobs/uploads/s"
    fake.on("POST", "uploads", status(401, WWW_Authenticate='Basic realm="x"'), status(202, Location=where))
    send(repository(wire, fake, login=LOGIN))
    assert store.blobs[BLOB.digest] == DATA
    assert [seen.headers.get("authorization") for seen in store.seen] == [None]
    store.close()


def test_a_put_that_is_led_elsewhere(wire: Wire, fake: Fake) -> None:
    fake.uploads["other"] = bytearray()
    fake.on("PUT", "uploads", status(307, Location=f"/v2/team/a/blobs/uploads/other?digest={BLOB.digest}"))
    send(repository(wire, fake))
    assert fake.blobs[BLOB.digest] == DATA


def test_a_chunk_that_breaks_off_is_gone_on_with(repo: Repository, fake: Fake, small_chunks: None) -> None:
    fake.on("PATCH", "uploads", None, half_taken, None, status(503))
    assert send(repo) == [0, 90_000, 150_000]
    assert fake.blobs[BLOB.digest] == DATA
    assert len(fake.asked("POST", "uploads")) == 1
    sent = sum(seen.size for seen in fake.asked("PATCH"))
    assert sent <= len(DATA) + 2 * 60_000


def test_a_session_that_is_gone_is_begun_anew(repo: Repository, fake: Fake, small_chunks: None) -> None:
    fake.on("PATCH", "uploads", None, lambda handler, f: (f.uploads.clear(), f.serve(handler))[0])
    assert send(repo) == [0, 0]
    assert fake.blobs[BLOB.digest] == DATA


def test_a_registry_that_loses_chunks(repo: Repository, fake: Fake, small_chunks: None) -> None:
    def lose(handler: object, _: Fake) -> None:
        handler.body()  # type: ignore[attr-defined]
        handler.answer(202, Location="/v2/team/a/blobs/uploads/u0", Range="0-0")  # type: ignore[attr-defined]

    fake.on("PATCH", "uploads", None, lose)
    assert send(repo) == [0, 60_000]
    assert fake.blobs[BLOB.digest] == DATA
    fake.blobs.clear()
    fake.always("PATCH", "uploads", lose)
    with pytest.raises(HttpError, match=r"expected Range: 0-59999 after a chunk, found Range: 0-0"):
        send(repo)
    assert fake.uploads.keys() <= {"u0"}  # its own session is closed
    assert fake.blobs == {}


def test_a_registry_that_has_more_than_was_sent(repo: Repository, fake: Fake, small_chunks: None) -> None:
    more = status(202, Location="/v2/team/a/blobs/uploads/u0", Range="0-99999999")
    fake.on("PATCH", "uploads", more)
    send(repo)
    assert fake.blobs[BLOB.digest] == DATA


def test_the_answer_to_the_last_request_gets_lost(repo: Repository, fake: Fake) -> None:
    fake.on("PUT", "uploads", done_and_gone)
    assert send(repo) == [0]
    assert len(fake.asked("PUT")) == 1
    assert len(fake.asked("HEAD", BLOB.digest)) == 1


def test_the_last_request_breaks_off(repo: Repository, fake: Fake, small_chunks: None) -> None:
    fake.on("PUT", "uploads", hang_up, status(500))
    send(repo)
    assert fake.blobs[BLOB.digest] == DATA


def test_bytes_that_are_others(repo: Repository, fake: Fake) -> None:
    with pytest.raises(HttpError, match="400 DIGEST_INVALID"):
        send(repo, DATA[::-1])
    assert fake.uploads == {}
    assert fake.blobs == {}


def test_a_registry_that_is_always_down(repo: Repository, fake: Fake, small_chunks: None) -> None:
    fake.always("PATCH", "uploads", status(500))
    with pytest.raises(HttpError, match="500"):
        send(repo)
    assert len(fake.asked("PATCH")) == 5


def test_no_location(repo: Repository, fake: Fake) -> None:
    fake.on("POST", "uploads", status(202))
    with pytest.raises(WrongContentError, match="expected a Location to send to, found none"):
        send(repo)


def test_chunks_are_as_large_as_the_registry_wants(repo: Repository, fake: Fake, small_chunks: None) -> None:
    fake.uploads["s"] = bytearray()
    where = "/v2/team/a/blobs/uploads/s"
    fake.on("POST", "uploads", status(202, Location=where, OCI_Chunk_Min_Length="200000"))
    send(repo)
    assert [seen.size for seen in fake.asked("PATCH")] == [200_000, len(DATA) - 200_000]


# -- whole images


def test_a_mount_that_is_refused_is_copied_and_its_session_closed(wire: Wire, fake: Fake) -> None:
    put_image(fake)
    registry = Registry(fake.host, wire, login=lambda *_: None)
    source = registry.repository("team/a")
    to = registry.repository("team/b", push=True, mounts=("team/a",))
    found = source.manifest("v1")
    image = read_image(source, found.descriptor, found.raw)
    fake.always("HEAD", "team/b/blobs", error(404, "BLOB_UNKNOWN"))
    fake.on("POST", "mount=", error(401, "UNAUTHORIZED"), None)

    def refuse(handler: object, f: Fake) -> None:
        f.begin(handler, "team/b", {})  # type: ignore[arg-type]

    fake._faults.insert(0, ("POST", "mount=", [refuse]))
    moved = push(image, source, to, "v1")
    assert len(moved.mount_refused) == 2
    assert set(moved.mount_refused) < set(moved.copied)
    assert fake.uploads == {}
    assert fake.manifests["team/b", "v1"][1] == image.manifest_bytes


def test_blobs_that_come_wrong_end_it_before_the_manifest(wire: Wire, fake: Fake) -> None:
    put_image(fake)
    far = Fake()
    source, to = repository(wire, fake), repository(wire, far)
    found = source.manifest("v1")
    image = read_image(source, found.descriptor, found.raw)
    broken = image.manifest.layers[1]
    fake.always("GET", broken.digest, content(b"z" * broken.size))
    with pytest.raises(HttpError):
        push(image, source, to, "v1")
    assert far.manifests == {}
    assert broken.digest not in far.blobs
    far.close()


def test_where_one_blob_fails_the_others_stop(wire: Wire, fake: Fake, small_chunks: None) -> None:
    image = base(size=3_000_000)
    big = image.manifest.layers[1]

    def slow(handler: Handler, f: Fake) -> None:
        time.sleep(0.02)
        f.serve(handler)

    fake.always("PATCH", "uploads", slow)
    fake.on("HEAD", image.manifest.config.digest, error(403, "DENIED"))
    repo = repository(wire, fake)
    with pytest.raises(HttpError, match="expected to be allowed, found 403"):
        push(image, repo, repo, "v1")
    assert fake.manifests == {}
    assert len(fake.asked("PATCH")) < big.size / 60_000 / 2
    assert fake.uploads == {}  # its session is closed


def test_what_reading_raises_closes_the_session(repo: Repository, fake: Fake) -> None:
    def source(_: int) -> Iterator[bytes]:
        yield b"x"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repo.upload(BLOB, source)
    assert fake.uploads == {}


def test_a_token_service_without_tls_gets_no_login(wire: Wire) -> None:
    offer = Response(status=401, headers={"www-authenticate": 'Bearer realm="http://x.example/t"'}, body=b"", url="")
    auth = Auth(wire, "r.example", lambda: LOGIN, secure=True)
    scopes = frozenset({"repository:a:pull"})
    assert auth.headers(scopes) == {}
    assert auth.answer(offer, scopes, "")
    with pytest.raises(HttpError, match=r"expected a token service over https, found http://x\.example/t"):
        auth.headers(scopes)


def test_a_wrong_diff_id_or_layer_never_leaves() -> None:
    image = base()
    layer = make_layer([], deleted=["x"], parents={})
    check(append(image, layer, History()))
    with pytest.raises(ValueError, match=r"expected sha256:.* of sha256:00"):
        check(append(image, replace(layer, diff_id="sha256:" + "0" * 64), History()))
    with pytest.raises(ValueError, match=r"layer 2: expected|ends early"):
        check(append(image, replace(layer, data=layer.data + b"x"), History()))
    with pytest.raises(ValueError, match="layer 2: expected"):
        check(append(image, replace(layer, data=layer.data + b"\0"), History()))
    made = append(image, layer, History())
    with pytest.raises(ValueError, match="diff_ids: expected one a layer"):
        check(rebuilt(made.manifest, replace(made.config, diff_ids=made.config.diff_ids[:-1], history=()), made.added))


def test_no_message_holds_a_secret(wire: Wire, fake: Fake) -> None:
    words = [error(401, "X", WWW_Authenticate='Basic realm="x"'), error(403, "DENIED"), status(404), status(418)]
    fake.on("GET", "manifests", *words)
    repo = repository(wire, fake, login=LOGIN)
    for _ in range(3):
        with pytest.raises(HttpError) as caught:
            repo.manifest("v1")
        text = f"{caught.value}{caught.value.hint}{LOGIN!r}"
        assert "s3cr3t" not in text
        assert "czNjcjN0" not in text
