"""`run` steps: a command on the running machine. No shell, a time limit, and evidence before and after.

The one place of core that starts processes. A command inherits the lock on the target: where patchkit is
killed and its command goes on, the next run finds the target busy instead of changing it meanwhile.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchkit.core.errors import RefusedByMachineError
from patchkit.core.tree import REGULAR, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.core.site import Site

_OUTPUT_LIMIT = 1 << 20
_LINES_SHOWN = 20
_GPU = "/dev/kfd"
_ROUTE_UP, _ROUTE_REJECTS = 0x1, 0x200
#: IPv6 addresses that every interface has a route for, connected or not: of its own link, and multicast.
_NOT_FURTHER = ("fe8", "fe9", "fea", "feb", "ff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A command that ended: `status` is its exit status (negative: the signal; None: it took too long and
    was killed), `output` the end of what it printed on both streams."""

    status: int | None
    output: str
    seconds: float

    @property
    def why(self) -> str:
        """How it ended, in words."""
        if self.status is None:
            return f"it was killed after its timeout of {self.seconds:.0f} s"
        if self.status < 0:
            return f"signal {-self.status} ended it"
        return f"exit status {self.status}"

    @property
    def last_lines(self) -> str:
        """The end of its output, each line on a line of its own, for an error message; may be empty."""
        return "".join(f"\n    {line}" for line in self.output.splitlines()[-_LINES_SHOWN:])


def execute(argv: list[str], site: Site, *, env: Mapping[str, str], timeout: float) -> Ended:
    """Run `argv` in the site, `env` added to the environment. Raises RefusedByMachineError where it cannot start."""
    begun = time.monotonic()
    try:
        process = subprocess.Popen(  # noqa: S603 - the stack says what to run
            argv,
            cwd=site.path,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(site.fd,),
        )
    except OSError as error:
        raise RefusedByMachineError(
            f"{argv[0]}: cannot be started: {error.strerror}", hint="install it on this machine, or correct `argv`"
        ) from error
    with process:
        try:
            output = _output(process, begun + timeout)
            status = process.wait(timeout=max(0.0, begun + timeout - time.monotonic()))
        except subprocess.TimeoutExpired as late:
            _kill(process)
            output, status = late.output if isinstance(late.output, bytes) else output, None
        except BaseException:
            _kill(process)
            raise
    return Ended(status=status, output=output.decode("utf-8", "backslashreplace"), seconds=time.monotonic() - begun)


def _output(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """The end of what the process prints until it ends. Raises TimeoutExpired with what came so far."""
    assert process.stdout is not None
    stream, tail = process.stdout.fileno(), bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise subprocess.TimeoutExpired(process.args, 0, bytes(tail))
        if select.select([stream], [], [], min(left, 0.2))[0]:
            chunk = os.read(stream, 1 << 16)
            if not chunk:
                return bytes(tail)
            tail += chunk
            del tail[:-_OUTPUT_LIMIT]
        elif process.poll() is not None:  # something that it left behind keeps its output open
            return bytes(tail)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def shown(argv: list[str]) -> str:
    """A command as a person would type it."""
    return " ".join(shlex.quote(word) for word in argv)


def lacking(needs: list[str], env: Mapping[str, str]) -> list[str]:
    """Which of a step's `needs` this machine does not have, each with how that is known."""
    path = env.get("PATH", os.environ.get("PATH"))
    found = []
    for need in needs:
        if need == "gpu":
            found += [] if os.path.exists(_GPU) else [f"gpu (there is no {_GPU})"]
        elif need == "network":
            found += [] if has_network() else ["network (no route leaves this machine)"]
        elif shutil.which(need, path=path) is None:
            found.append(f"{need} (it is not on PATH)")
    return found


def has_network(proc: str = "/proc/net") -> bool:
    """Whether the kernel has a route that leaves this machine; nothing is sent. That somebody answers there
    the command itself finds out. A system that does not tell its routes counts as connected."""
    routes = [_routes(f"{proc}/route"), _routes(f"{proc}/ipv6_route")]
    if routes == [None, None]:
        return True
    four, six = (rows or [] for rows in routes)
    return any(_leaves(row[0], row[3]) for row in four if len(row) > 3 and row[0] != "Iface") or any(
        _leaves(row[9], row[8]) and not row[0].startswith(_NOT_FURTHER) for row in six if len(row) > 9
    )


def _routes(path: str) -> list[list[str]] | None:
    """The rows of one of the kernel's tables of routes, in words; None where it has none."""
    try:
        with open(path, encoding="ascii") as stream:
            return [line.split() for line in stream]
    except OSError:
        return None


def _leaves(interface: str, flags: str) -> bool:
    return interface != "lo" and int(flags, 16) & _ROUTE_UP != 0 and int(flags, 16) & _ROUTE_REJECTS == 0


def holds(question: dict[str, Any], action: dict[str, Any], site: Site) -> bool:
    """Whether a question's answer is yes: a file is there (with that content), or a command ends with 0. One
    that cannot be started does not."""
    if question.get("argv") is not None:
        try:
            ended = execute(question["argv"], site, env=dict(action["env"]), timeout=action["timeout"])
        except RefusedByMachineError:
            return False
        return ended.status == 0
    if question.get("sha256") is None:
        try:
            return site.lstat(question["path"]) is not None
        except UnreadableError:
            return False
    try:
        state = site.read(question["path"])
    except UnreadableError:
        return False
    return state is not None and state.kind == REGULAR and state.sha256 == question["sha256"]


def asked(question: dict[str, Any]) -> str:
    """A question in words: what must hold."""
    if question.get("argv") is not None:
        return f"`{shown(question['argv'])}` ends with 0"
    content = f" with sha256 {question['sha256'][:12]}…" if question.get("sha256") else ""
    return f"{question['path']} is there{content}"


def proofs(action: dict[str, Any]) -> list[dict[str, Any]]:
    """What must hold after the command: `creates` and `check`."""
    made = [{"path": action["creates"]}] if action["creates"] is not None else []
    return made + ([action["check"]] if action["check"] is not None else [])


def is_done(action: dict[str, Any], record: dict[str, Any] | None, site: Site) -> bool:
    """Whether the command's effect is there, by evidence: `unless`, else `creates` and `check`; where
    the step names none of them, the ledger's record of the same command."""
    if action["unless"] is not None:
        return holds(action["unless"], action, site)
    same = record is None or (record["action"] == action and record["state"] != "begun")
    if not proofs(action):
        return record is not None and same
    if not same and not (record is not None and record["action"] == action and action["check"] is not None):
        return False
    return all(holds(proof, action, site) for proof in proofs(action))


def perform(step_id: str, action: dict[str, Any], site: Site) -> Ended:
    """Run the command and hold it to its promises. Raises RefusedByMachineError."""
    try:
        ended = execute(action["argv"], site, env=dict(action["env"]), timeout=action["timeout"])
    except RefusedByMachineError as error:
        raise RefusedByMachineError(f"step {step_id} (run): {error}", hint=error.hint) from error
    if ended.status != 0:
        raise RefusedByMachineError(
            f"step {step_id} (run): `{shown(action['argv'])}` failed: {ended.why}{ended.last_lines}",
            hint=f"{'see its output above; ' if ended.last_lines else ''}correct the step or the machine,"
            " then run the same command again",
            output=ended.output,
        )
    broken = [proof for proof in proofs(action) if not holds(proof, action, site)]
    if broken:
        raise RefusedByMachineError(
            *(
                f"step {step_id} (run): `{shown(action['argv'])}` ended with 0, but it does not hold that {asked(proof)}"
                for proof in broken
            ),
            hint="correct the step's command, or what it promises (`creates`, `check`)",
            output=ended.output,
        )
    return ended


def undo(step_id: str, action: dict[str, Any], site: Site) -> str | None:
    """Run the step's `revert`; why what the command did is still there, or None where it is undone."""
    if action["revert"] is None:
        return f"step {step_id} (run): what its command did is not undone: the step names no `revert`"
    try:
        ended = execute(action["revert"], site, env=dict(action["env"]), timeout=action["timeout"])
    except RefusedByMachineError as error:
        return f"step {step_id} (run): what its command did is not undone: {error}"
    if ended.status == 0:
        return None
    command = shown(action["revert"])
    return f"step {step_id} (run): what its command did is not undone: `{command}`: {ended.why}{ended.last_lines}"
