"""Whole files that a stack fetches: by their address, into the cache, checked against what the YAML states."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError, PatchkitError
from patchkit.core.lockfile import LockedInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patchkit.io.http import Http
    from patchkit.model.stack import Packages, RemoteFile
    from patchkit.sources.cache import Cache


def pinned(pip: Packages) -> tuple[str | dict[str, str | None], ...]:
    """The requirements as `NAME==VERSION`; one whose version is not known stays a name."""
    return tuple(
        r
        if isinstance(r, str)
        else {"name": r.name, "version": None}
        if r.version is None
        else f"{r.name}=={r.version}"
        for r in pip.requirements
    )


@contextmanager
def naming(who: str, image: str) -> Iterator[None]:
    """Let every error say `who` met it, and what to type once its cause is gone."""
    try:
        yield
    except PatchkitError as error:
        then = f"then: patchkit lock --image {image}"
        problems = (f"{who}: {problem}" for problem in error.problems)
        raise type(error)(*problems, hint=f"{error.hint}; {then}" if error.hint else then) from error


def file_input(
    step_id: str,
    file: RemoteFile,
    cache: Cache,
    *,
    image: str,
    at_hand: Callable[[LockedInput], bytes | None],
    open_http: Callable[[], Http],
) -> tuple[LockedInput, bytes]:
    """The pin of a file, and its bytes.

    Raises UnreachableError where its server does not answer, or with other bytes than the YAML states; what came
    until then is gone on with the next time. ConfigError where the bytes at hand have another size than it states.
    """
    assert file.url is not None
    assert file.sha256 is not None
    pin = LockedInput(path=None, url=file.url, sha256=file.sha256)
    data = at_hand(pin)
    if data is None:
        destination, partial = cache.blob_destination(file.sha256), cache.partial(file.url)
        with naming(f"step {step_id} (file): {file.path}", image):
            open_http().stream_to(file.url, destination, sha256=file.sha256, size=file.size, partial=partial)
        data = cache.blob(file.sha256)
    assert data is not None
    assert hashlib.sha256(data).hexdigest() == file.sha256
    if file.size is not None and len(data) != file.size:
        raise ConfigError(
            f"step {step_id}: {file.path}: expected {file.size} bytes, the file of that sha256 has {len(data)}",
            hint="correct `file.size` in the stack",
        )
    return pin, data
