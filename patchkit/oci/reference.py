"""The names of images: HOST/REPOSITORY:TAG@DIGEST, with the engine's short forms."""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchkit.core.errors import ConfigError

HUB = "docker.io"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An image's name, all of it: `tag` and `digest` are empty where they are not given."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Return the reference that `text` is, as the engine reads it. Raises ConfigError."""
        name, _, digest = text.partition("@")
        head, slash, rest = name.partition("/")
        if not (slash and ("." in head or ":" in head or head == "localhost")):
            head, rest = HUB, name
        host = HUB if head in (HUB, f"index.{HUB}") else head
        repository, _, tag = rest.partition(":")
        if host == HUB and "/" not in repository:
            repository = f"library/{repository}"
        faults = [
            f"{what} {found!r}"
            for what, found, pattern in (
                ("host", host, _HOST),
                ("repository", repository, _REPOSITORY),
                ("tag", tag, _TAG),
                ("digest", digest, _DIGEST),
            )
            if not pattern.fullmatch(found) and (found or what in ("host", "repository") or text.endswith((":", "@")))
        ]
        if faults:
            raise ConfigError(
                f"{text}: expected an image like registry.example/team/name:tag, found the {', the '.join(faults)}",
                hint="a repository has lower-case letters, digits and . _ - only",
            )
        return cls(host=host, repository=repository, tag=tag, digest=digest)

    @property
    def name(self) -> str:
        """The host and repository."""
        return f"{self.host}/{self.repository}"

    @property
    def wanted(self) -> str:
        """What a registry is asked for: the digest, else the tag, else `latest`."""
        return self.digest or self.tag or "latest"

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")
