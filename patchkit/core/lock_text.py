"""The lock as text: what `lock` writes and `lockfile` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.core.canonical import sealed
from patchkit.core.lockfile import FORMAT

if TYPE_CHECKING:
    from patchkit.core.lockfile import FileRef, Lock, LockedInput, LockedPackage, LockedStep


def render(lock: Lock) -> str:
    """What `lockfile.render` does."""
    image = lock.image
    return sealed(
        {
            "format": FORMAT,
            "image": {
                "name": image.name,
                "reference": image.reference,
                "digest": image.digest,
                "platform": image.platform,
                "site": list(image.site),
                "identity": {"file": image.identity_file, "commit": image.identity_commit},
            },
            "stack": {
                "version": lock.version,
                "governed": lock.governed,
                "ungoverned_reason": lock.ungoverned_reason,
                "versions": lock.versions,
            },
            "exact": lock.exact,
            "sources": [{"spec": s.spec, "commit": s.commit} for s in lock.sources],
            "inputs": lock.inputs,
            "support": _refs_out(lock.support),
            "steps": [_step_out(step) for step in lock.steps],
        }
    )


def _refs_out(refs: dict[str, FileRef | None]) -> dict[str, Any]:
    return {
        path: None if ref is None else {"sha256": ref.sha256, "mode": f"{ref.mode:04o}", "kind": ref.kind}
        for path, ref in sorted(refs.items())
    }


def _step_out(step: LockedStep) -> dict[str, Any]:
    return {
        "id": step.id,
        "kind": step.kind,
        "action": step.action,
        "stage": step.stage,
        "type": step.type,
        "upstream": list(step.upstream),
        "reason": step.reason,
        "unresolved": [{"what": u.what, "command": u.command} for u in step.unresolved],
        "input": _input_out(step.input),
        **({"packages": [_package_out(package) for package in step.packages]} if step.packages else {}),
        "touches": None if step.touches is None else list(step.touches),
        "changes": [{"path": c.path, "change": c.change.value, "source": c.source} for c in step.changes],
        "before": _refs_out(step.before),
        "after": _refs_out(step.after),
    }


def _input_out(pinned: LockedInput | None) -> dict[str, Any] | None:
    return None if pinned is None else {"path": pinned.path, "url": pinned.url, "sha256": pinned.sha256}


def _package_out(package: LockedPackage) -> dict[str, Any]:
    return {
        "requirement": package.requirement,
        "hashes": list(package.hashes),
        "wheels": [{"name": wheel.name, "input": _input_out(wheel.input)} for wheel in package.wheels],
    }
