"""One step against one tree: the verdict, and the change it would make. Pure: bytes in, bytes out.

Evidence in order of strength: the hashes in the lock (the tree is the very one the step was locked
against, before or after it); else the step's own old and new text. A step whose old text and new
text both fit proves nothing either way and is a conflict, never a guess: that is how patches get
applied twice: on a repeated block `git apply` takes one patch again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchkit.core.diffs import DiffError, Section, parse
from patchkit.core.errors import ConfigError
from patchkit.core.lockfile import FileChange, FileRef, LockedStep
from patchkit.core.quoting import shown
from patchkit.core.replacing import count_both, replaced
from patchkit.core.sections import SectionResult, apply_sections, reverse
from patchkit.core.tree import REGULAR, FileState, Overlay, Tree, UnreadableError
from patchkit.core.verdicts import Change, Verdict

if TYPE_CHECKING:
    from patchkit.core.fit import Fit

#: The detail of `upstream` where the lock's hashes say so: the bytes are those that our own step makes.
AS_MADE = "the files are what this step would make of them"
_UNCLEAR = (
    "both the old and the new text fit, so that nothing tells whether the change is in the tree already;"
    " lock it against the image's own files (patchkit lock --from), or give the patch more context"
)

_HUNKS_SHOWN = 20

ReadInput = Callable[[LockedStep], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`writes` are the states the step would leave (path to state, None removes), empty unless it
    applies; `detail` is what a person reads, one line a finding."""

    verdict: Verdict
    changes: tuple[FileChange, ...] = ()
    writes: dict[str, FileState | None] = field(default_factory=dict)
    detail: tuple[str, ...] = ()


def judge(step: LockedStep, tree: Tree, read_input: ReadInput) -> Judgement:
    """Try `step` (a resolved `patch`, `replace` or `file`) on `tree`.

    Raises ConfigError where the step's input is no diff, or where the lock's hashes say that the
    step fits and its text says otherwise.
    """
    pinned = _pinned(step, tree)
    if pinned is Verdict.UPSTREAM:
        detail = (AS_MADE,)
        return Judgement(verdict=Verdict.UPSTREAM, changes=step.changes, detail=detail)
    if step.kind == "replace":
        judgement = judge_replace(step.action, tree, same_tree=pinned is Verdict.APPLIES)
    elif step.kind == "file":
        judgement = judge_file(step, tree, read_input)
    else:
        judgement = judge_patch(sections_of(step, read_input), tree, same_tree=pinned is Verdict.APPLIES)
    if pinned is Verdict.APPLIES:
        _check_promise(step, judgement, tree)
    return judgement


def sections_of(step: LockedStep, read_input: ReadInput) -> tuple[Section, ...]:
    """The sections of a patch step's diff. Raises ConfigError naming the step and the line."""
    action = step.action
    name = (step.input and (step.input.path or step.input.url)) or step.id
    try:
        return parse(
            read_input(step),
            strip=action["strip"],
            prefix=action["prefix"] or "",
            paths=tuple(action["paths"]),
        )
    except DiffError as error:
        raise ConfigError(f"step {step.id}: {name}: {error}", hint="mend the patch, then: patchkit lock") from None


def _pinned(step: LockedStep, tree: Tree) -> Verdict | None:
    """What the lock's hashes say: the tree is the one before the step, or after it, or neither."""
    if not step.after:
        return None
    if all(is_ref(ref, tree, path) for path, ref in step.before.items()):
        return Verdict.APPLIES
    if all(is_ref(ref, tree, path) for path, ref in step.after.items()):
        return Verdict.UPSTREAM
    return None


def is_ref(ref: FileRef | None, tree: Tree, path: str) -> bool:
    """Whether `tree` has at `path` what the lock says (None: nothing)."""
    try:
        state = tree.read(path)
    except UnreadableError:
        return False
    return state is None if ref is None else ref.holds(state)


def _check_promise(step: LockedStep, judgement: Judgement, tree: Tree) -> None:
    hint = "make it anew: patchkit lock"
    strange = sorted(judgement.writes.keys() - step.after.keys())
    if strange:
        named = ", ".join(shown(path) for path in strange)
        raise ConfigError(f"step {step.id}: it writes {named}, which the lock does not name", hint=hint)
    for path, ref in step.after.items():
        made = judgement.writes[path] if path in judgement.writes else tree.read(path)
        if (made is None) != (ref is None) or (ref is not None and not ref.holds(made)):
            raise ConfigError(
                f"step {step.id}: the lock promises {ref and ref.sha256[:12]} for {shown(path)}, the step makes"
                f" {made and made.sha256[:12]}: the lock was made by hand or by another patchkit",
                hint=hint,
            )


def judge_patch(sections: tuple[Section, ...], tree: Tree, *, same_tree: bool = False) -> Judgement:
    """Try a diff on `tree`. `same_tree`: the tree is known to be the one that the diff was locked
    against, so that nothing else needs to be asked."""
    after, forward = apply_sections(sections, tree)
    changes = file_changes(sections)
    fits = all(result.ok for result in forward)
    if fits and same_tree:
        return _applies(after, forward, changes)
    _, back = apply_sections(reverse(sections), tree)
    back.reverse()
    evidence = [_evidence(f, b) for f, b in zip(forward, back, strict=True)]
    if fits and all(known == "absent" for known in evidence):
        return _applies(after, forward, changes)
    if all(known == "there" for known in evidence):
        return Judgement(verdict=Verdict.UPSTREAM, changes=changes, detail=("its change is in the tree already",))
    if "unclear" in evidence and (fits or all(result.ok for result in back)):
        unclear = (s.path for s, known in zip(sections, evidence, strict=True) if known == "unclear")
        detail = tuple(f"{shown(path)}: {_UNCLEAR}" for path in dict.fromkeys(unclear))
        return Judgement(verdict=Verdict.CONFLICT, changes=changes, detail=detail)
    return _misfit(forward, back, changes)


def _evidence(forward: SectionResult, back: SectionResult) -> str:
    """Whether one section's change is "there", "absent", "unclear" (both may be) or "neither". Where
    both texts fit, the blob names of git's `index` line may still tell which file this is."""
    if not forward.ok and not back.ok:
        return "neither"
    if (forward.ok and back.ok) or any(map(_tells_nothing, *_paired(forward, back))):
        if forward.same_file and not back.same_file:
            return "absent"
        return "there" if back.same_file and not forward.same_file else "unclear"
    return "absent" if forward.ok else "there"


def _tells_nothing(forward: Fit, back: Fit) -> bool:
    """Whether a hunk may be in the tree already or not, whatever the others are: both its texts fit,
    or one of them could not be tried, or all there is of it is a few lines somewhere else."""
    if (forward.index is not None and back.index is not None) or forward.unproven or back.unproven:
        return True
    bare = len(set(forward.hunk.marks)) == 1  # only added or only removed lines, and no context
    return bare and bool(forward.offset or back.offset)


def _paired(forward: SectionResult, back: SectionResult) -> tuple[tuple[Fit, ...], tuple[Fit, ...]]:
    """The fits of the same hunks in both directions; none where a direction did not come to try them."""
    return (forward.fits, back.fits) if len(forward.fits) == len(back.fits) else ((), ())


def _applies(after: Overlay, results: list[SectionResult], changes: tuple[FileChange, ...]) -> Judgement:
    detail = tuple(
        f"{shown(result.section.path)}: hunk of line {fit.hunk.old_start} fits at line {fit.index + 1} (offset {fit.offset:+d})"
        for result in results
        for fit in result.fits
        if fit.offset and fit.index is not None
    )
    verdict = Verdict.OFFSET if detail else Verdict.APPLIES
    return Judgement(verdict=verdict, changes=changes, writes=dict(after.changes), detail=detail)


def _misfit(forward: list[SectionResult], back: list[SectionResult], changes: tuple[FileChange, ...]) -> Judgement:
    detail: list[str] = []
    verdict = Verdict.CONFLICT
    if all(f.ok or b.ok or _each_hunk_somewhere(f, b) for f, b in zip(forward, back, strict=True)):
        verdict = Verdict.PARTIAL
        detail.append("a part of its change is in the tree already, another part is not")
    elif any(result.missing for result in forward):
        verdict = Verdict.MISSING
    for f, b in zip(forward, back, strict=True):
        if not f.ok:
            detail += _explain(f, already=b.ok)
    return Judgement(verdict=verdict, changes=changes, detail=tuple(detail))


def _each_hunk_somewhere(forward: SectionResult, back: SectionResult) -> bool:
    """Whether every hunk of a section fits in one of the two directions."""
    if not forward.fits or len(forward.fits) != len(back.fits):
        return False
    return all(f.index is not None or b.index is not None for f, b in zip(forward.fits, back.fits, strict=True))


def _explain(result: SectionResult, *, already: bool) -> list[str]:
    """Why a section does not fit: the reason, and for each hunk what it expected and what is there."""
    path = shown(result.section.path)
    if already:
        return [f"{path}: its change is in the tree already"]
    bad = [fit for fit in result.fits if fit.index is None]
    if not bad:
        return [f"{path}: {result.why}"]
    lines: list[str] = []
    for fit in bad[:_HUNKS_SHOWN]:
        lines.append(f"{path}: hunk at line {fit.hunk.old_start} (line {fit.hunk.at} of the patch): {fit.why}")
        lines += _against(fit)
    if len(bad) > _HUNKS_SHOWN:
        lines.append(f"{path}: {len(bad) - _HUNKS_SHOWN} more hunks do not fit")
    return lines


def _against(fit: Fit, limit: int = 12) -> list[str]:
    """Expected against found, with line numbers; lines that agree are shown once."""
    expected, found, start = fit.hunk.old, list(fit.found), max(fit.hunk.old_start, 1)
    lines = []
    for i in range(min(max(len(expected), len(found)), limit)):
        want = expected[i] if i < len(expected) else None
        have = found[i] if i < len(found) else None
        if want == have and want is not None:
            lines.append(f"  {start + i:>6}           {show(want)}")
            continue
        if want is not None:
            lines.append(f"  {start + i:>6} expected  {show(want)}")
        lines.append(f"  {start + i:>6} found     {'(end of file)' if have is None else show(have)}")
    if max(len(expected), len(found)) > limit:
        lines.append(f"         … {max(len(expected), len(found)) - limit} more lines")
    return lines


def show(line: bytes) -> str:
    """A line of a file for a terminal: control characters and wrong UTF-8 made visible, cut at 160."""
    text = line.rstrip(b"\n").decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in text)
    return text if len(text) <= 160 else text[:160] + "…"


def file_changes(sections: tuple[Section, ...]) -> tuple[FileChange, ...]:
    """What the sections do to each file, one entry a file, in the order of the diff."""
    found: dict[str, FileChange] = {}
    for section in sections:
        source = section.old if section.change in (Change.RENAMED, Change.COPIED) else None
        change, path = section.change, section.path
        before = found.get(path)
        if before is not None:
            change = _combined(before.change, change)
            source = before.source or source
        found[path] = FileChange(path=path, change=change, source=source)
    return tuple(found.values())


def _combined(first: Change, then: Change) -> Change:
    if first is Change.DELETED and then is Change.ADDED:
        return Change.TYPE
    if (first is Change.ADDED and then is not Change.DELETED) or first in (Change.RENAMED, Change.COPIED):
        return first
    return then if then is Change.DELETED else Change.MODIFIED


def judge_replace(action: dict[str, Any], tree: Tree, *, same_tree: bool = False) -> Judgement:
    """Try an exact replacement: `find` must occur exactly `count` times in the file at `path`.
    `same_tree`: the file is known to be the one that the step was locked against."""
    path, count = action["path"], action["count"]
    find, put = action["find"].encode("utf-8"), action["with"].encode("utf-8")
    changes = (FileChange(path=path, change=Change.MODIFIED),)
    try:
        state = tree.read(path)
    except UnreadableError as error:
        return Judgement(verdict=Verdict.CONFLICT, changes=changes, detail=(f"{path}: {error}",))
    if state is None:
        return Judgement(verdict=Verdict.MISSING, changes=changes, detail=(f"{path}: the file is not there",))
    if state.kind != REGULAR:
        detail = (f"{path}: expected a regular file, found a symbolic link",)
        return Judgement(verdict=Verdict.CONFLICT, changes=changes, detail=detail)
    counted = count_both(state.data, find, put)
    if counted.overlap:
        detail = (f"{path}: occurrences of the text and of its replacement overlap, so that nothing tells them apart",)
        return Judgement(verdict=Verdict.CONFLICT, changes=changes, detail=detail)
    if counted.todo == count and (same_tree or not counted.done):
        made = FileState(kind=state.kind, mode=state.mode, data=replaced(state.data, counted, find, put))
        return Judgement(verdict=Verdict.APPLIES, changes=changes, writes={path: made})
    if not counted.todo and counted.done == count:
        return Judgement(verdict=Verdict.UPSTREAM, changes=changes, detail=("its change is in the tree already",))
    verdict = Verdict.PARTIAL if counted.done and counted.todo else Verdict.CONFLICT
    times = f"found it {counted.todo} times and its replacement {counted.done} times"
    detail = (f"{path}: expected the text exactly {count} times, {times}",)
    return Judgement(verdict=verdict, changes=changes, detail=detail)


def judge_file(step: LockedStep, tree: Tree, read_input: ReadInput) -> Judgement:
    """Try to put a whole file in place. Its own bytes with its executable bit are in the tree already
    (`upstream`); other bytes are replaced; nothing but a regular file is."""
    path, mode = step.action["path"], int(step.action["mode"], 8)
    assert step.input is not None
    added = (FileChange(path=path, change=Change.ADDED),)
    try:
        state = tree.read(path)
    except UnreadableError as error:
        return Judgement(verdict=Verdict.CONFLICT, changes=added, detail=(f"{path}: {error}",))
    if state is None:
        made = FileState(mode=mode, data=read_input(step))
        return Judgement(verdict=Verdict.APPLIES, changes=added, writes={path: made})
    if state.kind != REGULAR:
        detail = (f"{path}: expected a regular file, found a symbolic link",)
        return Judgement(verdict=Verdict.CONFLICT, changes=added, detail=detail)
    same = state.sha256 == step.input.sha256
    changes = (FileChange(path=path, change=Change.MODE if same else Change.MODIFIED),)
    if same and state.mode & 0o100 == mode & 0o100:
        return Judgement(verdict=Verdict.UPSTREAM, changes=changes, detail=("the file is in the tree already",))
    made = FileState(mode=mode, data=read_input(step))
    return Judgement(verdict=Verdict.APPLIES, changes=changes, writes={path: made})
