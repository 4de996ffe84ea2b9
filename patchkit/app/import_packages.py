"""Translates `pip install` lines into pins: what is not pinned stays null."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from patchkit.app.import_types import Draft
from patchkit.model import rules, shell_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.app.import_patches import Made
    from patchkit.model.shell_options import Parsed
    from patchkit.model.shellscript import Command

_SHORT = "iercftbC"
_LONG = (
    *(
        "index-url",
        "extra-index-url",
        "find-links",
        "requirement",
        "constraint",
        "editable",
        "target",
        "prefix",
        "root",
    ),
    *("trusted-host", "upgrade-strategy", "progress-bar", "root-user-action", "timeout", "retries", "cache-dir"),
    *("no-binary", "only-binary", "platform", "python-version", "python", "config-settings", "index-strategy", "proxy"),
    *("cert", "log", "report", "src", "abi", "implementation", "exists-action", "use-feature"),
)
_REFUSED = {
    "-r": "a requirements file",
    "--requirement": "a requirements file",
    "-e": "an editable install",
    "--editable": "an editable install",
    "-t": "another folder",
    "--target": "another folder",
    "--prefix": "another folder",
    "--root": "another folder",
    "--user": "the user's own folder",
    "-f": "a folder or page of links",
    "--find-links": "a folder or page of links",
}
_LOOSE: Mapping[str, str] = {
    "--trusted-host": "TLS certificates are always checked",
    "--pre": "a pin names its version",
    "-U": "a pin names its version",
    "--upgrade": "a pin names its version",
    "--force-reinstall": "what is installed decides, by its metadata",
    "-I": "what is installed decides, by its metadata",
    "--ignore-installed": "what is installed decides, by its metadata",
    "--no-deps": "a pip step never moves a package that it does not name",
    "--extra-index-url": "with two indexes nothing says which one a package comes from: `index` waits for one",
    "-c": "a pip step names what it installs, exactly",
    "--constraint": "a pip step names what it installs, exactly",
}
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._,-]+\])?)\s*(.*)", re.DOTALL)
_FIX = "write a `pip` step by hand: NAME==VERSION and the index it comes from"


def pip_words(command: Command) -> tuple[str, int] | None:
    """The subcommand of `pip`, `python -m pip` or `uv pip`, and where its words start; None for anything else."""
    argv = command.argv
    texts = [word.text for word in argv]
    program = command.program or ""
    start = 0
    if re.fullmatch(r"pip[0-9.]*", program):
        start = 1
    elif re.fullmatch(r"python[0-9.]*", program) and "-m" in texts[:4]:
        at = texts.index("-m")
        start = at + 2 if texts[at + 1 : at + 2] == ["pip"] else 0
    elif program == "uv" and texts[1:2] == ["pip"]:
        start = 2
    if not start:
        return None
    while start < len(argv) and (argv[start].text or "").startswith("-"):
        start += 1
    return (texts[start] or "" if start < len(argv) else ""), start + 1


def translate(command: Command, start: int, made: Made) -> None:
    """Make one `pip` step of a `pip install` command."""
    shown = command.raw.split("\n", 1)[0]
    parsed = shell_options.parse(command.argv[start:], short=_SHORT, long=_LONG)
    refused = next((option for option in parsed.options if option.name in _REFUSED), None)
    if refused is not None:
        made.problem(command, "packages", f"`{shown}` installs from or into {_REFUSED[refused.name]}", fix=_FIX)
        return
    requirements: list[Any] = []
    for word in parsed.operands:
        if word.text is None:
            made.problem(command, "not-constant", f"`{shown}`: {word.raw} is not constant: {word.why}")
            return
        requirement = _requirement(word.text, command, made)
        if requirement is None:
            made.problem(command, "packages", f"`{shown}`: {word.text} is no name with a version", fix=_FIX)
            return
        requirements.append(requirement)
    if not requirements:
        return
    body: dict[str, Any] = {"requirements": requirements}
    index = _index(parsed, command, made)
    if index != "default":
        body["index"] = index
    for option in parsed.options:
        if option.name in _LOOSE:
            named = f"{option.name} {option.value}" if option.value and option.name not in ("-U", "-I") else option.name
            made.drop(command, named, _LOOSE[option.name])
    first = requirements[0] if isinstance(requirements[0], str) else requirements[0]["name"]
    hint = re.sub(r"[^a-z0-9]+", "-", re.split(r"[\[=]", first)[0].lower()).strip("-")
    made.drafts.append(
        Draft(lines=(command.calls[0] if command.calls else command.line,), body={"pip": body}, hint=hint, what=shown)
    )


def _requirement(text: str, command: Command, made: Made) -> Any:
    """`NAME==VERSION` as it is, `NAME` and looser forms with a null version; None for what is no name."""
    text = text.replace(" ", "")
    if rules.PINNED.holds(text):
        return text
    match = _NAME.fullmatch(text)
    if match is None or not rules.PROJECT.holds(match[1]):
        return None
    if match[2] and not re.fullmatch(r"(?:[<>=!~]=?|===)[^;@]*", match[2]):
        return None
    if match[2]:
        made.drop(command, f"the range {text}", "a stack pins one version: it waits for that")
    return {"name": match[1], "version": None}


def _index(parsed: Parsed, command: Command, made: Made) -> str | None:
    """The one index that is named; `default` where none is, None where it is not known or not allowed."""
    if parsed.has("--extra-index-url"):
        return None
    option = parsed.last("-i", "--index-url", "--index", "--default-index")
    if option is None:
        return "default"
    if option.value is not None and rules.INDEX.holds(option.value):
        return option.value
    made.drop(
        command, f"the index {option.value or 'of this line'}", "an index is an https:// address that is constant"
    )
    return None
