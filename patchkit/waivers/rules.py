"""The rules of `waiver check`: the one table of codes, from which docs/waiver-rules.md is generated, and findings."""

from __future__ import annotations

from dataclasses import dataclass

COMMAND = "python -m patchkit.cli.reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `code` never changes its meaning; `fix` completes "To mend it: "."""

    code: str
    meaning: str
    example: str
    fix: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place where a rule is broken.

    `subject` names the very thing (a file, a link, a pin, a key): with code, path and step it identifies the finding
    whatever line it is in.
    """

    code: str
    path: str
    line: int
    message: str
    step: str | None = None
    subject: str | None = None
    fix: str = ""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.fix or rule(self.code).fix

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies it."""
        return self.code, self.path, self.step or "", self.subject or ""


RULES: tuple[Rule, ...] = (
    # coverage
    Rule(
        code="stack-without-waiver",
        meaning="A governed stack has steps and no waiver covers any of them.",
        example="patches/nightly-cb8104839c/stack.yaml has 19 steps; waivers/ is empty.",
        fix="patchkit waiver new PR --image NAME in the pull request that introduces the patches",
    ),
    Rule(
        code="step-uncovered",
        meaning="A step of a governed stack is covered by no waiver.",
        example="A step `kda-state-indices` was added to the stack; no `covers` has it.",
        fix="add IMAGE/STEP to `covers` of the waiver that introduces it, or file a waiver of its own",
    ),
    Rule(
        code="file-uncovered",
        meaning="A file that a covered step changes, or so many hunks in it, appear in no row of the waiver's document; "
        "or a patch file lies beside a stack and no step names it.",
        example="A step changes vllm/v1/worker/gpu_worker.py; docs/waiver/2508.md lists pull requests and not that file.",
        fix="patchkit waiver render; a patch file that no step names: make it a step, or remove it",
    ),
    Rule(
        code="pin-undeclared",
        meaning="A package is installed over the image and no waiver says so: its pip step is not covered, its pin is "
        "not in the document, or a text speaks of a pin that no step has.",
        example='"triton==3.7.0: a dependency pin, not a patch" in a text, and no step that installs it.',
        fix="give the package a pip step in the stack, cover it, then: patchkit waiver render",
    ),
    Rule(
        code="step-covered-twice",
        meaning="Two waivers cover one step.",
        example="waivers/2508.yaml and waivers/2600.yaml both have nightly-cb8104839c/triton in `covers`.",
        fix="leave the step to the waiver of the pull request that introduced it",
    ),
    Rule(
        code="step-gone",
        meaning="A waiver speaks of a step that the stack does not have, or that it does not cover.",
        example="`covers: [nightly-cb8104839c/old-step]`, and the stack has no step of that id.",
        fix="take it out of the waiver; where the step was renamed, write its new id",
    ),
    # statements
    Rule(
        code="gap",
        meaning="A statement of the scaffold was not filled in.",
        example='owner: "FILL IN: who answers for this waiver"',
        fix="write the statement in its place",
    ),
    Rule(
        code="statement-missing",
        meaning="Something that only a person can state is not stated: repository, pull_request, model, owner, filed, "
        "expires, entrypoint, config, covers or recipes; or a waiver expires before it was filed.",
        example="A waiver without `owner`.",
        fix="state it in the waiver's YAML",
    ),
    Rule(
        code="reason-missing",
        meaning="A covered step has no reason in the stack, or no symptom under `why` in the waiver is tied to it.",
        example="`why` names every step but aiter-int64-kv-stride.",
        fix="say what fails without the step: `reason` in stack.yaml, a symptom with this step under `why`",
    ),
    Rule(
        code="upstream-missing",
        meaning="A covered step names no upstream pull request, and the waiver does not say why there is none.",
        example="A local step `dspark-verify-asm-1` that stands in no `no_upstream`.",
        fix="`upstream: [owner/repo#N]` in stack.yaml, or the step under `no_upstream` with `because`",
    ),
    Rule(
        code="removal-missing",
        meaning="A covered step, or the waiver as a whole, has no removal plan.",
        example="A step without `removal`.",
        fix="`removal: {when: contained, ref: owner/repo#N}` in stack.yaml; `removal: {plan: ...}` in the waiver",
    ),
    # links
    Rule(
        code="link-other-project",
        meaning="A pull request is linked of a project that is no component of the image, nor the waiver's own; or a "
        "recipe is of another model.",
        example="https://recipes.vllm.ai/MiniMaxAI/MiniMax-M3 in the waiver of moonshotai/Kimi-K3.",
        fix="link the pull request or recipe that is meant; a component that is missing belongs into images/NAME.yaml",
    ),
    Rule(
        code="recipe-not-merged",
        meaning="A linked recipe is not known to be merged, or the record says that it is not.",
        example="`merged: null` beside https://github.com/vllm-project/recipes/pull/788.",
        fix="wait until it is merged, then state the day: `merged: 2026-08-31`",
    ),
    Rule(
        code="upstream-unrecorded",
        meaning="The committed record says nothing of a pull request that a covered step names.",
        example="`upstream: [vllm-project/vllm#51682]`, and patches/upstream.json has no such entry.",
        fix="patchkit status --save",
    ),
    # removal
    Rule(
        code="removal-met",
        meaning="The removal condition of a step is met: the image, or a release, has the change.",
        example="`when: released`, and the record knows the first release with the pull request.",
        fix="retire the step: take it out of the stack and of `covers`",
    ),
    Rule(
        code="removal-impossible",
        meaning="A removal plan can never come true: the pull request that it waits for was abandoned, reverted, "
        "superseded, or is gone.",
        example="`when: contained, ref: vllm-project/vllm#50619`, which was closed without merging.",
        fix="wait for what solved it instead, or `when: manual` with a note that a person can act on",
    ),
    # time
    Rule(
        code="expired",
        meaning="The waiver has expired.",
        example="`expires: 2026-11-30`, on 2026-12-01.",
        fix="retire the steps, or have the waiver renewed and state the new day",
    ),
    Rule(
        code="expires-soon",
        meaning="The waiver expires within 14 days (--soon sets another number).",
        example="`expires: 2026-12-10`, on 2026-12-01.",
        fix="retire the steps, or have the waiver renewed and state the new day",
        warning=True,
    ),
    # documents
    Rule(
        code="document-missing",
        meaning="A waiver has no document.",
        example="waivers/2508.yaml without docs/waiver/2508.md.",
        fix="patchkit waiver render",
    ),
    Rule(
        code="document-stale",
        meaning="The document is not what the stack, the lock, the record and the waiver say.",
        example="A row was edited by hand, or the stack was changed and the document not rendered again.",
        fix="patchkit waiver render; to change what it says, change the waiver or the stack",
    ),
    Rule(
        code="document-without-waiver",
        meaning="A document has no waiver file from which it could be rendered.",
        example="docs/waiver/2400.md without waivers/2400.yaml.",
        fix="patchkit waiver new PR --image NAME and render it, or remove the document",
    ),
    Rule(
        code="name-differs",
        meaning="A waiver's file is not named after the pull request that introduces the patches.",
        example="waivers/2508.yaml with `pull_request: 2509`.",
        fix="rename the file, or correct `pull_request`",
    ),
    Rule(
        code="lock-stale",
        meaning="The lock of a stack with a waiver is stale, so that nothing can be said of its files.",
        example="A patch was edited after `patchkit lock`.",
        fix="patchkit lock --image NAME, then: patchkit waiver render",
    ),
    # text
    Rule(
        code="text-contradicts",
        meaning="A free text states a number, an image, a version or a commit that the stack, the image or the declared "
        "variables state differently.",
        example='"synthetic acceptance length 2.45", where the config entry declares 2.51.',
        fix="correct the text, or the value that it contradicts",
    ),
    # the baseline
    Rule(
        code="suppression-unused",
        meaning="A suppression of the baseline suppresses nothing any more.",
        example="`code: step-uncovered, step: triton` in waivers/baseline.yaml, and triton is covered.",
        fix="take it out of the baseline",
    ),
    Rule(
        code="suppression-expired",
        meaning="A suppression of the baseline has expired; its findings count again.",
        example="`expires: 2026-11-30` in waivers/baseline.yaml, on 2026-12-01.",
        fix="mend the finding, or have the suppression renewed with its reason",
    ),
)

_BY_CODE = {each.code: each for each in RULES}


def rule(code: str) -> Rule:
    """The rule of that code."""
    return _BY_CODE[code]


def reference() -> str:
    """docs/waiver-rules.md."""
    lines = [
        "# Rules of `patchkit waiver check`",
        "",
        f"Generated from the table of rules by `{COMMAND}`; do not edit. A code never changes its meaning.",
    ]
    for each in RULES:
        lines += [
            "",
            f"## {each.code}",
            "",
            each.meaning,
            "",
            f"- Example: {each.example}",
            f"- To mend it: {each.fix}",
        ]
    return "\n".join(lines) + "\n"
