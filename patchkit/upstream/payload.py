"""Facts as JSON and back: what the store and the committed record hold. No `as_of`: that is kept beside it.

Unknown keys are refused, so that a newer form is never misread; see the classes for what each field means.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from patchkit.upstream.facts import Commit, Gone, Mention, Pull, Ref

PULL = "pull"
GONE = "gone"


def to_json(fact: Pull | Gone) -> tuple[str, dict[str, Any]]:
    """Return a fact's kind and its content, without ref and `as_of`."""
    if isinstance(fact, Gone):
        return GONE, {}
    content = {name.name: getattr(fact, name.name) for name in fields(fact) if name.name not in ("ref", "as_of")}
    content["closed_by"] = [_plain(commit) for commit in fact.closed_by]
    content["mentions"] = None if fact.mentions is None else [_plain(mention) for mention in fact.mentions]
    return PULL, content


def from_json(ref: Ref, kind: str, content: Any, as_of: str) -> Pull | Gone:
    """Return the fact that `to_json` told; raise ValueError for anything else."""
    try:
        if kind == GONE:
            return Gone(ref=ref, as_of=as_of)
        if kind != PULL:
            raise ValueError(f"kind {kind!r}")
        more = dict(content)
        closed_by = tuple(Commit(**commit) for commit in more.pop("closed_by"))
        found = more.pop("mentions")
        mentions = None if found is None else tuple(_mention(mention) for mention in found)
        return Pull(ref=ref, as_of=as_of, closed_by=closed_by, mentions=mentions, **more)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no fact: {error}") from None


def _mention(content: dict[str, Any]) -> Mention:
    return Mention(**{**content, "ref": Ref.parse(content["ref"])})


def _plain(item: Commit | Mention) -> dict[str, Any]:
    content = {name.name: getattr(item, name.name) for name in fields(item)}
    return {name: str(value) if isinstance(value, Ref) else value for name, value in content.items()}
