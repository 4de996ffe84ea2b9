"""JSON as patchkit stores it: one text for one value, and a digest that the document carries itself."""

from __future__ import annotations

import hashlib
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

_HEX = frozenset("0123456789abcdef")


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
        if not isinstance(document, dict):
            raise ValueError("it is no JSON object")  # noqa: TRY004 - one kind of error for one kind of caller
        stated = document.pop("digest", None)
        found = digest_of(document)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    except UnicodeDecodeError:
        raise ValueError("it is no JSON: it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is no JSON of ours: it is nested too deeply") from None
    if stated != found:
        raise ValueError(f"it was changed by hand: its content has the digest {found}, it states {stated}")
    document["digest"] = found
    return document


def want(kind: type[T], value: object) -> T:
    """`value`, which must be exactly a `kind`. Raises ValueError."""
    if type(value) is not kind:
        raise ValueError(f"expected {_NAMES.get(kind, kind.__name__)}, found {value!r:.60}")
    return value


def want_texts(value: object) -> tuple[str, ...]:
    """`value`, which must be a list of strings, as a tuple. Raises ValueError."""
    return tuple(want(str, item) for item in want(list, value))


def want_sha256(value: object) -> str:
    """`value`, which must be the hex digits of a sha256. Raises ValueError."""
    text = want(str, value)
    if len(text) != 64 or not _HEX.issuperset(text):
        raise ValueError(f"expected the 64 hex digits of a sha256, found {text!r:.80}")
    return text


def want_mode(value: object) -> int:
    """`value`, which must be permission bits as an octal string. Raises ValueError."""
    text = want(str, value)
    if not text or len(text) > 5 or not set(text) <= set("01234567") or int(text, 8) > 0o7777:
        raise ValueError(f"expected permission bits as an octal string, found {text!r:.60}")
    return int(text, 8)


def want_kind(value: object) -> str:
    """`value`, which must be the kind of a file. Raises ValueError."""
    if value not in ("file", "link"):
        raise ValueError(f"expected file or link, found {value!r:.60}")
    return want(str, value)


_NAMES: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
