"""Planning: verdicts in order, what is blocked, what waits; selections; pure on a tree in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from patchkit.core import operate
from patchkit.core.errors import ConfigError, RefusedByMachineError
from patchkit.core.lockfile import LockedStep, Unknown
from patchkit.core.plan import make_plan
from patchkit.core.selection import require_resolved, select
from tests.core.stacks import Content, Memory, Stack, build, diff, numbered, state

if TYPE_CHECKING:
    from patchkit.core.plan import Plan

A, B = "a.txt", "b.txt"
PRISTINE: dict[str, Content] = {A: numbered(), B: numbered()}
STACK = build(
    PRISTINE,
    {
        "a1": diff({A: numbered()}, {A: numbered(20, _3="1")}),
        "b": diff({B: numbered()}, {B: numbered(20, _3="1")}),
        "a2": diff({A: numbered(20, _3="1")}, {A: numbered(20, _3="2")}),
    },
    exact=False,
)


def plan(stack: Stack, tree: dict[str, Content], **options: object) -> Plan:
    memory = Memory({path: state(content) for path, content in tree.items()})
    return make_plan(stack.lock.steps, memory, stack.read_input, **options)  # type: ignore[arg-type]


def verdicts(made: Plan) -> list[str]:
    return [step.verdict.value for step in made.steps]


def with_steps(*steps: LockedStep) -> Stack:
    return replace(STACK, lock=replace(STACK.lock, steps=steps))


def other(step_id: str, kind: str = "run", **options: object) -> LockedStep:
    return LockedStep(id=step_id, kind=kind, action={}, before={}, after={}, **options)  # type: ignore[arg-type]


def test_in_order() -> None:
    made = plan(STACK, PRISTINE)
    assert verdicts(made) == ["applies", "applies", "applies"]
    assert made.fits
    assert made.final == {A: state(numbered(20, _3="2")), B: state(numbered(20, _3="1"))}
    assert made.writers(A) == ("a1", "a2")
    assert made.writers(B) == ("b",)
    assert made.writers("c") == ()


def test_a_step_that_does_not_fit_blocks_its_files_alone() -> None:
    made = plan(STACK, {**PRISTINE, A: "other\n"})
    assert verdicts(made) == ["conflict", "applies", "blocked"]
    assert not made.fits
    assert A not in made.final
    missing = plan(STACK, {B: numbered()})
    assert verdicts(missing) == ["missing", "applies", "blocked"]


def test_what_is_there_already() -> None:
    made = plan(STACK, {**PRISTINE, B: numbered(20, _3="1")})
    assert verdicts(made) == ["applies", "upstream", "applies"]
    assert B not in made.final


def test_an_unresolved_step_blocks_what_it_may_touch() -> None:
    unknown = (Unknown(what="the commit", command="patchkit x"),)
    a1, b, a2 = STACK.lock.steps
    somewhere = plan(with_steps(other("u", unresolved=unknown, touches=None), a1), PRISTINE)
    assert verdicts(somewhere) == ["unresolved", "blocked"]
    assert somewhere.steps[0].detail == ("the commit is not known; patchkit x",)
    folder = plan(with_steps(other("u", kind="patch", unresolved=unknown, touches=("pkg/",)), a1, b, a2), PRISTINE)
    assert verdicts(folder) == ["unresolved", "applies", "applies", "applies"]


def test_steps_that_wait() -> None:
    a1, b, a2 = STACK.lock.steps
    stack = with_steps(a1, replace(b, stage="runtime"), other("pip", kind="pip", touches=()), a2)
    assert verdicts(plan(stack, PRISTINE)) == ["applies", "applies", "deferred", "applies"]
    assert verdicts(plan(stack, PRISTINE, stage="build")) == ["applies", "deferred", "deferred", "applies"]
    assert verdicts(plan(stack, PRISTINE, stage="runtime", held={"a1"})) == [
        "applies",
        "applies",
        "deferred",
        "deferred",
    ]


def test_selections() -> None:
    lock = STACK.lock
    assert select(lock, ()) == lock.steps
    assert [s.id for s in select(lock, ("a2", "a1"))] == ["a1", "a2"]
    with pytest.raises(ConfigError) as caught:
        select(lock, ("a2", "b"))
    assert str(caught.value) == "--only: step a2 builds on the files of step a1, which is not selected"
    with pytest.raises(ConfigError) as caught:
        select(lock, ("x", "y"))
    assert caught.value.problems == tuple(f"--only {name}: the stack of test-image has no such step" for name in "xy")
    assert caught.value.hint == "its steps are: a1, b, a2"


def test_unresolved_steps_are_all_named() -> None:
    a1, b, _ = STACK.lock.steps
    unknown = (Unknown(what="x", command="do x"), Unknown(what="y", command="do y"))
    lock = with_steps(a1, other("u", kind="patch", touches=(B,), unresolved=unknown), b).lock
    with pytest.raises(ConfigError) as caught:
        require_resolved(lock, lock.steps)
    assert caught.value.problems == (
        "step u is unresolved: x is not known; do x",
        "step u is unresolved: y is not known; do y",
    )
    assert caught.value.hint == "apply the rest now: --only a1"


def test_steps_that_a_directory_cannot_run() -> None:
    a1, b, _ = STACK.lock.steps
    stack = with_steps(a1, other("rebuild", touches=(), stage="runtime"), b)
    with pytest.raises(RefusedByMachineError) as caught:
        operate.check_request(stack.request(), is_machine=False)
    assert str(caught.value) == ("step rebuild (run): a plain directory cannot run it; it needs a running container")
    assert caught.value.hint == "apply the other steps: --only a1,b"
    assert operate.check_request(stack.request(stage="build"), is_machine=False) == stack.lock.steps
    assert operate.check_request(stack.request(), is_machine=True) == stack.lock.steps


def test_a_lock_that_promises_what_its_patch_does_not_make() -> None:
    a1, *_ = STACK.lock.steps
    lie = replace(a1, after={A: replace(a1.before[A], sha256="0" * 64)})  # type: ignore[type-var]
    with pytest.raises(ConfigError, match=r"the lock promises 000000000000 for a\.txt, the step makes"):
        plan(with_steps(lie), PRISTINE)
