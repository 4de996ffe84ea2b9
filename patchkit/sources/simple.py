"""The pages of a package index (JSON of PEP 691, HTML of PEP 503) and the choice of a release's file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from patchkit.core.errors import ConfigError, UnreachableError

if TYPE_CHECKING:
    from packaging.tags import Tag

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1, */*;q=0.01"
WHEEL, SDIST = "wheel", "sdist"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "ppc64le": "ppc64le", "s390x": "s390x"}
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file of a release: `kind` is `WHEEL` or `SDIST`, `size` in bytes (None: the index does not say)."""

    name: str
    kind: str
    url: str
    sha256: str | None
    size: int | None
    yanked: bool
    version: Version
    tags: frozenset[Tag] = frozenset()


def machine_of(platform: str | None) -> str:
    """Return the machine's name in wheel tags for `linux/ARCH[/VARIANT]` (None: linux/amd64)."""
    system, _, rest = (platform or "linux/amd64").partition("/")
    machine = _MACHINES.get(rest.split("/")[0])
    if system != "linux" or machine is None:
        known = ", ".join(f"linux/{name}" for name in _MACHINES)
        raise ConfigError(f"platform {platform!r}: expected one of {known}")
    return machine


def parse_page(body: bytes, content_type: str, url: str) -> list[Artifact]:
    """Return the wheels and sdists (.tar.gz) that an index page at `url` lists.

    Raises `UnreachableError` for a page that is neither JSON nor HTML of an index.
    """
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind.endswith("json"):
            return _from_json(json.loads(body), url)
        if kind in ("text/html", "application/vnd.pypi.simple.v1+html", ""):
            return _from_html(body.decode("utf-8", "replace"), url)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreachableError(
            f"{urlsplit(url).hostname}: expected an index page, found one that cannot be read ({type(error).__name__})",
            hint="check the index URL that is configured for pip: pip config list",
        ) from error
    raise UnreachableError(
        f"{urlsplit(url).hostname}: expected an index page, found content of type {kind}",
        hint="check the index URL that is configured for pip: pip config list",
    )


def _from_json(page: dict[str, object], url: str) -> list[Artifact]:
    files = page["files"]
    if not isinstance(files, list):
        raise TypeError("files")
    found = []
    for entry in files:
        size = entry.get("size")
        found.append(
            _artifact(
                entry["filename"],
                urljoin(url, entry["url"]),
                entry.get("hashes", {}).get("sha256"),
                size if isinstance(size, int) and size > 0 else None,
                yanked=bool(entry.get("yanked", False)),
            )
        )
    return [artifact for artifact in found if artifact is not None]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base: str | None = None
        self.links: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        href = values.get("href")
        if href and tag == "base" and self.base is None:
            self.base = href
        if href and tag == "a":
            self.links.append((href, "data-yanked" in values))


def _from_html(text: str, url: str) -> list[Artifact]:
    page = _Links()
    page.feed(text)
    page.close()
    base = urljoin(url, page.base or "")
    found = []
    for href, yanked in page.links:
        address, fragment = urldefrag(urljoin(base, href))
        sha256 = next((part[7:] for part in fragment.split("&") if part.startswith("sha256=")), None)
        name = unquote(urlsplit(address).path.rpartition("/")[2])
        found.append(_artifact(name, address, sha256, None, yanked=yanked))
    return [artifact for artifact in found if artifact is not None]


def _artifact(name: str, url: str, sha256: object, size: int | None, *, yanked: bool) -> Artifact | None:
    """Return the artifact, or None for a file of another kind (an egg, an installer, a signature)."""
    checked = sha256.lower() if isinstance(sha256, str) and SHA256.fullmatch(sha256.lower()) else None
    tags: frozenset[Tag] = frozenset()
    try:
        if name.endswith(".whl"):
            _, version, _, tags = parse_wheel_filename(name)
        elif name.endswith(".tar.gz"):
            _, version = parse_sdist_filename(name)
        else:
            return None
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    kind = WHEEL if tags else SDIST
    return Artifact(name=name, kind=kind, url=url, sha256=checked, size=size, yanked=yanked, version=version, tags=tags)


def of_version(artifacts: list[Artifact], version: Version) -> list[Artifact]:
    """Return the artifacts of `version`; without a local part (`+cpu`), else of the one local build there is.

    Raises `ConfigError` where several local builds of the version stand for choice.
    """
    exact = [artifact for artifact in artifacts if artifact.version == version]
    if exact or version.local:
        return exact
    builds = [artifact for artifact in artifacts if Version(artifact.version.public) == version]
    names = sorted({str(artifact.version) for artifact in builds})
    if len(names) > 1:
        raise ConfigError(f"{version}: expected one build, found {len(names)}", hint=f"name one: {', '.join(names)}")
    return builds


def ranked(artifacts: list[Artifact], machine: str, python: tuple[int, int] | None) -> list[Artifact]:
    """Return the artifacts of one release that fit, best first: the wheel, then the sdist; yanked ones only alone.

    `python` is the image's Python (None: not known, then the newest one's wheel counts as fitting).
    """
    usable = [artifact for artifact in artifacts if not artifact.yanked] or artifacts
    scores = {
        artifact.name: max((_score(tag, machine, python) for tag in artifact.tags), default=(0,)) for artifact in usable
    }
    wheels = [a for a in usable if a.kind == WHEEL and scores[a.name][0] > 0]
    sdists = [a for a in usable if a.kind == SDIST]
    return sorted(wheels, key=lambda a: (scores[a.name], a.name), reverse=True) + sdists


def _score(tag: Tag, machine: str, python: tuple[int, int] | None) -> tuple[int, ...]:
    """Return how well a wheel's tag fits: (0,) not at all; made for the machine before `any`, newer before older."""
    native = tag.platform.endswith(f"_{machine}") and tag.platform.startswith(("manylinux", "linux_"))
    match = re.fullmatch(r"(cp|py)(\d)(\d*)", tag.interpreter)
    if not (native or tag.platform == "any") or match is None:
        return (0,)
    needs = (int(match[2]), int(match[3] or 0))
    bound = tag.abi not in ("abi3", "none")
    if needs[0] != 3 or (python is not None and (needs > python or (bound and needs != python))):
        return (0,)
    if bound and tag.abi != tag.interpreter:
        return (0,)  # a debug or free-threaded build
    return (1, int(native), int(bound), *needs)
