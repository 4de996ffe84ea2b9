"""What commit messages say: the number that a subject ends in, reverts, re-lands, trailers.

The forms are those of GitHub (squash: `TITLE (#N)`; the Revert button: `Revert "TITLE" (#N)`, body `Reverts
owner/repo#N`), git (`Revert "…"`, `Reapply "…"`, `This reverts commit SHA`, `(cherry picked from commit SHA)`),
Gerrit (`Revert^2 "…"`), ghstack and PyTorch's merge bot (`Pull Request resolved: URL`), Copybara
(`COPYBARA_INTEGRATE_REVIEW=URL`). What is quoted says nothing: a squash body lists the messages of a branch's
commits, and a revert among them was one on that branch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBER_AT_END = re.compile(r"\s*\(#(\d{1,9})\)\s*$")
_MERGE = re.compile(r"Merge pull request #(\d{1,9}) from \S+")
_TAGS = r"(?:\[[^\]]*\]\s*|[A-Za-z]+(?:\([^)]*\))?!?:\s*)*?"
_REVERT = re.compile(
    rf"{_TAGS}(?:\[\s*revert(?:ed|ing)?\s*\]|(?:revert(?:ed|s|ing)?|back(?:ed|s|ing)?[ -]?out|roll(?:ed|s|ing)?[ -]?back)\b(?!-))"
    r"(?:\^(?P<power>\d{1,2}))?",
    re.IGNORECASE,
)
_RELAND = re.compile(
    rf"{_TAGS}(?:\[\s*re-?(?:land|appl|merg)[^\]#]*(?P<number>#\d{{1,9}})?[^\]]*\]|re-?(?:land(?:ed|s|ing)?|apply|applied|applies|applying)\b|unrevert\b)",
    re.IGNORECASE,
)
#: Behind a quoted title: why, or for how long, it is taken back as a whole. Anything else speaks of a part of it.
_WHOLE = re.compile(
    r"(?:[\s.,:;!\u2013\u2014-]|\[[^\]]*\]|\(?#\d{1,9}\)?)*"
    r"(?:(?:due to|because|since|as it|for now|temporarily|again|until|to (?:unblock|fix|unbreak))\b.*)?",
    re.IGNORECASE | re.DOTALL,
)
_PART = re.compile(r"(?:parts?|partly|partially|some|half|portions?|bits?)\b", re.IGNORECASE)
_FILLER = re.compile(r"[\s:]*(?:(?:of|the|pr|pull request)\b[\s:]*)*", re.IGNORECASE)
_LEADING_NUMBER = re.compile(r"\(?#(\d{1,9})\)?[\s:,-]*")
_QUOTES = {'"': '"', "'": "'", "“": "”", "`": "`"}
_MOST_NESTED = 16
_LONGEST = 1000

_FENCE = re.compile(r"(?:```|~~~)")
_SQUASHED = re.compile(r"\* \S")
_RULE = re.compile(r"-{5,}\s*$")
_REVERTS = re.compile(r"This reverts commits? (.*)", re.IGNORECASE)
_SHAS = re.compile(r"\b[0-9a-f]{7,40}\b")
_REVERTS_PULL = re.compile(
    r"(?:This )?reverts (?:(?:PR|pull request) )?(?:(?P<repo>[\w.-]+/[\w.-]+))?#(?P<number>\d{1,9})\b", re.IGNORECASE
)
_PICKED = re.compile(r"\(cherry[ -]picked from commit ([0-9a-f]{7,40})\)")
_RESOLVED = re.compile(
    r"(?:Pull[ -]Request(?:[ -]resolved)?:\s*|COPYBARA_INTEGRATE_REVIEW=)"
    r"https?://(?P<host>[^/\s]+)/(?P<repo>[^/\s]+/[^/\s]+)/pull/(?P<number>\d{1,9})\b",
    re.IGNORECASE,
)
_HINTS = ("reverts ", "cherry", "pull request", "pull-request", "copybara_integrate_review=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Title:
    """A subject, or a pull request's title, taken apart.

    `own` is the number of the pull request that the commit landed, `carried` are further numbers at the end
    (a cherry-pick by a pull request of its own: `TITLE (#N) (#M)`). `negates` is True for a revert, False for
    a re-land, None for anything else; `about` is the title that these speak of. `doubtful`: a revert without
    quotes that ends in one number, which may be its own or that of what it reverts. `partial`: it speaks of a part
    of it (`Revert "T" in docs only`), so that the title alone takes nothing back.
    """

    text: str
    own: int | None = None
    carried: tuple[int, ...] = ()
    negates: bool | None = None
    about: Title | None = None
    doubtful: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a body says in its own name: SHAs that it reverts (perhaps abbreviated), pull requests that it reverts
    (`("", N)` is one of its own repository), SHAs that it was picked from, and pull requests
    (`host/owner/repo`, folded) that it lands."""

    reverts: tuple[str, ...] = ()
    reverts_pulls: tuple[tuple[str, int], ...] = ()
    picked: tuple[str, ...] = ()
    lands: tuple[tuple[str, int], ...] = ()


NO_CLAIMS = Claims()


def parse_title(subject: str, depth: int = 0) -> Title:
    """Return the parts of a commit's subject or a pull request's title; of one beyond all measure, of its ends."""
    if len(subject) > 2 * _LONGEST:
        subject = subject[:_LONGEST] + subject[-_LONGEST:]
    merge = _MERGE.match(subject)
    if merge is not None:
        return Title(text=subject, own=int(merge[1]))
    text, numbers = subject.strip(), list[int]()
    while (match := _NUMBER_AT_END.search(text)) is not None:
        numbers.append(int(match[1]))
        text = text[: match.start()]
    own, carried = (numbers[0] if numbers else None), tuple(reversed(numbers[1:]))
    if depth < _MOST_NESTED and text:
        for pattern, negates in ((_REVERT, True), (_RELAND, False)):
            found = pattern.match(text)
            if found is not None:
                return _undoing(text, found, negates, own, carried, depth)
    return Title(text=text, own=own, carried=carried)


def _undoing(
    text: str, found: re.Match[str], negates: bool, own: int | None, carried: tuple[int, ...], depth: int
) -> Title:
    """The title of a revert or a re-land; `text` has lost the numbers at its end."""
    groups = found.groupdict()
    rest = text[_FILLER.match(text, found.end()).end() :]  # type: ignore[union-attr]  # it matches nothing, too
    closing = _QUOTES.get(rest[:1])
    partial = _PART.match(rest) is not None
    if closing is not None and closing in rest[1:]:
        end = rest.rindex(closing)
        about, doubtful = parse_title(rest[1:end], depth + 1), False
        partial = _WHOLE.fullmatch(rest, end + 1) is None
    else:
        number = groups.get("number")
        number = _LEADING_NUMBER.match(number) if number else _LEADING_NUMBER.match(rest)
        if number is not None:
            rest = rest if groups.get("number") else rest[number.end() :]
            about = Title(text=rest, own=int(number[1]))
        else:
            about = parse_title(" ".join([rest, *(f"(#{carry})" for carry in carried)]), depth + 1)
        doubtful = about.own is None and own is not None
    power = int(groups["power"]) if groups.get("power") else 1
    for _ in range(min(power, _MOST_NESTED) - 1):  # Gerrit: Revert^2 "T" is a revert of Revert "T"
        about = Title(text=f'Revert "{about.text}"', negates=True, about=about)
    return Title(text=text, own=own, negates=negates, about=about, doubtful=doubtful, partial=partial)


def parse_body(body: str) -> Claims:
    """Return what a commit's body says in its own name."""
    folded = body.casefold()
    if not any(hint in folded for hint in _HINTS):
        return NO_CLAIMS
    reverts, pulls, picked, lands = list[str](), list[tuple[str, int]](), list[str](), list[tuple[str, int]]()
    for line, squashed in own_lines(body):
        if (match := _RESOLVED.match(line)) is not None:
            lands.append((f"{match['host']}/{match['repo']}".casefold(), int(match["number"])))
        elif (match := _PICKED.match(line)) is not None:
            picked.append(match[1])
        elif squashed:
            continue
        elif (match := _REVERTS.match(line)) is not None:
            reverts.extend(_SHAS.findall(match[1].partition(", reversing")[0].partition(". ")[0]))
        elif (match := _REVERTS_PULL.match(line)) is not None:
            pulls.append(((match["repo"] or "").casefold(), int(match["number"])))
    return Claims(reverts=tuple(reverts), reverts_pulls=tuple(pulls), picked=tuple(picked), lands=tuple(lands))


def own_lines(body: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a message or description that are not indented, quoted or in a code fence, each with
    whether it stands in a list of squashed commits (from the first `* ` to a rule of dashes)."""
    fenced = squashed = False
    for line in body.splitlines():
        if _FENCE.match(line.lstrip()):
            fenced = not fenced
        elif fenced or not line or line[0] in " \t>":
            continue
        else:
            squashed = _RULE.match(line) is None and (squashed or _SQUASHED.match(line) is not None)
            yield line, squashed


_SUCCEEDS = re.compile(
    r"\b(?:supersed(?:es?|ed|ing)|replac(?:es?|ing|ement (?:of|for))|re-?land(?:s|ing)?|re-?appl(?:y|ies|ying)|take over|takes over)"
    r"(?:\s+(?:of|from))?\b[\s:]*(?P<refs>(?:(?:PRs?|pull requests?|and|,|&)\s*|\s|"
    r"https?://[^\s/]+/[\w.-]+/[\w.-]+/pull/\d{1,9}|(?:[\w.-]+/[\w.-]+)?#\d{1,9})+)",
    re.IGNORECASE,
)
_REF = re.compile(
    r"https?://(?P<host>[^/\s]+)/(?P<at>[\w.-]+/[\w.-]+)/pull/(?P<n>\d{1,9})"
    r"|(?P<repo>[\w.-]+/[\w.-]+)?#(?P<number>\d{1,9})"
)
_CLAUSE_ENDS = re.compile(r"[.;!?:()]\s|[;!?()]|\b(?:but|and)\b", re.IGNORECASE)
#: Before a verb it says that nothing is superseded, or that something could be: whoever does it says so plainly.
_NO_CLAIM = re.compile(
    r"(?:\b(?:not|never|no|nor|neither|without|cannot|could|can|might|may|would|if|whether|unless|instead|rather)\b"
    r"|n['\u2019]t\b)(?:\W+[\w'\u2019-]+){0,5}\W*$",
    re.IGNORECASE,
)


def names_reverted_pulls(body: str, repo: str) -> tuple[int, ...]:
    """Return the pull requests of `repo` that a description says it reverts: `Reverts owner/repo#N`."""
    return tuple(number for at, number in parse_body(body).reverts_pulls if at in ("", repo.casefold()))


def names_superseded_pulls(title: str, body: str, home: str) -> tuple[tuple[str, int], ...]:
    """Return the pull requests (`host/owner/repo`, folded, and number) that another one's title or description says
    it supersedes, replaces or lands again. A bare `#N` is one of `home`, the repository (`host/owner/repo`) whose pull
    request says so; `owner/repo#N` is on its host."""
    home = home.casefold()
    found = []
    for line in [title, *(line for line, _ in own_lines(body))]:
        for match in _SUCCEEDS.finditer(line):
            clause = _CLAUSE_ENDS.split(line[max(0, match.start() - _LONGEST) : match.start()])[-1]
            if _NO_CLAIM.search(clause) or line[match.end() :].lstrip(" *_").startswith("?"):
                continue
            for ref in _REF.finditer(match["refs"]):
                at = f"{ref['host']}/{ref['at']}" if ref["at"] else f"{home.partition('/')[0]}/{ref['repo']}"
                at = at if ref["at"] or ref["repo"] else home
                found.append((at.casefold(), int(ref["n"] or ref["number"])))
    return tuple(found)
