"""Manifests, indexes and configs: read whole, written as one text, made anew without touching what was there."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.core.errors import ConfigError
from patchkit.oci.documents import MalformedError, Schema1Error, parse_config, parse_manifest, render
from patchkit.oci.layers import make_layer
from patchkit.oci.reference import Reference
from patchkit.oci.transforms import append, artifact, describe, image_of, replace_children, scratch, select
from patchkit.oci.types import (
    DOCKER_CONFIG,
    DOCKER_INDEX,
    DOCKER_LAYER_GZIP,
    DOCKER_MANIFEST,
    OCI_CONFIG,
    OCI_INDEX,
    OCI_LAYER_GZIP,
    OCI_MANIFEST,
    Config,
    Descriptor,
    History,
    Index,
    Manifest,
    Platform,
)

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
TEXT = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
EXTRA = st.dictionaries(
    TEXT.map(lambda name: f"x-{name}"),
    JSON.map(lambda value: json.dumps(value, sort_keys=True, separators=(",", ":"))),
    max_size=3,
).map(lambda found: tuple(found.items()))
PAIRS = st.dictionaries(TEXT, TEXT, max_size=3).map(lambda found: tuple(found.items()))
DIGEST = st.text("0123456789abcdef", min_size=64, max_size=64).map(lambda digits: f"sha256:{digits}")
PLATFORM = st.builds(Platform, os=TEXT, architecture=TEXT, variant=TEXT, extra=EXTRA)
DESCRIPTOR = st.builds(
    Descriptor,
    media_type=TEXT,
    digest=DIGEST,
    size=st.integers(min_value=0),
    urls=st.lists(TEXT, max_size=2).map(tuple),
    platform=st.none() | PLATFORM,
    artifact_type=TEXT,
    annotations=PAIRS,
    extra=EXTRA,
)
COMMON: dict[str, Any] = {"subject": st.none() | DESCRIPTOR, "artifact_type": TEXT, "extra": EXTRA}
SOME = st.lists(DESCRIPTOR, max_size=3).map(tuple)
MANIFEST = st.builds(
    Manifest, media_type=st.just(OCI_MANIFEST), config=DESCRIPTOR, layers=SOME, annotations=PAIRS, **COMMON
) | st.builds(Manifest, media_type=st.just(DOCKER_MANIFEST), config=DESCRIPTOR, layers=SOME, **COMMON)
INDEX = st.builds(
    Index, media_type=st.sampled_from((OCI_INDEX, DOCKER_INDEX)), manifests=SOME, annotations=PAIRS, **COMMON
)
HISTORY = st.builds(
    History, created=TEXT, created_by=TEXT, author=TEXT, comment=TEXT, empty_layer=st.booleans(), extra=EXTRA
)


@st.composite
def configs(draw: Any) -> Config:
    history = tuple(draw(st.lists(HISTORY, max_size=3)))
    filled = sum(not entry.empty_layer for entry in history)
    return Config(
        os=draw(TEXT),
        architecture=draw(TEXT),
        variant=draw(TEXT),
        created=draw(TEXT),
        labels=draw(PAIRS),
        settings=draw(EXTRA),
        diff_ids=tuple(draw(st.lists(DIGEST, min_size=filled, max_size=filled + 1))),
        history=history,
        rootfs_extra=draw(EXTRA),
        extra=draw(EXTRA),
    )


@given(MANIFEST | INDEX)
def test_what_is_written_is_read_back(document: Manifest | Index) -> None:
    raw = render(document)
    assert parse_manifest(raw) == document
    assert render(parse_manifest(raw, document.media_type)) == raw


@given(configs())
def test_a_config_is_read_back(config: Config) -> None:
    raw = render(config)
    assert parse_config(raw) == config
    assert render(parse_config(raw)) == raw


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_comes_is_read_or_refused(raw: bytes) -> None:
    for read in (parse_manifest, parse_config):
        try:
            read(raw)
        except MalformedError as error:
            assert "expected" in str(error)


def manifest(**more: object) -> dict[str, object]:
    config = {"mediaType": OCI_CONFIG, "digest": A, "size": 2}
    layer = {"mediaType": OCI_LAYER_GZIP, "digest": B, "size": 3}
    return {"schemaVersion": 2, "config": config, "layers": [layer], **more}


def read(document: object, media_type: str = "") -> Manifest | Index:
    return parse_manifest(json.dumps(document).encode(), media_type)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "expected a JSON object, found []"),
        ({"schemaVersion": 2}, "expected either `manifests` or `config` and `layers`, found both or neither"),
        (manifest(manifests=[]), "expected either `manifests` or `config` and `layers`, found both or neither"),
        (manifest(mediaType=OCI_INDEX), f"mediaType: expected that of an image, found {OCI_INDEX}"),
        (manifest(layers=[{"digest": "sha256:1", "size": 1}]),
         "layers[0].digest: expected a digest (sha256:, 64 hex digits), found 'sha256:1'"),
        (manifest(layers=[{"digest": A, "size": -1}]), "layers[0].size: expected a whole number, found -1"),
        (manifest(layers=[{"digest": A, "size": True}]), "layers[0].size: expected a whole number, found True"),
        (manifest(layers=[7]), "layers[0]: expected an object, found 7"),
        (manifest(annotations={"a": 1}), "annotations: expected an object of strings, found {'a': 1}"),
        ({**manifest(), "schemaVersion": 3}, "schemaVersion: expected 2, found something else"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_path(document: object, message: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read(document)
    assert str(caught.value) == message


def test_a_name_that_is_there_twice_is_refused() -> None:
    raw = json.dumps(manifest()).encode()[:-1] + b', "layers": []}'
    with pytest.raises(MalformedError, match="layers: expected once in its object, found twice"):
        parse_manifest(raw)


def test_deep_nesting_and_impossible_numbers_are_refused() -> None:
    for text in (b"[" * 100_000, b'{"a": NaN}', b'{"a": 1e999}'):
        with pytest.raises(MalformedError):
            parse_manifest(text)


def test_schema_1_is_told_apart() -> None:
    with pytest.raises(Schema1Error):
        read({"schemaVersion": 1, "fsLayers": [], "history": []})
    with pytest.raises(Schema1Error):
        read(manifest(), "application/vnd.docker.distribution.manifest.v1+prettyjws")


def test_the_media_type_comes_from_the_body_else_from_where_it_was_found() -> None:
    assert read(manifest()).media_type == OCI_MANIFEST
    assert read(manifest(), DOCKER_MANIFEST).media_type == DOCKER_MANIFEST
    assert read(manifest(mediaType=DOCKER_MANIFEST), "application/json").media_type == DOCKER_MANIFEST
    with pytest.raises(MalformedError, match="as it was said to be"):
        read(manifest(mediaType=DOCKER_MANIFEST), OCI_MANIFEST)


def test_more_history_than_layers_is_refused() -> None:
    document = {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": []}, "history": [{}]}
    with pytest.raises(MalformedError, match="history: expected at most 0 entries with a layer, found 1"):
        parse_config(json.dumps(document).encode())


def docker_base() -> tuple[bytes, bytes]:
    config = {
        "architecture": "amd64", "os": "linux", "docker_version": "20.10", "container": "c0ffee",
        "config": {"Env": ["A=1"], "Labels": {"a": "1"}, "Healthcheck": {"Test": ["CMD", "x"], "Retries": 3}},
        "rootfs": {"type": "layers", "diff_ids": [B]}, "history": [{"created_by": "x", "v1": {"y": [1.5]}}],
    }  # fmt: skip
    raw = json.dumps(config, indent=3).encode()
    from patchkit.oci.types import digest_of

    body = manifest(mediaType=DOCKER_MANIFEST, config={"mediaType": DOCKER_CONFIG, "digest": digest_of(raw), "size": 1})
    return json.dumps(body, indent=3).encode(), raw


def test_a_layer_on_top_keeps_every_field_and_the_argument() -> None:
    base = image_of(*docker_base())
    before = copy.deepcopy(base)
    layer = make_layer([], deleted=["x"], parents={}, like=base.manifest.media_type)
    made = describe(append(base, layer, History(created_by="patchkit")), labels={"b": "2"}, annotations={"c": "3"})
    assert base == before
    assert base.manifest_bytes == docker_base()[0]
    config = json.loads(made.config_bytes)
    assert config["config"] == {
        "Env": ["A=1"],
        "Labels": {"a": "1", "b": "2"},
        "Healthcheck": {"Test": ["CMD", "x"], "Retries": 3},
    }
    assert (config["docker_version"], config["history"][0]) == ("20.10", {"created_by": "x", "v1": {"y": [1.5]}})
    assert config["rootfs"]["diff_ids"] == [B, layer.diff_id]
    body = json.loads(made.manifest_bytes)
    assert "annotations" not in body  # docker manifests have none
    assert [item["mediaType"] for item in body["layers"]] == [OCI_LAYER_GZIP, DOCKER_LAYER_GZIP]
    assert image_of(made.manifest_bytes, made.config_bytes).digest == made.digest


def test_an_oci_image_has_annotations() -> None:
    layer = make_layer([], deleted=["x"], parents={})
    made = append(scratch(Platform.parse("linux/amd64")), layer, History(), annotations={"about": "the layer"})
    made = describe(made, labels={}, annotations={"c": "3"}, created="2026-01-01T00:00:00Z")
    body = json.loads(made.manifest_bytes)
    assert body["annotations"] == {"c": "3"}
    assert body["layers"][0]["annotations"] == {"about": "the layer"}
    assert json.loads(made.config_bytes)["created"] == "2026-01-01T00:00:00Z"


def test_a_config_that_is_another_is_refused() -> None:
    raw, config = docker_base()
    with pytest.raises(MalformedError, match="config: expected sha256:"):
        image_of(raw, config + b" ")


def child(text: str, digest: str = A, **more: Any) -> Descriptor:
    platform = Platform.parse(text) if text else None
    return Descriptor(media_type=OCI_MANIFEST, digest=digest, size=1, platform=platform, **more)


def test_selection_by_platform() -> None:
    amd, v3, arm = child("linux/amd64"), child("linux/amd64/v3", B), child("linux/arm64/v8")
    attest = child("unknown/unknown", annotations=(("vnd.docker.reference.type", "attestation-manifest"),))
    index = Index(manifests=(v3, amd, arm, attest))
    assert select(index, Platform.parse("linux/amd64")) == (amd, v3)
    assert select(index, Platform.parse("linux/amd64/v3")) == (v3,)
    assert select(index, Platform.parse("linux/arm64")) == (arm,)
    assert select(index, None) == (v3, amd, arm)
    with pytest.raises(ValueError, match=r"expected an image for linux/s390x, found: linux/amd64, linux/amd64/v3"):
        select(index, Platform.parse("linux/s390x"))
    assert select(Index(manifests=(child(""),)), Platform.parse("linux/amd64")) == (child(""),)


def test_children_are_replaced_and_the_rest_stays() -> None:
    index = Index(manifests=(child("linux/amd64"), child("linux/arm64", B)), extra=(("x-a", "1"),))
    new = Descriptor(media_type=OCI_MANIFEST, digest="sha256:" + "c" * 64, size=9)
    changed = replace_children(index, {A: new})
    assert [item.digest for item in changed.manifests] == [new.digest, B]
    assert str(changed.manifests[0].platform) == "linux/amd64"
    assert changed.extra == index.extra


def test_an_artifact_names_its_subject_plainly() -> None:
    made = artifact("application/x", child("", B), (), child("linux/amd64"))
    assert made.subject == Descriptor(media_type=OCI_MANIFEST, digest=A, size=1)


@pytest.mark.parametrize(
    ("text", "host", "repository", "wanted"),
    [
        ("ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("vllm/vllm-openai:v1", "docker.io", "vllm/vllm-openai", "v1"),
        ("localhost/a", "localhost", "a", "latest"),
        ("127.0.0.1:5000/a/b:t", "127.0.0.1:5000", "a/b", "t"),
        (f"r.example/a:t@{A}", "r.example", "a", A),
        ("[::1]:5000/a", "[::1]:5000", "a", "latest"),
    ],
)
def test_references(text: str, host: str, repository: str, wanted: str) -> None:
    found = Reference.parse(text)
    assert (found.host, found.repository, found.wanted) == (host, repository, wanted)


@pytest.mark.parametrize(
    "text", ["", "A/b", "r.example/", "r.example/a:", "r.example/a@sha256:1", "a b", "r.example/a:t:u"]
)
def test_bad_references(text: str) -> None:
    with pytest.raises(ConfigError, match="expected an image like"):
        Reference.parse(text)
