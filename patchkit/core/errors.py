"""The errors a user can meet: one class a kind, each with its exit code, its JSON code and a hint.

Every layer raises these and nothing else on purpose; the command layer alone turns them into
messages and exit codes. Whatever is not one of these is a bug of patchkit's and is reported as one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from patchkit.core.report import Report


class PatchkitError(Exception):
    """A failure that a person can act on.

    `problems` holds one message a problem found (at least one; `str(error)` joins them), each
    naming the file, the step, what was expected and what was found. `hint` is the next command
    to type, or empty. `also`, the last of the problems, merely inform: no hint is about them. `output`
    is what a failed command printed; `report` says how far the run came, where that is known.
    """

    report: Report | None = None

    exit_code = 1
    code = "bug"
    meaning = "unexpected failure: a bug of patchkit's; the message says how to report it"

    def __init__(self, *problems: str, hint: str = "", output: str = "") -> None:
        super().__init__("\n".join(problems))
        self.problems: tuple[str, ...] = problems
        self.also: tuple[str, ...] = ()
        self.hint = hint
        self.output = output

    def add(self, *also: str) -> None:
        """Say more, without a hint about it."""
        self.problems, self.also = (*self.problems, *also), (*self.also, *also)
        self.args = ("\n".join(self.problems),)


class ConfigError(PatchkitError):
    """Usage or configuration: a bad file or option, a lock that is stale, tampered or unresolved."""

    exit_code = 2
    code = "config"
    meaning = "usage or configuration; a lock that is stale, tampered or unresolved"


class ConflictError(PatchkitError):
    """A step does not fit the tree. Nothing was changed."""

    exit_code = 3
    code = "conflict"
    meaning = "conflict: a step does not fit the tree; nothing was changed"


class DriftError(PatchkitError):
    """The target is not what the ledger says: somebody else changed a file, or the ledger itself."""

    exit_code = 4
    code = "drift"
    meaning = "drift: a patched file or the ledger was changed by somebody else"


class IdentityError(PatchkitError):
    """The root is not the image that was named."""

    exit_code = 4
    code = "identity"
    meaning = "identity mismatch: the root is not the image that was named"


class FindingError(PatchkitError):
    """Something that a person must look at; whatever could be done was done."""

    exit_code = 5
    code = "finding"
    meaning = "findings that need a person"


class UnreachableError(PatchkitError):
    """A package index, forge, registry or engine cannot be reached or refuses."""

    exit_code = 6
    code = "unreachable"
    meaning = "engine, registry, forge or index unreachable or refusing"


class BusyError(PatchkitError):
    """Another run holds the target."""

    exit_code = 7
    code = "busy"
    meaning = "target busy: another run holds it"


class RefusedByMachineError(PatchkitError):
    """The target or the machine refused: space, permission, a read-only root, a missing program."""

    exit_code = 8
    code = "environment"
    meaning = "environment: the target or machine refused (space, permission, read-only, missing program)"


INTERRUPTED_EXIT_CODE = 130

ERROR_CLASSES: tuple[type[PatchkitError], ...] = (
    PatchkitError,
    ConfigError,
    ConflictError,
    DriftError,
    IdentityError,
    FindingError,
    UnreachableError,
    BusyError,
    RefusedByMachineError,
)
