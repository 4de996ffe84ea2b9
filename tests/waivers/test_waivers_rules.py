"""Every rule: what breaks it and, beside it, the near miss that does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.app import waivers
from patchkit.app.project import Project
from patchkit.core.errors import ConfigError
from patchkit.waivers import links
from patchkit.waivers.rules import RULES, reference

from .conftest import PULL, ROOT, TODAY, demo_record, demo_stack, demo_waiver, lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Bench

WAIVER, STACK, RECORD, DOCUMENT = (
    "waivers/12.yaml",
    "patches/demo/stack.yaml",
    "patches/upstream.json",
    "docs/waiver/12.md",
)


def waiver(bench: Bench, **changes: Any) -> None:
    data = {**demo_waiver(), **changes}
    bench.write(WAIVER, {key: value for key, value in data.items() if value is not None})
    bench.render()


def stack(bench: Bench, at: int, **changes: Any) -> None:
    data = demo_stack()
    data["steps"][at] |= changes
    data["steps"][at] = {key: value for key, value in data["steps"][at].items() if value is not None}
    bench.write(STACK, data)
    lock(bench)
    bench.render()


def record(bench: Bench, **changes: Any) -> None:
    data = demo_record()
    data["pulls"][PULL] |= changes
    bench.write(RECORD, data)
    bench.render()


def second_waiver(bench: Bench) -> None:
    data = demo_waiver() | {"pull_request": 13, "covers": ["demo/worker"], "no_upstream": []}
    data["why"] = [{"symptom": "It is slow.", "steps": ["worker"]}]
    data["no_upstream"] = [{"steps": ["worker"], "because": "Ours alone."}]
    bench.write("waivers/13.yaml", data)
    bench.render()


def uncover(bench: Bench, step: str) -> None:
    data = demo_waiver()
    data["covers"].remove(f"demo/{step}")
    data["why"][0]["steps"].remove(step)
    if step in data["no_upstream"][0]["steps"]:
        data["no_upstream"][0]["steps"].remove(step)
    bench.write(WAIVER, data)
    bench.render()


def delete(bench: Bench, *names: str) -> None:
    for name in names:
        (bench.root / name).unlink()


def baseline(bench: Bench, **changes: Any) -> None:
    entry = {"code": "expired", "path": WAIVER, "reason": "renewal is under way", "expires": "2027-12-31", **changes}
    bench.write("waivers/baseline.yaml", {"suppressions": [entry]})


def rename(bench: Bench) -> None:
    (bench.root / WAIVER).rename(bench.root / "waivers/13.yaml")
    (bench.root / DOCUMENT).unlink()
    bench.render()


def retype(bench: Bench, old: str, new: str) -> None:
    path = bench.root / DOCUMENT
    path.write_text(path.read_text().replace(old, new))


def change_patch(bench: Bench) -> None:
    path = bench.root / "patches/demo/mla.patch"
    path.write_text(path.read_text().replace("256", "512"))


Change = "Callable[[Bench], object]"
STEP_2 = demo_stack()["steps"][1]
BREAKS: list[tuple[str, str, Change, list[str]]] = [
    # code, how, what is done, all codes that follow
    ("stack-without-waiver", "no waiver", lambda b: delete(b, WAIVER, DOCUMENT), ["stack-without-waiver"]),
    ("step-uncovered", "not in covers", lambda b: uncover(b, "worker"), ["step-uncovered"]),
    ("pin-undeclared", "not in covers", lambda b: uncover(b, "triton"), ["pin-undeclared"]),
    ("file-uncovered", "a stray patch", lambda b: b.write("patches/demo/stray.patch", "x"), ["file-uncovered"]),
    ("file-uncovered", "a shared one", lambda b: b.write("patches/common/stray.diff", "x"), ["file-uncovered"]),
    ("step-covered-twice", "two waivers", second_waiver, ["step-covered-twice"]),
    ("step-gone", "a step that is not there", lambda b: waiver(b, covers=[*demo_waiver()["covers"], "demo/old"]),
     ["step-gone"]),
    ("step-gone", "another image",
     lambda b: (b.write(WAIVER, demo_waiver() | {"covers": ["other/mla-fp8"], "why": [], "no_upstream": []}),
                (b.root / DOCUMENT).unlink()), ["stack-without-waiver", "step-gone"]),
    ("step-gone", "a reason for what is not covered",
     lambda b: waiver(b, why=[{"symptom": "x", "steps": ["mla-fp8", "worker", "triton", "gone"]}]), ["step-gone"]),
    ("gap", "the mark of the scaffold", lambda b: waiver(b, owner="FILL IN: who"), ["gap"]),
    *(("statement-missing", key, lambda b, key=key: waiver(b, **{key: None}), ["statement-missing"])
      for key in ("repository", "pull_request", "owner", "filed", "expires", "entrypoint", "config", "recipes")),
    ("statement-missing", "the model", lambda b: waiver(b, model=None), ["statement-missing"]),
    ("statement-missing", "ends before it begins", lambda b: waiver(b, filed="2027-07-01"), ["statement-missing"]),
    ("reason-missing", "in the stack", lambda b: stack(b, 1, reason=None), ["reason-missing"]),
    ("reason-missing", "in the waiver", lambda b: waiver(b, why=[{"symptom": "x", "steps": ["mla-fp8", "triton"]}]),
     ["reason-missing"]),
    ("upstream-missing", "a local step", lambda b: waiver(b, no_upstream=[{"steps": ["triton"], "because": "x"}]),
     ["upstream-missing"]),
    ("removal-missing", "of the step", lambda b: stack(b, 1, removal=None), ["removal-missing"]),
    ("removal-missing", "by hand, without a note", lambda b: stack(b, 1, removal={"when": "manual"}), ["removal-missing"]),
    ("removal-missing", "of the waiver", lambda b: waiver(b, removal=None), ["removal-missing"]),
    ("link-other-project", "in a text", lambda b: stack(b, 1, reason="See other/router#3."), ["link-other-project"]),
    ("link-other-project", "by address",
     lambda b: stack(b, 1, reason="See https://github.com/other/router/issues/3."), ["link-other-project"]),
    ("link-other-project", "the recipe says another model",
     lambda b: waiver(b, recipes=[{"link": "https://x.example/Demo-1", "model": "Demo-2", "merged": "2026-10-01"}]),
     ["link-other-project"]),
    ("link-other-project", "a longer name",
     lambda b: waiver(b, recipes=[{"link": "https://x.example/Demo-15", "model": "Demo-1", "merged": "2026-10-01"}]),
     ["link-other-project"]),
    ("recipe-not-merged", "not seen merged",
     lambda b: waiver(b, recipes=[{"link": "https://github.com/a/b/pull/3", "model": "Demo-1", "merged": None}]),
     ["recipe-not-merged"]),
    ("recipe-not-merged", "merged on a day to come",
     lambda b: waiver(b, recipes=[{"link": "https://x.example/Demo-1", "model": "Demo-1", "merged": "2026-12-02"}]),
     ["recipe-not-merged"]),
    ("upstream-unrecorded", "not in the record", lambda b: (b.write(RECORD, {"version": 1, "pulls": {}}), b.render()),
     ["upstream-unrecorded"]),
    ("removal-met", "the image is at that commit", lambda b: record(b, landed_as="c" * 40), ["removal-met"]),
    ("removal-impossible", "gone", lambda b: record(b, state="gone"), ["removal-impossible"]),
    ("removal-impossible", "superseded", lambda b: record(b, state="superseded"), ["removal-impossible"]),
    ("expired", "yesterday", lambda b: waiver(b, expires="2026-11-30"), ["expired"]),
    ("expires-soon", "in two weeks", lambda b: waiver(b, expires="2026-12-15"), ["expires-soon"]),
    ("expires-soon", "today", lambda b: waiver(b, expires="2026-12-01"), ["expires-soon"]),
    ("document-missing", "never rendered", lambda b: delete(b, DOCUMENT), ["document-missing"]),
    ("document-stale", "edited by hand", lambda b: retype(b, "somebody", "nobody"), ["document-stale"]),
    ("document-stale", "other line ends", lambda b: (b.root / DOCUMENT).write_bytes(
        (b.root / DOCUMENT).read_bytes().replace(b"\n", b"\r\n")), ["document-stale"]),
    ("document-without-waiver", "an orphan", lambda b: b.write("docs/waiver/9.md", "# x\n"), ["document-without-waiver"]),
    ("name-differs", "another number", rename, ["name-differs"]),
    ("lock-stale", "a patch was edited", change_patch, ["lock-stale", "file-uncovered", "document-stale"]),
    ("text-contradicts", "another image", lambda b: waiver(b, entrypoint="apply on example/demo:v2"), ["text-contradicts"]),
    ("text-contradicts", "a nightly", lambda b: waiver(b, entrypoint="on nightly-c50aca"), ["text-contradicts"]),
    ("text-contradicts", "a pin", lambda b: stack(b, 2, reason="Needs Triton 3.6.0."), ["text-contradicts"]),
    ("text-contradicts", "a commit", lambda b: stack(b, 1, reason="Taken from deadbee1."), ["text-contradicts"]),
    ("text-contradicts", "the number of steps", lambda b: waiver(b, removal={"plan": "All four steps go."}),
     ["text-contradicts"]),
    ("text-contradicts", "the stack's version", lambda b: waiver(b, entrypoint="apply stack version 2"),
     ["text-contradicts"]),
    ("suppression-unused", "nothing to suppress", baseline, ["suppression-unused"]),
    ("suppression-expired", "it ran out", lambda b: (waiver(b, expires="2026-11-30"), baseline(b, expires="2026-11-30")),
     ["expired", "suppression-expired"]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "how", "change", "codes"), BREAKS, ids=[f"{code}: {how}" for code, how, *_ in BREAKS])
def test_breaks(demo: Bench, code: str, how: str, change: Callable[[Bench], object], codes: list[str]) -> None:
    change(demo)
    found = demo.findings()
    assert sorted(each.code for each in found) == sorted(codes)
    assert code in codes
    for each in found:
        assert each.line >= 1
        assert each.remedy
        assert (demo.root / each.path).exists()


def test_every_rule_is_broken_once() -> None:
    assert {code for code, *_ in BREAKS} == {rule.code for rule in RULES}
    assert len({rule.code for rule in RULES}) == len(RULES)


KEEPS: list[tuple[str, Change]] = [
    ("the image's own name, tag and a beginning of it", lambda b: waiver(b, entrypoint="on demo, example/demo:v1")),
    ("the declared value, spelled otherwise",
     lambda b: waiver(b, entrypoint="at a synthetic acceptance length of 2.510, --kv-cache-dtype=FP8")),
    ("a variable without a value", lambda b: waiver(b, entrypoint="the kv-cache-dtype matters, and 9 other things")),
    ("a longer variable", lambda b: waiver(b, entrypoint="with xkv-cache-dtype=auto")),
    ("the pin, or a part of its version", lambda b: stack(b, 2, reason="Triton 3.7, that is triton==3.7.0.")),
    ("a later one will do", lambda b: stack(b, 2, removal={"when": "manual", "note": "Ships Triton 3.8 or later."})),
    ("a known commit", lambda b: stack(b, 1, reason=f"Taken from {'a' * 9}, on {'c' * 12}.")),
    ("a word that is no commit", lambda b: stack(b, 1, reason="The facade and 1234567 defaced decades.")),
    ("a link to a component, and to the own repository",
     lambda b: stack(b, 1, reason="example/engine#9, https://github.com/example/benchmark/pull/12")),
    ("a page of the model, spelled otherwise",
     lambda b: waiver(b, recipes=[{"link": "https://x.example/demo_1.html", "model": "demo-1", "merged": "2026-10-01"}])),
    ("a recipe's pull request that is merged",
     lambda b: waiver(b, recipes=[{"link": "https://github.com/a/b/pull/3", "model": "Demo-1", "merged": "2026-10-01"}])),
    ("fifteen days", lambda b: waiver(b, expires="2026-12-16")),
    ("a removal by hand of what was abandoned",
     lambda b: (record(b, state="abandoned"), stack(b, 0, removal={"when": "manual", "note": "Look at it."}))),
    ("a landing that the image may have", lambda b: record(b, first_release="9.9.9")),
    ("a README beside the documents", lambda b: b.write("docs/waiver/README.md", "# How to file one\n")),
    ("a condition of the waiver in place of the step's plan",
     lambda b: (stack(b, 1, removal=None), waiver(b, removal={
         "plan": "x", "conditions": [{"steps": ["worker"], "image_contains": PULL}]}))),
    ("the right number of steps", lambda b: waiver(b, removal={"plan": "All three steps go; 2 steps at first."})),
    ("an accepted finding", lambda b: (waiver(b, expires="2026-11-30"), baseline(b))),
    ("an accepted finding, by its subject",
     lambda b: (waiver(b, expires="2026-11-30"), baseline(b, subject="expires"))),
]  # fmt: skip


@pytest.mark.parametrize(("how", "change"), KEEPS, ids=[how for how, _ in KEEPS])
def test_keeps(demo: Bench, how: str, change: Callable[[Bench], object]) -> None:
    change(demo)
    assert demo.findings() == []


def test_a_release_that_has_the_change_meets_the_plan(demo: Bench) -> None:
    record(demo, first_release="1.2.0")
    stack(demo, 0, removal={"when": "released", "ref": PULL})
    (found,) = demo.findings()
    assert (found.code, found.message) == (
        "removal-met",
        f"step mla-fp8: {PULL} is in release 1.2.0: retire it",
    )


@pytest.mark.parametrize(
    ("release", "exact", "codes"),
    [("1.2.0", True, ["removal-met"]), ("1.10.0", True, ["removal-met"]), ("1.1.9", True, []), ("1.2.0", False, [])],
)
def test_an_image_that_is_a_release(demo: Bench, release: str, exact: bool, codes: list[str]) -> None:
    record(demo, first_release="1.2.0")
    component = {"repo": "example/engine", "release": release, "exact": exact}
    demo.edit("images/demo.yaml", lambda image: image.update(components={"engine": component}))
    lock(demo)
    demo.render()
    assert demo.codes() == codes


@pytest.mark.parametrize(("exact", "codes"), [(True, ["removal-met"]), (False, [])])
def test_files_that_have_the_change_already(demo: Bench, exact: bool, codes: list[str]) -> None:
    """Only the image's own files prove it, not those of a stand-in."""
    subject = waivers.read(Project(root=str(demo.root)))
    (facts,) = subject.stacks
    first = replace(facts.lock.steps[0], after=facts.lock.steps[0].before)
    same = replace(facts, lock=replace(facts.lock, exact=exact, steps=(first, *facts.lock.steps[1:])))
    assert [each.code for each in links.check(replace(subject, stacks=(same,)), TODAY)] == codes


def test_a_recipe_that_the_record_knows_to_be_open(demo: Bench) -> None:
    demo.write(RECORD, demo_record(**{"a/b#3": "open"}))
    recipe = {"link": "https://github.com/a/b/pull/3", "model": "Demo-1", "merged": "2026-10-01"}
    waiver(demo, recipes=[recipe])
    (found,) = demo.findings()
    assert found.message == (
        "recipes[0]: https://github.com/a/b/pull/3 is open as of 2026-11, says patches/upstream.json"
    )


def test_an_exempt_stack_needs_nothing_and_says_why(demo: Bench) -> None:
    demo.edit(STACK, lambda data: data.update(governed=False, reason="For development\nonly."))
    delete(demo, WAIVER, DOCUMENT)
    lock(demo)
    result = demo.check()
    assert result.findings == ()
    assert [(each.image, each.reason) for each in result.exempt] == [("demo", "For development only.")]


def test_findings_are_sorted_and_lines_are_right(demo: Bench) -> None:
    (demo.root / WAIVER).write_text(
        "repository: example/benchmark\n"
        "pull_request: 12\n"
        "model: example/Demo-1\n"
        "owner: 'FILL IN: who'\n"
        "filed: 2026-11-01\n"
        "expires: 2026-11-02\n"
        "entrypoint: x\n"
        "config: [{entry: e}]\n"
        "covers:\n"
        "  - demo/mla-fp8\n"
        "  - demo/gone\n"
        "  - demo/worker\n"
        "  - demo/triton\n"
        "why:\n"
        "  - symptom: all\n"
        "    steps: [mla-fp8, worker, triton]\n"
        "no_upstream:\n"
        "  - {steps: [worker, triton], because: x}\n"
        "removal: {plan: x}\n"
        "recipes:\n"
        "  - link: https://x.example/Demo-9\n"
        "    model: Demo-1\n"
        "    merged: 2026-10-01\n"
    )
    demo.render()
    assert [(each.line, each.code) for each in demo.findings()] == [
        (4, "gap"),
        (6, "expired"),
        (11, "step-gone"),
        (21, "link-other-project"),
    ]


def test_broken_files_are_all_named_at_once(demo: Bench) -> None:
    demo.edit(WAIVER, lambda data: data.update(covers=["x"]))
    demo.edit(STACK, lambda data: data.update(version=0))
    with pytest.raises(ConfigError) as caught:
        demo.check()
    assert [problem.partition("demo/")[2].partition("stack.yaml")[0] or problem for problem in caught.value.problems]
    assert len(caught.value.problems) == 2


def test_today_decides_alone(demo: Bench) -> None:
    assert demo.codes(today=date(2027, 6, 15)) == []
    assert demo.codes(today=date(2027, 6, 16)) == ["expires-soon"]
    assert demo.codes(today=date(2027, 6, 30)) == ["expires-soon"]
    assert demo.codes(today=date(2027, 7, 1)) == ["expired"]


def test_the_reference_of_rules_is_fresh() -> None:
    assert (ROOT / "docs/waiver-rules.md").read_text("utf-8") == reference()


SENTENCES = [
    # declared: draft-tokens 2, concurrency "4 to 16", acceptance-length 2.51, kv-cache-dtype fp8; pinned: triton 3.7.0
    ("It drafts with two draft tokens.", None),
    ("It drafts with three draft tokens.", "three draft tokens"),
    ("draft tokens = 3", "draft tokens = 3"),
    ("DRAFT_TOKENS=2 and draft-tokens: 2", None),
    ("5 draft-tokens", "5 draft-tokens"),
    ("draft tokens are 2 of the 7 things to set", None),
    ("a concurrency of 8", None),
    ("a concurrency of 32", "concurrency of 32"),
    ("the acceptance length is set to `2.45`", "acceptance length is set to `2.45"),
    ("an acceptance length of 2.51.", None),
    ("acceptance length 2.5x", None),
    ("the kv-cache-dtype is `auto`", "kv-cache-dtype is `auto"),
    ("kv-cache-dtype=FP8", None),
    ("kv-cache-dtype decides", None),
    ("--kv_cache_dtype bf16", "--kv_cache_dtype bf16"),
    ("Triton 3.7", None),
    ("Triton 3.6", "Triton 3.6"),
    ("triton==3.7.1", "triton==3.7.1"),
    ("once the image ships Triton 3.9", None),
    ("Tritonish 3.6", None),
]


@pytest.mark.parametrize(("sentence", "found"), SENTENCES, ids=[sentence for sentence, _ in SENTENCES])
def test_sentences(demo: Bench, sentence: str, found: str | None) -> None:
    values = {"draft-tokens": "2", "concurrency": "4 to 16", "acceptance length": "2.51", "kv-cache-dtype": "fp8"}
    waiver(demo, config=[{"entry": "demo", "values": values}], entrypoint=sentence)
    assert [each.subject for each in demo.findings()] == ([] if found is None else [found])
