"""The terminal: the only module that imports the terminal library. NO_COLOR is the library's own affair."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: A cell: its text and a style name of the terminal library ("" for none).
Cell = tuple[str, str]


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """A spinner with `text` and the time passed, on stderr."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(text)
        yield


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table on stdout."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text, style=style) for text, style in row))
    Console(highlight=False).print(table)


def print_lines(lines: Sequence[Cell]) -> None:
    """Print styled lines on stdout, as they are."""
    console = Console(highlight=False, soft_wrap=True)
    for text, style in lines:
        console.print(Text(text, style=style))
