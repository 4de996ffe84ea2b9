"""Damaged JSON documents, for hypothesis."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

from patchkit.core.canonical import digest_of

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10**20),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["../x", "/x", ".patchkit/x", "0o7", "9999", "\udcff", "a" * 64]),
    st.just([]),
    st.just({}),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)


def places(document: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [way] if way else []
    if isinstance(document, dict):
        for key, value in document.items():
            found += places(value, (*way, key))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            found += places(value, (*way, number))
    return found


@st.composite
def mutations(draw: st.DrawFn, document: dict[str, Any]) -> Any:
    """`document` with one to three places changed, removed, renamed or doubled."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        spots = [place for place in places(changed) if place != ("digest",)]
        if not spots:
            break
        *way, last = draw(st.sampled_from(spots))
        where = changed
        for key in way:
            where = where[key]
        match draw(st.sampled_from(["set", "remove", "add"])):
            case "set":
                where[last] = draw(values)
            case "remove":
                del where[last]
            case _ if isinstance(where, list):
                where.append(draw(values))
            case _:
                where[draw(st.text(max_size=4))] = draw(values)
    return changed


def sealed_text(document: Any) -> bytes:
    """`document` with a digest that fits, as by somebody who knows how it is made."""
    body = {key: value for key, value in document.items() if key != "digest"}
    return json.dumps({"digest": digest_of(body), **body}).encode()
