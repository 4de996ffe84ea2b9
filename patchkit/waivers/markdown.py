"""Text as Markdown that shows exactly that text, in a paragraph, a list item or a table's cell."""

from __future__ import annotations

import re
from urllib.parse import quote

#: What has a meaning somewhere in a line of GitHub's Markdown.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>|~&$]")
#: What has one at the start of a block only: headings, lists, quotes, rules, fences, a table's delimiter.
_LEADING = re.compile(r"(?:[-+=#]|[0-9]+(?=[.)]))")
_ADDRESS = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")
_PLAIN = re.compile(r"[A-Za-z0-9._/@:#=+,\[\]() -]*[A-Za-z0-9._/@:#=+,\[\]()-]")
_SAFE_IN_ADDRESS = "-._~:/?#@!$'*+,;=%"


class Markdown(str):
    """Text that is Markdown already: the template engine leaves it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """The mark by which the template engine knows it."""
        return self


def escape(text: str) -> Markdown:
    """`text` on one line, with nothing in it that Markdown or HTML would read as markup."""
    line = " ".join("".join(_visible(char) for char in text).split())
    line = _SPECIAL.sub(lambda match: f"\\{match[0]}", line)
    line = _ADDRESS.sub(lambda match: f"{match[1] or match[3]}\\{match[2] or match[4]}", line)
    start = _LEADING.match(line)
    if start and start[0].isdigit():
        line = f"{start[0]}\\{line[start.end() :]}"
    elif start:
        line = f"\\{line}"
    return Markdown(line)


def _visible(char: str) -> str:
    """A character as people can see it: what turns text around or hides it is spelled out."""
    if char.isprintable() or char.isspace():
        return char
    return f"U+{ord(char):04X}"


def code(text: str) -> Markdown:
    """`text` as code where that needs no tricks, else escaped."""
    simple = _PLAIN.fullmatch(text) and text == " ".join(text.split())
    return Markdown(f"`{text}`") if simple else escape(text)


def link(label: str, address: str) -> Markdown:
    """A link to an https:// address; any other address is shown as text."""
    if not address.startswith("https://"):
        return escape(f"{label} ({address})")
    target = quote(address, safe=_SAFE_IN_ADDRESS)
    return Markdown(f"[{escape(label)}]({target})")


def fence(text: str) -> Markdown:
    """Text inside a fenced block, unescaped. Raises ValueError where it could end the fence."""
    if "```" in text:
        raise ValueError("a fenced block cannot hold three backticks")
    return Markdown(text)
