"""Manifests, indexes and configs as JSON: read with every field, written as one text for one value."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from patchkit.oci.types import (
    DOCKER_MANIFEST,
    INDEXES,
    MANIFESTS,
    OCI_INDEX,
    OCI_MANIFEST,
    SCHEMA_1,
    Config,
    Descriptor,
    History,
    Index,
    Manifest,
    Pairs,
    Platform,
)

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


class MalformedError(ValueError):
    """A document is not what it should be; `str()` says where, what was expected and what was found."""


class Schema1Error(MalformedError):
    """A manifest of the first schema, which names its layers another way and has no config."""


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object being read: fields are taken out of it, what is left is `extra`; `path` is where it stands."""

    fields: dict[str, Any]
    path: str

    def fail(self, name: str, expected: str, found: object) -> NoReturn:
        raise MalformedError(f"{self.path}{name}: expected {expected}, found {_brief(found)}")

    def take(self, name: str, kind: type[T], expected: str, default: T) -> T:
        value = self.fields.pop(name, None)
        if value is None:
            return default
        if type(value) is not kind:
            self.fail(name, expected, value)
        return value

    def text(self, name: str) -> str:
        return self.take(name, str, "a string", "")

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.take(name, list, "a list of strings", [])
        if not all(isinstance(item, str) for item in value):
            self.fail(name, "a list of strings", value)
        return tuple(value)

    def pairs(self, name: str) -> Pairs:
        value = self.take(name, dict, "an object of strings", {})
        if not all(isinstance(item, str) for item in value.values()):
            self.fail(name, "an object of strings", value)
        return tuple(value.items())

    def digest(self, name: str) -> str:
        value = self.text(name)
        if not _DIGEST.fullmatch(value):
            self.fail(name, "a digest (sha256:, 64 hex digits)", value)
        return value

    def object(self, name: str) -> _Object:
        return _Object(dict(self.take(name, dict, "an object", {})), f"{self.path}{name}.")

    def objects(self, name: str, read: Callable[[_Object], T]) -> tuple[T, ...]:
        found = []
        for number, item in enumerate(self.take(name, list, "a list", [])):
            if not isinstance(item, dict):
                self.fail(f"{name}[{number}]", "an object", item)
            found.append(read(_Object(dict(item), f"{self.path}{name}[{number}].")))
        return tuple(found)

    def optional(self, name: str, read: Callable[[_Object], T]) -> T | None:
        return read(self.object(name)) if self.fields.get(name) is not None else None

    @property
    def rest(self) -> Pairs:
        return tuple((name, _text_of(value)) for name, value in self.fields.items())


def parse_manifest(raw: bytes, media_type: str = "") -> Manifest | Index:
    """Return the image or index in `raw`; `media_type` is what it was said to be where it was found, if at all.

    Raises MalformedError, Schema1Error for the first schema.
    """
    body = _load(raw)
    own = body.text("mediaType")
    stated = media_type.partition(";")[0].strip()
    if body.fields.get("schemaVersion") == 1 or own in SCHEMA_1 or stated in SCHEMA_1:
        raise Schema1Error("expected a manifest of schema 2, found schema 1")
    if body.take("schemaVersion", int, "2", 0) != 2:
        raise MalformedError("schemaVersion: expected 2, found something else")
    known = (*INDEXES, *MANIFESTS)
    if own and stated in known and own != stated:
        raise MalformedError(f"mediaType: expected {stated}, as it was said to be, found {own}")
    is_index = "manifests" in body.fields
    if is_index == ("layers" in body.fields or "config" in body.fields):
        raise MalformedError("expected either `manifests` or `config` and `layers`, found both or neither")
    kind = own or (stated if stated in known else "") or (OCI_INDEX if is_index else OCI_MANIFEST)
    if kind not in (INDEXES if is_index else MANIFESTS):
        raise MalformedError(f"mediaType: expected that of {'an index' if is_index else 'an image'}, found {kind}")
    return _index(body, kind) if is_index else _manifest(body, kind)


def _manifest(body: _Object, kind: str) -> Manifest:
    return Manifest(
        media_type=kind,
        config=_descriptor(body.object("config")),
        layers=body.objects("layers", _descriptor),
        subject=body.optional("subject", _descriptor),
        artifact_type=body.text("artifactType"),
        annotations=body.pairs("annotations"),
        extra=body.rest,
    )


def _index(body: _Object, kind: str) -> Index:
    return Index(
        media_type=kind,
        manifests=body.objects("manifests", _descriptor),
        subject=body.optional("subject", _descriptor),
        artifact_type=body.text("artifactType"),
        annotations=body.pairs("annotations"),
        extra=body.rest,
    )


def _descriptor(body: _Object) -> Descriptor:
    size = body.take("size", int, "a whole number", -1)
    if size < 0:
        body.fail("size", "a whole number", size)
    return Descriptor(
        media_type=body.text("mediaType"),
        digest=body.digest("digest"),
        size=size,
        urls=body.texts("urls"),
        platform=body.optional("platform", _platform),
        artifact_type=body.text("artifactType"),
        annotations=body.pairs("annotations"),
        extra=body.rest,
    )


def _platform(body: _Object) -> Platform:
    return Platform(
        os=body.text("os"), architecture=body.text("architecture"), variant=body.text("variant"), extra=body.rest
    )


def parse_config(raw: bytes) -> Config:
    """Return the config in `raw`. Raises MalformedError, also where the history has more layers than there are."""
    body = _load(raw)
    inner, rootfs = body.object("config"), body.object("rootfs")
    if rootfs.text("type") not in ("layers", ""):
        raise MalformedError("rootfs.type: expected layers, found something else")
    diff_ids = rootfs.texts("diff_ids")
    for number, diff_id in enumerate(diff_ids):
        if not _DIGEST.fullmatch(diff_id):
            rootfs.fail(f"diff_ids[{number}]", "a digest (sha256:, 64 hex digits)", diff_id)
    history = body.objects("history", _history)
    filled = sum(not entry.empty_layer for entry in history)
    if filled > len(diff_ids):
        raise MalformedError(f"history: expected at most {len(diff_ids)} entries with a layer, found {filled}")
    labels = inner.pairs("Labels")
    return Config(
        os=body.text("os"),
        architecture=body.text("architecture"),
        variant=body.text("variant"),
        created=body.text("created"),
        labels=labels,
        settings=inner.rest,
        diff_ids=diff_ids,
        rootfs_extra=rootfs.rest,
        history=history,
        extra=body.rest,
    )


def _history(body: _Object) -> History:
    return History(
        created=body.text("created"),
        created_by=body.text("created_by"),
        author=body.text("author"),
        comment=body.text("comment"),
        empty_layer=body.take("empty_layer", bool, "true or false", False),
        extra=body.rest,
    )


def render(document: Manifest | Index | Config) -> bytes:
    """Return the one text of a document: sorted keys, no blanks, ASCII."""
    if isinstance(document, Config):
        return _text_of(_config_fields(document)).encode("ascii")
    fields: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": document.media_type,
        "artifactType": document.artifact_type or None,
        "subject": _descriptor_fields(document.subject) if document.subject else None,
        "annotations": dict(document.annotations) or None,
    }
    if isinstance(document, Index):
        fields["manifests"] = [_descriptor_fields(item) for item in document.manifests]
    else:
        fields["config"] = _descriptor_fields(document.config)
        fields["layers"] = [_descriptor_fields(item) for item in document.layers]
        if document.media_type == DOCKER_MANIFEST and document.annotations:
            raise ValueError("a docker manifest has no annotations: write labels, or an OCI manifest")
    return _text_of(_with_extra(fields, document.extra)).encode("ascii")


def _descriptor_fields(value: Descriptor) -> dict[str, Any]:
    fields = {
        "mediaType": value.media_type or None,
        "digest": value.digest,
        "size": value.size,
        "urls": list(value.urls) or None,
        "platform": _platform_fields(value.platform) if value.platform else None,
        "artifactType": value.artifact_type or None,
        "annotations": dict(value.annotations) or None,
    }
    return _with_extra(fields, value.extra)


def _platform_fields(value: Platform) -> dict[str, Any]:
    # `os` and `architecture` are said even where they are empty: they are required
    return {
        "os": value.os,
        "architecture": value.architecture,
        **_with_extra({"variant": value.variant or None}, value.extra),
    }


def _config_fields(value: Config) -> dict[str, Any]:
    inner = _with_extra({"Labels": dict(value.labels) or None}, value.settings)
    fields = {
        "os": value.os,
        "architecture": value.architecture,
        "variant": value.variant or None,
        "created": value.created or None,
        "config": inner or None,
        "rootfs": _with_extra({"type": "layers", "diff_ids": list(value.diff_ids)}, value.rootfs_extra),
        "history": [_history_fields(entry) for entry in value.history] or None,
    }
    return _with_extra(fields, value.extra)


def _history_fields(value: History) -> dict[str, Any]:
    fields = {
        "created": value.created or None,
        "created_by": value.created_by or None,
        "author": value.author or None,
        "comment": value.comment or None,
        "empty_layer": value.empty_layer or None,
    }
    return _with_extra(fields, value.extra)


def _with_extra(fields: dict[str, Any], extra: Pairs) -> dict[str, Any]:
    said = {name: value for name, value in fields.items() if value is not None}
    return {**{name: json.loads(text) for name, text in extra}, **said}


def _text_of(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _load(raw: bytes) -> _Object:
    try:
        value = json.loads(raw, object_pairs_hook=_once_each, parse_constant=_no_number)
        json.dumps(value, allow_nan=False)  # 1e999 is infinite
    except MalformedError:
        raise
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else _brief(raw[:60])
        raise MalformedError(f"expected JSON, found {reason}") from None
    if not isinstance(value, dict):
        raise MalformedError(f"expected a JSON object, found {_brief(value)}")
    return _Object(value, "")


def _once_each(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is there twice: two readers would see two documents."""
    found = dict(items)
    if len(found) != len(items):
        names = [name for name, _ in items]
        twice = next(name for name in names if names.count(name) > 1)
        raise MalformedError(f"{twice}: expected once in its object, found twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise MalformedError(f"expected a number, found {name}")
