"""The client against Debian's registry: open, with passwords, with tokens, over TLS; read back by skopeo."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core.errors import ConfigError
from patchkit.io.credentials import Login
from patchkit.io.http import HttpError
from patchkit.io.wire import Wire
from patchkit.oci import upload
from patchkit.oci.asking import MissingError
from patchkit.oci.documents import render
from patchkit.oci.layers import make_layer
from patchkit.oci.registry import Registry, referrers_tag
from patchkit.oci.rootfs import RootFs
from patchkit.oci.scan import scan
from patchkit.oci.transfer import push, push_index, read_image
from patchkit.oci.transforms import append, artifact, describe, empty_config, replace_children, select
from patchkit.oci.types import DOCKER_INDEX, Descriptor, History, Index, Platform, digest_of

from .images import SITE, base
from .real import PASSWORD, USER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.oci.registry import Repository
    from patchkit.oci.types import Image

    from .real import Real, TokenService

LOGIN = Login(user=USER, password=PASSWORD, source="a test")


def nobody(*_: str) -> None:
    return None


def somebody(*_: str) -> Login:
    return LOGIN


def fresh(name: str) -> str:
    return f"oci-test/{name}-{time.time_ns()}"


def repository(wire: Wire, host: str, name: str, *, login: Any = nobody, **more: Any) -> Repository:
    return Registry(host, wire, login=login).repository(name, push=True, **more)


def derived(image: Image, repo: Repository) -> Image:
    """The image with one changed module and without its byte-code, from what the repository has."""
    path = "lib/python3/site/mod.py"
    files = RootFs(image.manifest.layers, lambda layer, wanted: scan(repo.chunks(layer), wanted), [path])
    found = files.find(path)
    assert found is not None
    stale = files.find(f"{SITE}/__pycache__/mod.cpython-312.pyc")
    assert stale is not None
    parents = {entry.path: entry for entry in (*found.parents, *stale.parents)}
    entry = replace(found.entry, data=b"X = 2\n")
    layer = make_layer([entry], deleted=[stale.path], parents=parents, like=image.manifest.media_type)
    return describe(append(image, layer, History(created_by="patchkit")), labels={"patchkit.stack": "demo"})


def fetch(repo: Repository, tag: str) -> Image:
    found = repo.manifest(tag)
    return read_image(repo, found.descriptor, found.raw)


@pytest.mark.parametrize("docker", [False, True])
def test_derive_in_one_repository(wire: Wire, open_registry: str, docker: bool) -> None:
    repo = repository(wire, open_registry, fresh("derive"))
    made = base(docker=docker, size=300_000)
    push(made, repo, repo, "base")
    image = fetch(repo, "base")
    assert image.digest == made.digest
    before = wire.bytes_sent
    changed = derived(image, repo)
    moved = push(changed, repo, repo, "derived")
    assert moved.present == tuple(sorted(layer.digest for layer in image.manifest.layers))
    assert wire.bytes_sent - before < 20_000
    before = wire.bytes_sent, wire.bytes_received
    assert push(changed, repo, repo, "derived").unchanged
    assert (wire.bytes_sent, wire.bytes_received) == before
    assert repo.digest_at("derived") == changed.digest
    assert fetch(repo, "derived").config.diff_ids == changed.config.diff_ids
    again = derived(fetch(repo, "base"), repo)
    assert again.digest == changed.digest


def test_mounts_across_repositories(wire: Wire, open_registry: str) -> None:
    registry = Registry(open_registry, wire, login=nobody)
    source = registry.repository(fresh("from"), push=True)
    image = base(size=200_000)
    push(image, source, source, "base")
    image = fetch(source, "base")
    to = registry.repository(fresh("to"), push=True, mounts=(source.name,))
    before = wire.bytes_sent
    moved = push(derived(image, source), source, to, "derived")
    assert set(moved.mounted) == {layer.digest for layer in image.manifest.layers}
    assert moved.mount_refused == ()
    assert wire.bytes_sent - before < 20_000
    nowhere = Descriptor(media_type="", digest=digest_of(b"nowhere"), size=7)
    assert to.mount(nowhere, source.name) is False


def test_from_one_registry_to_another(
    wire: Wire, open_registry: str, password_registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "CHUNK", 100_000)
    source = repository(wire, open_registry, fresh("far"))
    push(base(size=650_000), source, source, "base")
    to = repository(wire, password_registry, fresh("near"), login=somebody)
    told: list[tuple[int, int]] = []
    image = fetch(source, "base")
    moved = push(image, source, to, "copy", progress=lambda done, total: told.append((done, total)))
    assert set(moved.copied) == {*(layer.digest for layer in image.manifest.layers), image.manifest.config.digest}
    total = sum(item.size for item in (*image.manifest.layers, image.manifest.config))
    assert told[-1] == (total, total)
    assert len(told) > 6
    assert fetch(to, "copy").digest == image.digest


def test_an_index_with_its_children_first(wire: Wire, open_registry: str) -> None:
    repo = repository(wire, open_registry, fresh("index"))
    images = [base(docker=True, seed=seed) for seed in (1, 2)]
    for image in images:
        push(image, repo, repo)
    children = [
        replace(image.descriptor, platform=Platform(os="linux", architecture=name))
        for image, name in zip(images, ("amd64", "arm64"), strict=True)
    ]
    index = Index(media_type=DOCKER_INDEX, manifests=tuple(children))
    digest = push_index(render(index), index, repo, "multi")
    found = repo.manifest("multi")
    assert (found.digest, found.media_type) == (digest, DOCKER_INDEX)
    one = select(index, Platform.parse("linux/arm64"))[0]
    child = repo.manifest(one.digest)
    changed = derived(read_image(repo, child.descriptor, child.raw), repo)
    push(changed, repo, repo)
    new = replace_children(index, {one.digest: changed.descriptor})
    push_index(render(new), new, repo, "multi-derived")
    assert repo.digest_at("multi-derived") == digest_of(render(new))


def test_an_artifact_refers_to_its_image(wire: Wire, open_registry: str) -> None:
    repo = repository(wire, open_registry, fresh("refer"))
    image = base()
    push(image, repo, repo, "it")
    data = b'{"bomFormat": "CycloneDX"}'
    blob = Descriptor(media_type="application/vnd.cyclonedx+json", digest=digest_of(data), size=len(data))
    config, empty = empty_config()
    for item, content in ((blob, data), (config, empty)):
        repo.upload(item, lambda at, content=content: iter([content[at:]]))
    made = artifact(blob.media_type, config, (blob,), image.descriptor)
    raw = render(made)
    known = repo.put_manifest(digest_of(raw), raw, made.media_type)
    assert known is False  # 2.8.2 has no such interface: a tag says it
    assert repo.referrers(image.digest) == (None, False)
    listed = Descriptor(media_type=made.media_type, digest=digest_of(raw), size=len(raw), artifact_type=blob.media_type)
    index = Index(manifests=(listed,))
    push_index(render(index), index, repo, referrers_tag(image.digest))
    assert repo.referrers(image.digest) == (index, False)


def test_parts_of_a_blob(wire: Wire, open_registry: str) -> None:
    repo = repository(wire, open_registry, fresh("parts"))
    data = bytes(range(256)) * 100
    blob = Descriptor(media_type="", digest=digest_of(data), size=len(data))
    assert not repo.has(blob)
    repo.upload(blob, lambda at: iter([data[at:]]))
    assert repo.has(blob)
    assert not repo.has(replace(blob, size=1))
    assert repo.part(blob, 1000, 3000) == data[1000:3000]
    assert b"".join(repo.chunks(blob, 25_000)) == data[25_000:]
    repo.upload(replace(blob, digest=digest_of(b""), size=0), lambda at: iter([b""]))


def test_gone_is_told_apart_from_unreachable(wire: Wire, open_registry: str) -> None:
    repo = repository(wire, open_registry, fresh("gone"))
    with pytest.raises(MissingError) as gone:
        repo.manifest("v1")
    assert str(gone.value) == f"{repo}:v1: expected that it is there, found 404 MANIFEST_UNKNOWN (manifest unknown)"
    assert gone.value.hint == "the registry answers, the tag is gone: pick another, or one by its digest"
    assert repo.digest_at("v1") == ""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(HttpError, match="Connection refused") as unreachable:
            repository(wire, host, "a").manifest("v1")
    assert not isinstance(unreachable.value, MissingError)


def test_a_manifest_with_missing_blobs_is_refused(wire: Wire, open_registry: str) -> None:
    repo = repository(wire, open_registry, fresh("missing"))
    image = base()
    with pytest.raises(HttpError, match=r"expected success, found 400 MANIFEST_BLOB_UNKNOWN") as caught:
        repo.put_manifest("v1", image.manifest_bytes, image.manifest.media_type)
    assert caught.value.status == 400
    assert repo.digest_at("v1") == ""


def test_basic(wire: Wire, password_registry: str) -> None:
    repo = repository(wire, password_registry, fresh("basic"), login=somebody)
    image = base()
    push(image, repo, repo, "v1")
    assert repo.digest_at("v1") == image.digest
    with pytest.raises(HttpError) as caught:
        repository(wire, password_registry, repo.name).manifest("v1")
    assert caught.value.status == 401
    assert caught.value.hint.startswith(f"log in: docker login {password_registry}")
    wrong = Login(user=USER, password="wr0ng-wr0ng", source="/some/config.json")
    with pytest.raises(HttpError) as caught:
        repository(wire, password_registry, repo.name, login=lambda *_: wrong).manifest("v1")
    assert caught.value.hint.startswith("the login from /some/config.json is refused")
    assert "wr0ng" not in f"{caught.value}{caught.value.hint}{wrong!r}"


def test_logins_from_files_and_helpers(
    wire: Wire, password_registry: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = fresh("file")
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    config = tmp_path / "auth.json"
    config.write_text(json.dumps({"auths": {password_registry: {"auth": pair}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(config))
    repo = Registry(password_registry, wire).repository(name, push=True)
    push(base(), repo, repo, "v1")
    helper = tmp_path / "docker-credential-demo"
    answer = json.dumps({"Username": USER, "Secret": PASSWORD})
    helper.write_text(f"#!/bin/sh\nread host\n[ $host = {password_registry} ] && echo '{answer}'\n")
    helper.chmod(0o755)
    config.write_text(json.dumps({"credHelpers": {password_registry: "demo"}}))
    with pytest.raises(ConfigError, match=r"docker-credential-demo .*: it is not installed"):
        Registry(password_registry, wire).repository(name).manifest("v1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert Registry(password_registry, wire).repository(name).digest_at("v1") == base().digest


def test_tokens(wire: Wire, token_registry: str, tokens: TokenService) -> None:
    registry = Registry(token_registry, wire, login=somebody)
    source = registry.repository("team/from", push=True)
    push(base(size=100_000), source, source, "base")
    assert tokens.asked == [["repository:team/from:pull,push"]]  # one token for it all
    to = registry.repository("team/to", push=True, mounts=("team/from",))
    moved = push(derived(fetch(source, "base"), source), source, to, "derived")
    assert len(moved.mounted) == 2
    assert sorted(tokens.asked[-1]) == ["repository:team/from:pull", "repository:team/to:pull,push"]
    identity = Login(identity_token="identity", source="a test")
    again = Registry(token_registry, wire, login=lambda *_: identity).repository("team/to")
    assert again.digest_at("derived")


def test_nobody_may_pull_but_not_push(wire: Wire, token_registry: str, tokens: TokenService) -> None:
    owner = repository(wire, token_registry, "team/public", login=somebody)
    push(base(), owner, owner, "v1")
    anonymous = repository(wire, token_registry, "team/public")
    assert anonymous.digest_at("v1") == base().digest
    assert tokens.logins[-1] == ""
    with pytest.raises(HttpError) as caught:
        push(base(seed=5), anonymous, anonymous, "v2")
    assert caught.value.status == 401
    assert "log in" in caught.value.hint
    assert owner.digest_at("v2") == ""


def test_a_token_service_that_refuses(wire: Wire, token_registry: str, tokens: TokenService) -> None:
    tokens.refuse = True
    with pytest.raises(HttpError, match=r"token service .* expected a token, found 401") as caught:
        repository(wire, token_registry, "team/x", login=somebody).manifest("v1")
    assert caught.value.hint == f"the login from a test is refused: docker login {token_registry}"


def test_a_token_that_expires_half_way(
    wire: Wire, token_registry: str, tokens: TokenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it lasts a minute, and the registry finds it expired in the middle of a blob."""
    monkeypatch.setattr(upload, "CHUNK", 50_000)
    tokens.seconds = 1.0
    repo = repository(wire, token_registry, "team/slow", login=somebody)
    image = base(size=400_000)

    def slowly(done: int, total: int) -> None:
        if done > 50_000:
            time.sleep(0.4)

    push(image, repo, repo, "v1", progress=slowly)
    assert len(tokens.asked) > 1
    assert fetch(repo, "v1").digest == image.digest


def test_tls_is_verified(tls_registry: Real) -> None:
    options = {"netrc": False, "attempts": 1}
    with Wire(**options) as wire, pytest.raises(HttpError, match="TLS refused"):
        repository(wire, tls_registry.host, "a").manifest("v1")
    with Wire(ca_bundle=tls_registry.authority, **options) as wire:
        repo = repository(wire, tls_registry.host, "a")
        assert repo.registry.base == f"https://{tls_registry.host}/v2/"
        push(base(), repo, repo, "v1")
        assert repo.digest_at("v1") == base().digest


def test_plain_http_needs_loopback_or_a_flag() -> None:
    with Wire(netrc=False, connect_timeout=0.3, attempts=1) as wire:
        assert Registry("registry.example", wire).base == "https://registry.example/v2/"
        plain = Registry("192.0.2.1:5000", wire, plain_http=True)
        with pytest.raises(HttpError, match="an address that is not https"):
            plain.repository("a").manifest("v1")
    with Wire(netrc=False, connect_timeout=0.3, attempts=1, plain_http={"192.0.2.1:5000"}) as wire:
        plain = Registry("192.0.2.1:5000", wire, plain_http=True)
        with pytest.raises(HttpError, match=r"no connection within|unreachable|refused"):
            plain.repository("a").manifest("v1")


def test_skopeo_reads_what_was_pushed(
    wire: Wire, open_registry: str, program: Callable[[str], str], tmp_path: Path
) -> None:
    skopeo = program("skopeo")
    repo = repository(wire, open_registry, fresh("skopeo"))
    push(base(docker=True), repo, repo, "base")
    changed = derived(fetch(repo, "base"), repo)
    push(changed, repo, repo, "derived")
    command = [skopeo, "inspect", "--tls-verify=false", f"docker://{repo}:derived"]
    seen = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert seen["Digest"] == changed.digest
    assert seen["Labels"] == {"patchkit.stack": "demo"}
    copy = [skopeo, "copy", "-q", "--src-tls-verify=false", f"docker://{repo}:derived", f"oci:{tmp_path}/out:x"]
    subprocess.run(copy, check=True, capture_output=True)
