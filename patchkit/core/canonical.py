"""JSON as patchkit stores it: one text for one value, and a digest that the document carries itself."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest_of(value: object) -> str:
    """`sha256:` and the digest of `value` as canonical JSON (sorted keys, no blanks, ASCII)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def sealed(document: dict[str, Any]) -> str:
    """`document` as text for a file, with a `digest` over everything else in it."""
    body = {key: value for key, value in document.items() if key != "digest"}
    return json.dumps({"digest": digest_of(body), **body}, indent=1, ensure_ascii=True) + "\n"


def unsealed(text: bytes) -> dict[str, Any]:
    """Read a sealed document back. Raises ValueError with the reason where it is not whole."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - one kind of error for one kind of caller
    stated = document.pop("digest", None)
    found = digest_of(document)
    if stated != found:
        raise ValueError(f"it was changed by hand: its content has the digest {found}, it states {stated}")
    document["digest"] = found
    return document
