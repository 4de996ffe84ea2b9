"""A shell script as frozen typed objects: every command in the order in which it runs, with its words.

Words are resolved as far as the file alone says what they are: variables it assigns, quotes,
functions called with constant arguments, `cd`, here-documents and -strings, redirections, pipelines,
`bash -c`. What depends on anything else is marked, with the reason. The script is never run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError
from patchkit.model.shell_heredocs import ShellSyntaxError
from patchkit.model.shell_scope import State
from patchkit.model.shell_types import Command, Condition, Content, Disk, Redirect, Remark, Script, Word

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Command", "Condition", "Content", "Disk", "Redirect", "Remark", "Script", "Word", "parse", "readable"]

MAX_BYTES = 32 * 1024 * 1024
_SHEBANG = re.compile(rb"#!\s*(\S*/)?(env\s+(-S\s+)?)?(\S*/)?(?P<name>\S*)")
_HEREDOC = re.compile(r"(?:<\s*)?__patchkit_heredoc_\d+__")
_SHELLS = (b"bash", b"sh", b"dash", b"ksh", b"zsh")


def parse(
    data: bytes,
    name: str,
    *,
    path: str = "",
    cwd: str | None = None,
    given: Mapping[str, str] | None = None,
    disk: Disk | None = None,
) -> Script:
    """Read a shell script, called `name` in messages.

    `path` is where it lies (what `$0` is), `cwd` the directory it is started in, `given` the values of
    variables that the script itself does not fix, `disk` the files beside it. Raises ConfigError,
    which names every place that is no shell, for what is no script that bash would read.
    """
    from patchkit.model.shell_walk import Walker, walk_uncalled

    _check(data, name)
    walker = Walker(State(cwd=cwd), path or name, dict(given or {}), disk)
    try:
        walker.text(data.decode("utf-8", "surrogateescape"), 0)
        walk_uncalled(walker)
    except ShellSyntaxError as error:
        problems = [f"{name}:{line}: {readable(why)}" for line, why in error.places]
        raise ConfigError(*problems, hint=f"see what bash says: bash -n {name}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deep to be read", hint="simplify the script") from None
    remarks = tuple(sorted(set(walker.remarks), key=lambda remark: remark.line))
    return Script(
        name=name,
        commands=tuple(walker.commands),
        functions=tuple(sorted(walker.functions)),
        remarks=remarks,
        assumed=tuple(sorted(walker.assumed.items())),
    )


def readable(message: str) -> str:
    """A message on one line, with here-documents as the script has them, not as they are called while it is read."""
    return re.sub(r"\s*\n\s*", " ", _HEREDOC.sub("<<…", message))


def _check(data: bytes, name: str) -> None:
    """Refuse what is plainly no shell script."""
    hint = "name a shell script"
    if not data.strip():
        raise ConfigError(f"{name}: it is empty", hint=hint)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{name}: larger than {MAX_BYTES // 1024 // 1024} MiB: no script is that long", hint=hint)
    at = data.find(b"\0")
    if at >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise ConfigError(f"{name}:{line}: it is binary: it holds a NUL byte", hint=hint)
    shebang = _SHEBANG.match(data)
    if shebang is not None and shebang["name"] and shebang["name"] not in _SHELLS:
        found = shebang["name"].decode("utf-8", "replace")
        raise ConfigError(f"{name}:1: it is a script for {found}, not for a shell", hint=hint)
    first = data.split(b"\n", 1)[0]
    if first.endswith(b"\r"):
        raise ConfigError(
            f"{name}:1: its lines end in CR LF, which bash does not read", hint=f"convert it: sed -i 's/\\r$//' {name}"
        )
