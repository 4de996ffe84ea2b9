"""The ledger as text: what a change of a target writes and `ledger` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.core.canonical import sealed
from patchkit.core.ledger import FORMAT

if TYPE_CHECKING:
    from patchkit.core.ledger import Kept, Ledger


def render(ledger: Ledger) -> str:
    """What `ledger.render` does."""
    return sealed(
        {
            "format": FORMAT,
            "image": ledger.image,
            "stack": {"version": ledger.version, "lock": ledger.lock},
            "stand_in": ledger.stand_in,
            "pinned": ledger.pinned,
            "complete": ledger.complete,
            "steps": [
                {
                    "id": step.id,
                    "spec": step.spec,
                    "upstream": step.upstream,
                    "changes": [{"path": c.path, "change": c.change.value, "source": c.source} for c in step.changes],
                    **({} if step.effect is None else {"effect": step.effect}),
                }
                for step in ledger.steps
            ],
            "files": {
                path: {"before": kept_out(file.before), "after": kept_out(file.after), "steps": list(file.steps)}
                for path, file in sorted(ledger.files.items())
            },
            "dirs_created": list(ledger.dirs_created),
            "dirs_removed": [{"path": d.path, "mode": d.mode, "uid": d.uid, "gid": d.gid} for d in ledger.dirs_removed],
        }
    )


def kept_out(kept: Kept | None) -> dict[str, Any] | None:
    """A `Kept` as JSON data."""
    if kept is None:
        return None
    return {
        "sha256": kept.sha256,
        "kind": kept.kind,
        "mode": f"{kept.mode:04o}",
        "uid": kept.uid,
        "gid": kept.gid,
        "xattrs": dict(kept.xattrs),
    }
