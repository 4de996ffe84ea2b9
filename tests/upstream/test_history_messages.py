"""What commit messages say, and what they only quote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.upstream.messages import (
    NO_CLAIMS,
    Title,
    names_reverted_pulls,
    names_superseded_pulls,
    parse_body,
    parse_title,
)

SHA = "4" * 40
OTHER = "5" * 40


@pytest.mark.parametrize(
    ("subject", "own", "carried"),
    [
        ("Pad MLA (#4494)", 4494, ()),
        ("Pad MLA (#12) (#4494)", 4494, (12,)),
        ("Pad MLA (#12)(#4494) ", 4494, (12,)),
        ("Pad MLA", None, ()),
        ("Pad MLA (#4494) again", None, ()),
        ("Fix #4494", None, ()),
        ("Merge pull request #9 from someone/branch", 9, ()),
        ("Merge branch 'main' into x (#9)", 9, ()),
        ("(#7)", 7, ()),
    ],
)
def test_only_the_number_at_the_end_names_the_landed_one(
    subject: str, own: int | None, carried: tuple[int, ...]
) -> None:
    title = parse_title(subject)
    assert (title.own, title.carried, title.negates) == (own, carried, None)


def spelled(title: Title | None) -> str:
    """A title as `own:sign about`."""
    if title is None:
        return ""
    sign = {True: "-", False: "+", None: ""}[title.negates]
    about = f" {sign}({spelled(title.about)})" if title.about else f" {title.text}"
    return f"{title.own or ''}{about}".strip()


@pytest.mark.parametrize(
    ("subject", "means"),
    [
        ('Revert "Pad (#1)" (#2)', "2 -(1 Pad)"),
        ('Revert "Pad (#1)"', "-(1 Pad)"),
        ('Revert "Pad" (#2)', "2 -(Pad)"),
        ('[ROCm][Bugfix] Revert "Pad (#1)" (#2)', "2 -(1 Pad)"),
        ("revert: Pad (#1) (#2)", "2 -(1 Pad)"),
        ("fix(mla): revert Pad (#1) (#2)", "2 -(1 Pad)"),
        ("Revert #1 (#2)", "2 -(1)"),
        ("Revert PR #1: Pad (#2)", "2 -(1 Pad)"),
        ("[Revert] Pad (#1) (#2)", "2 -(1 Pad)"),
        ('Back out "Pad (#1)" (#2)', "2 -(1 Pad)"),
        ("Reverts “Pad (#1)” (#2)", "2 -(1 Pad)"),
        ('Revert "Revert "Pad (#1)" (#2)" (#3)', "3 -(2 -(1 Pad))"),
        ('Revert "Revert "Revert "Pad (#1)" (#2)" (#3)" (#4)', "4 -(3 -(2 -(1 Pad)))"),
        ('Reapply "Pad (#1)"', "+(1 Pad)"),
        ('Reland "Pad (#1)" (#3)', "3 +(1 Pad)"),
        ("Re-land Pad (#1) (#3)", "3 +(1 Pad)"),
        ("[Reland] Pad (#1) (#3)", "3 +(1 Pad)"),
        ("[Re-land #1] Pad (#3)", "3 +(1 Pad)"),
        ('Revert^2 "Pad (#1)"', "-(-(1 Pad))"),
        ('Partially revert "Pad (#1)" (#2)', '2 Partially revert "Pad (#1)"'),
        ("Document how to revert (#2)", "2 Document how to revert"),
        ("Revertable widgets (#2)", "2 Revertable widgets"),
        ("Release landing page (#2)", "2 Release landing page"),
    ],
)
def test_reverts_and_relands(subject: str, means: str) -> None:
    assert spelled(parse_title(subject)) == means


@pytest.mark.parametrize(
    ("subject", "partial"),
    [
        ('Revert "Pad (#1)" in docs only (#2)', True),
        ('Revert "Pad" for gfx942 (#2)', True),
        ('Revert "Pad (#1)" and tidy up', True),
        ('Reland "Pad (#1)" without the tests (#2)', True),
        ('Revert part of "Pad (#1)"', True),
        ("Revert parts of #1 (#2)", True),
        ('Revert "Pad (#1)" (#2)', False),
        ('Revert "Pad (#1)".', False),
        ('Revert "Pad" [skip ci] (#2)', False),
        ('Revert "Pad" #1 (#2)', False),
        ('Revert "Pad (#1)" due to a failure on gfx942 (#2)', False),
        ('Revert "Pad (#1)" - for now', False),
        ('Revert "Add "pad" and "unpad"" (#2)', False),
        ("Revert Pad (#1) (#2)", False),
        ("Pad (#1)", False),
    ],
)
def test_a_part_is_not_the_whole(subject: str, partial: bool) -> None:
    assert parse_title(subject).partial is partial


@given(st.text(alphabet=st.sampled_from('Revert "()#12[]:^'), max_size=60) | st.text(max_size=80))
def test_any_subject_is_read(subject: str) -> None:
    title = parse_title(subject)
    assert (title.about is None) == (title.negates is None)


def test_a_hostile_subject_is_read_quickly() -> None:
    assert parse_title('Revert "' * 5000).negates is True
    assert parse_title("[a] " * 5000 + "x").negates is None
    assert parse_title("(#1) " * 5000).own == 1


@pytest.mark.parametrize(
    ("body", "reverts"),
    [
        (f"This reverts commit {SHA}.", (SHA,)),
        (f"Because.\n\nThis reverts commit {SHA[:8]}.\n", (SHA[:8],)),
        (f"This reverts commit {SHA}, reversing\nchanges made to {OTHER}.", (SHA,)),
        (f"This reverts commits {SHA} and {OTHER}.", (SHA, OTHER)),
        (f"this reverts commit {SHA} as it broke CI", (SHA,)),
        (f"This partially reverts commit {SHA}.", ()),
        (f"    This reverts commit {SHA}.", ()),
        (f"> This reverts commit {SHA}.", ()),
        (f'"This reverts commit {SHA}."', ()),
        (f"```\nThis reverts commit {SHA}.\n```", ()),
        (f"  ```text\nThis reverts commit {SHA}.\n  ```\nThis reverts commit {OTHER}.", (OTHER,)),
        (f'* add x\n\n* Revert "add x"\n\nThis reverts commit {SHA}.\n\n* add y', ()),
        (f'* Revert "add x"\n\nThis reverts commit {SHA}.\n\n---------\n\nThis reverts commit {OTHER}.', (OTHER,)),
        (f"The message said: This reverts commit {SHA}.", ()),
        ("This reverts commit soon.", ()),
    ],
)
def test_what_reverts_and_what_quotes(body: str, reverts: tuple[str, ...]) -> None:
    assert parse_body(body).reverts == reverts


@pytest.mark.parametrize(
    ("line", "lands"),
    [
        ("Pull Request resolved: https://github.com/pytorch/pytorch/pull/17", (("github.com/pytorch/pytorch", 17),)),
        ("Pull-Request: https://github.com/pytorch/pytorch/pull/17", (("github.com/pytorch/pytorch", 17),)),
        (
            f"COPYBARA_INTEGRATE_REVIEW=https://github.com/google/x/pull/14 from y:z {SHA}",
            (("github.com/google/x", 14),),
        ),
        ("FUTURE_COPYBARA_INTEGRATE_REVIEW=https://github.com/google/x/pull/14", ()),
        ("See Pull Request resolved: https://github.com/pytorch/pytorch/pull/17", ()),
        ("  Pull Request resolved: https://github.com/pytorch/pytorch/pull/17", ()),
        ("Pull Request resolved: https://github.com/pytorch/pytorch/issues/17", ()),
    ],
)
def test_trailers_of_landing_bots(line: str, lands: tuple[tuple[str, int], ...]) -> None:
    assert parse_body(f"* a point of the description\n\nText.\n\n{line}\nApproved by: x").lands == lands


def test_other_claims() -> None:
    assert parse_body(f"x\n\n(cherry picked from commit {SHA})").picked == (SHA,)
    assert parse_body("Reverts ROCm/aiter#4494").reverts_pulls == (("rocm/aiter", 4494),)
    assert parse_body("This reverts PR #4494.").reverts_pulls == (("", 4494),)
    assert parse_body("nothing of that kind") is NO_CLAIMS
    assert names_reverted_pulls("Reverts rocm/AITER#4\nReverts other/repo#5\nReverts #6", "ROCm/aiter") == (4, 6)


@pytest.mark.parametrize(
    ("title", "body", "names"),
    [
        ("Pad again", "Supersedes #4494.", (4494,)),
        ("Pad again", "This replaces #1, #2 and ROCm/aiter#3; see #9", (1, 2, 3)),
        ("Pad again (replaces #4494)", "", (4494,)),
        ("Pad again", "Re-lands https://github.com/ROCm/aiter/pull/4494 with a fix", (4494,)),
        ("Reland of #4494", "", (4494,)),
        ("Pad again", "* supersedes #4494", (4494,)),
        ("Pad again", "- supersedes #4494", (4494,)),
        ("Pad again", "> Supersedes #4494", ()),
        ("Pad again", "Superseded by #4494", ()),
        ("Pad again", "Follow-up of #4494", ()),
        # who says that it does not, or that one could, supersedes nothing
        ("Pad again", "Alternatively one could replace #14.", ()),
        ("Pad again", "One could do so, but this PR does **not** supersede #14.", ()),
        ("Pad again", "This doesn't really replace #14", ()),
        ("Pad again", "This does not, however, supersede #14.", ()),
        ("Pad again", "It neither replaces nor supersedes #14", ()),
        ("Pad again", "It is no replacement for #14", ()),
        ("Pad again", "Not a re-land of #14", ()),
        ("Pad again", "It isn\u2019t a reland of #14", ()),
        ("Pad again", "This might replace #14 one day", ()),
        ("Pad again", "Does this supersede #14?", ()),
        ("Pad again", "Without replacing #14", ()),
        ("Does not replace #14", "", ()),
        ("Pad again", "It was not enough. This supersedes #14", (14,)),
        ("Pad again", "It does not copy any more and replaces #14", (14,)),
        ("Pad again", "Not a fix but supersedes #14", (14,)),
        ("Pad again", "Opened to replace #14, which would not merge", (14,)),
        ("Pad again", "This will supersede #14", (14,)),
    ],
)
def test_successors(title: str, body: str, names: tuple[int, ...]) -> None:
    home = "github.com/rocm/aiter"
    assert names_superseded_pulls(title, body, "github.com/ROCm/aiter") == tuple((home, name) for name in names)


def test_a_bare_number_is_one_of_the_repository_that_says_it() -> None:
    body = "Replaces #1, acme/Engine#2 and https://ghe.example/acme/engine/pull/3"
    assert names_superseded_pulls("Reland #4", body, "github.com/fork/engine") == (
        ("github.com/fork/engine", 4),
        ("github.com/fork/engine", 1),
        ("github.com/acme/engine", 2),
        ("ghe.example/acme/engine", 3),
    )
