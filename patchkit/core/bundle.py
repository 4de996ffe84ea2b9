"""The program inside a bundle: `python3 k3.pyz apply|verify|revert|status|diff`, with nothing but python3.

The archive holds this package's core, the lock (`stack.lock.json`) and the bytes of every input
(`inputs/SHA256`). The default root is `/`: a bundle is run inside the container it is for.
"""

from __future__ import annotations

import gc
import hashlib
import sys

from patchkit.core import options
from patchkit.core.errors import ConfigError
from patchkit.core.program import Parser, emit, emit_diff, guarded
from patchkit.core.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from patchkit.core.lockfile import Lock, LockedStep
    from patchkit.core.operate import Request, Target
    from patchkit.core.report import Report
    from patchkit.core.roots import Caller

LOCK = "stack.lock.json"
COMMANDS = {
    "apply": "apply the stack in this bundle, all or nothing",
    "verify": "compare the tree with its ledger and the lock in this bundle",
    "revert": "put the pristine files back",
    "status": "what is on disk, step by step",
    "diff": "print the stack as one unified diff",
}


class Bundle:
    """The archive that is running: `read` returns the bytes of one of its members (OSError if absent)."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read

    def lock(self) -> Lock:
        """The lock. Raises ConfigError where it was tampered with."""
        from patchkit.core.lockfile import parse

        return parse(self._read(LOCK), f"{LOCK} in the bundle")

    def read_input(self, step: LockedStep) -> bytes:
        """The bytes of a step's input, checked against the lock. Raises ConfigError."""
        sha256 = step.input.sha256 if step.input is not None else ""
        hint = "make the bundle anew: patchkit bundle"
        try:
            data = self._read(f"inputs/{sha256}")
        except OSError:
            raise ConfigError(f"step {step.id}: the bundle does not hold its input {sha256}", hint=hint) from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ConfigError(f"step {step.id}: its input in the bundle was changed", hint=hint)
        return data


def main(
    words: list[str], read: Callable[[str], bytes], prefix: str = "", target: tuple[str, ...] | None = None
) -> int:
    """Run one command of the bundle whose members `read` returns; the exit code. Where a client runs it inside
    a container, `prefix` (`container:ID:`) stands before the target's path in what it prints, and `target` is what
    the person typed to the client to name it."""
    command = words[0] if words else ""
    code = guarded(lambda: _run(command, words[1:], Bundle(read), prefix, target), command, as_json="--json" in words)
    gc.freeze()  # or all that was loaded is looked through once more at the end
    return code


def _run(command: str, words: list[str], bundle: Bundle, prefix: str, given: tuple[str, ...] | None) -> int:
    program = ("python3", sys.argv[0]) if given is None else ("patchkit",)
    if command in ("", "-h", "--help"):
        lock = bundle.lock()
        print(f"A patchkit bundle: the stack of {lock.image.name}, version {lock.version}, lock {lock.digest}\n")
        print(f"usage: {' '.join(program)} COMMAND [options]\n")
        print("\n".join(f"  {name:<8} {summary}" for name, summary in COMMANDS.items()))
        return 0
    if command not in COMMANDS:
        names = ", ".join(COMMANDS)
        raise ConfigError(
            f"there is no command {command!r}; the commands are: {names}", hint=f"{' '.join(program)} --help"
        )
    parser = Parser(f"{' '.join(program)} {command}", COMMANDS[command])
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout, and nothing else")
    options.target(parser, root="/")
    if command == "diff":
        options.only(parser)
    elif command == "apply":
        options.applying(parser)
    elif command == "revert":
        options.force(parser)
    args = parser.parse_args(words)
    from patchkit.core.roots import Caller

    caller = Caller(program=program, target=options.given(args) if given is None else given)
    return _work(command, args, bundle, prefix, caller)


def _work(command: str, args: Namespace, bundle: Bundle, prefix: str, caller: Caller) -> int:
    from patchkit.core.roots import open_root

    lock = bundle.lock()
    request = options.request(lock, bundle.read_input, args)
    root = "/" if args.root is None else args.root
    with open_root(lock, options.choice(args, caller), root, managed=False, prefix=prefix) as target:
        done = perform(command, request, target, force=getattr(args, "force", False))
    return done.emit(as_json=args.json)


class Done(Value):
    """What a command found or did; `text` is the diff of `diff`, None for every other command."""

    report: Report
    text: bytes | None = None

    def emit(self, *, as_json: bool) -> int:
        """Print it, and return its exit code."""
        if self.text is not None:
            return emit_diff(self.report, self.text, as_json=as_json)
        return emit(self.report, as_json=as_json)


def perform(command: str, request: Request, target: Target, *, force: bool = False) -> Done:
    """Carry out one of the COMMANDS on an open target."""
    from patchkit.core import operate

    if command == "apply":
        return Done(report=operate.apply(request, target))
    if command == "verify":
        return Done(report=operate.verify(request.lock, target))
    if command == "revert":
        return Done(report=operate.revert(request.lock.image.name, target, force=force, lock=request.lock))
    from patchkit.core import inspect

    if command == "status":
        return Done(report=inspect.status(request, target))
    report, text = inspect.diff(request, target)
    return Done(report=report, text=text)


def reader() -> Callable[[str], bytes]:
    """How to read members of the archive that this very program was started from."""
    import zipimport

    archive = zipimport.zipimporter(sys.path[0])
    return archive.get_data
