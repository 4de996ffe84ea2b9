"""The journal: what a change of a target is about to do, written before it does it.

One document in two phases. *prepare*: the temporary files it names may be there, the tree is
untouched. *commit*: they are all there, whole; from here on the change is carried out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from patchkit.core.canonical import sealed, unsealed, want, want_texts
from patchkit.core.errors import DriftError
from patchkit.core.ledger import Kept, kept_in, safe
from patchkit.core.ledger_text import kept_out

if TYPE_CHECKING:
    from patchkit.core.layout import Layout, Operation

PREPARE, COMMIT = "prepare", "commit"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file's change; `temp` is where its new form waits until the commit (None: it is removed)."""

    path: str
    before: Kept | None
    after: Kept | None
    temp: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """One change. `entries` are its files; `temp_dirs` the new directories where they wait, outermost
    first; `moves` the renames that put everything in place; `rmdirs` the directories that go,
    innermost first; `ledger` the sha256 of the new ledger's text, "" where there is to be none."""

    phase: str
    entries: tuple[Entry, ...]
    temp_dirs: tuple[str, ...]
    moves: tuple[tuple[str, str], ...]
    rmdirs: tuple[str, ...]
    ledger: str

    def committed(self) -> Journal:
        """The same change, past the commit point."""
        return replace(self, phase=COMMIT)


def begin(operations: list[Operation], layout: Layout, ledger: str) -> Journal:
    """The journal of a change that is laid out; `ledger` is the new ledger's text, "" for none."""
    return Journal(
        phase=PREPARE,
        entries=tuple(
            Entry(path=op.path, before=op.before, after=op.after, temp=layout.temps.get(op.path)) for op in operations
        ),
        temp_dirs=tuple(temp for temp, _ in layout.new_dirs),
        moves=layout.moves,
        rmdirs=layout.rmdirs,
        ledger=hashlib.sha256(ledger.encode("ascii")).hexdigest() if ledger else "",
    )


def render(journal: Journal) -> str:
    """The journal as the text of its file."""
    return sealed(
        {
            "format": FORMAT,
            "phase": journal.phase,
            "entries": [
                {"path": e.path, "before": kept_out(e.before), "after": kept_out(e.after), "temp": e.temp}
                for e in journal.entries
            ],
            "temp_dirs": list(journal.temp_dirs),
            "moves": [list(move) for move in journal.moves],
            "rmdirs": list(journal.rmdirs),
            "ledger": journal.ledger,
        }
    )


def parse(text: bytes, name: str) -> Journal:
    """Read a journal; `name` is its file's. Raises DriftError where it is not whole."""
    try:
        document = unsealed(text)
        if document.get("format") != FORMAT or document["phase"] not in (PREPARE, COMMIT):
            raise ValueError(f"expected a journal of format {FORMAT}, found {document.get('format')!r}")
        return _journal_in(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DriftError(
            f"{name}: it is no whole journal: {error}", hint="take the tree from the image anew and apply to that"
        ) from None


def _journal_in(document: dict[str, Any]) -> Journal:
    moves = [want_texts(move) for move in want(list, document["moves"])]
    return Journal(
        phase=document["phase"],
        entries=tuple(_entry_in(entry) for entry in want(list, document["entries"])),
        temp_dirs=tuple(safe(path) for path in want_texts(document["temp_dirs"])),
        moves=tuple((safe(source), safe(target)) for source, target in moves),
        rmdirs=tuple(safe(path) for path in want_texts(document["rmdirs"])),
        ledger=want(str, document["ledger"]),
    )


def _entry_in(entry: dict[str, Any]) -> Entry:
    temp = None if entry["temp"] is None else safe(want(str, entry["temp"]))
    before, after = kept_in(entry["before"]), kept_in(entry["after"])
    if (temp is None) != (after is None):
        raise ValueError("an entry's new form and its temporary file do not go together")
    return Entry(path=safe(want(str, entry["path"])), before=before, after=after, temp=temp)
