"""Whole files that a stack fetches: by their address, into the cache, checked against what the YAML states."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError, UnreachableError
from patchkit.core.lockfile import LockedInput, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

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


def file_input(
    step_id: str,
    file: RemoteFile,
    cache: Cache,
    *,
    image: str,
    at_hand: Callable[[LockedInput], bytes | None],
    open_http: Callable[[], Http],
) -> tuple[LockedInput, bytes | None, Unknown | None]:
    """The pin of a file, its bytes, and what keeps it unresolved: its server cannot be reached now.

    Raises `WrongContentError` where the server answers with other bytes than the YAML states, and
    ConfigError where the bytes at hand have another size than it states.
    """
    from patchkit.io.http import WrongContentError

    assert file.url is not None
    assert file.sha256 is not None
    pin = LockedInput(path=None, url=file.url, sha256=file.sha256)
    data = at_hand(pin)
    if data is None:
        try:
            destination = cache.blob_destination(file.sha256)
            open_http().stream_to(file.url, destination, sha256=file.sha256, size=file.size)
        except WrongContentError:
            raise
        except UnreachableError as error:
            command = f"patchkit lock --image {image}, where its server can be reached ({error})"
            return pin, None, Unknown(what=f"the content of {file.path}", command=command)
        data = cache.blob(file.sha256)
    assert data is not None
    assert hashlib.sha256(data).hexdigest() == file.sha256
    if file.size is not None and len(data) != file.size:
        raise ConfigError(
            f"step {step_id}: {file.path}: expected {file.size} bytes, the file of that sha256 has {len(data)}",
            hint="correct `file.size` in the stack",
        )
    return pin, data, None
