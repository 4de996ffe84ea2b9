"""The packages of `pip` steps: hashes from the index's page for the pinned version, and the wheels to carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from patchkit.app.lock_remote import naming, pinned
from patchkit.core.errors import ConfigError, UnreachableError
from patchkit.core.lockfile import LockedInput, LockedPackage, LockedStep, LockedWheel, Unknown
from patchkit.io.http import redact
from patchkit.sources import simple
from patchkit.sources.open import python_of
from patchkit.sources.pipconfig import certificates, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.io.http import Http
    from patchkit.model.image import Image
    from patchkit.model.stack import Packages
    from patchkit.sources.cache import Cache
    from patchkit.sources.simple import Artifact


class PackagePins:
    """Pins packages on the index of their step, one session for all of them."""

    def __init__(self, image: Image, cache: Cache, open_http: Callable[..., Http]) -> None:
        self.image, self.cache, self._open = image, cache, open_http
        self._http: Http | None = None

    def pin(
        self, step_id: str, pip: Packages, old: LockedStep | None, keep: Callable[[str, bytes], str] | None
    ) -> tuple[tuple[LockedPackage, ...], Unknown | None]:
        """The packages of a step, pinned, or what keeps it unresolved. `keep` carries a wheel's bytes in the
        project and returns its path (None: wheels are not carried).

        What `old` has for the same requirement of the same index stays as it is. Raises ConfigError where the
        index has no wheel that could be installed, UnreachableError where one that is to be carried cannot be had.
        """
        assert pip.index is not None
        requirements = [r for r in pinned(pip) if isinstance(r, str)]
        if pip.hashes == "first-use" and keep is None:
            return (), None
        known = {}
        if old is not None and old.kind == "pip" and old.action.get("index") == pip.index:
            known = {package.requirement: package for package in old.packages}
        found = []
        for requirement in requirements:
            package = known.get(requirement)
            with naming(f"step {step_id} (pip)", self.image.name):
                if package is None or (keep is not None and not package.wheels):
                    try:
                        wheels = self._wheels(requirement, pip.index)
                    except UnreachableError as error:
                        if package is not None:
                            raise
                        return (), self._unknown(requirement, error)
                    package = self._package(requirement, wheels, package, keep)
            found.append(package)
        return tuple(found), None

    def _unknown(self, requirement: str, error: UnreachableError) -> Unknown:
        command = f"patchkit lock --image {self.image.name}, where the index has it and can be reached ({error})"
        return Unknown(what=f"the hashes of {requirement}", command=command)

    def _wheels(self, requirement: str, index: str) -> list[Artifact]:
        """What the index lists that could be installed, each with its sha256."""
        name, _, version = requirement.partition("==")
        project = canonicalize_name(name.partition("[")[0])
        artifacts, page = self._listed(project, Version(version), index)
        if artifacts and all(a.kind == simple.SDIST for a in artifacts):
            raise ConfigError(
                f"{redact(page)}: it has {requirement} as a source archive only, which would have to be built:"
                " that runs its code, and gives other bytes each time",
                hint=f"build it once (pip wheel --no-deps {requirement}), put the wheel on an index of yours,"
                " and name that as the step's `index`",
            )
        wheels = [a for a in artifacts if a.kind == simple.WHEEL and a.sha256 is not None]
        if not wheels:
            raise UnreachableError(f"{redact(page)}: it lists no wheel of {requirement} with a sha256")
        return wheels

    def _package(
        self,
        requirement: str,
        wheels: list[Artifact],
        known: LockedPackage | None,
        keep: Callable[[str, bytes], str] | None,
    ) -> LockedPackage:
        hashes = known.hashes if known is not None else tuple(sorted({str(a.sha256) for a in wheels}))
        carried: tuple[LockedWheel, ...] = ()
        if keep is not None:
            best = simple.ranked(wheels, simple.machine_of(self.image.platform), python_of(self.image.site))
            if not best or best[0].sha256 not in hashes:
                raise ConfigError(
                    f"{requirement}: the index has no wheel for {self.image.platform} that was locked",
                    hint="lock it without --vendor, or take a version that has one",
                )
            carried = (self._carried(best[0], keep),)
        return LockedPackage(requirement=requirement, hashes=hashes, wheels=carried)

    def _listed(self, project: str, version: Version, index: str) -> tuple[list[Artifact], str]:
        settings = load_settings() if index == "default" else None
        urls = settings.urls if settings is not None else (index.rstrip("/"),)
        if self._http is None:
            self._http = self._open(ca_bundle=certificates())  # as pip itself will, whichever index it is
        page = ""
        for url in urls:
            self._http.learn_credentials(url)
            page = f"{url}/{project}/"
            answer = self._http.get(page, {"Accept": simple.ACCEPT})
            if answer.status == 200:
                found = simple.parse_page(answer.body, answer.headers.get("content-type", ""), answer.url)
                artifacts = simple.of_version(found, version)
                if artifacts:
                    return artifacts, page
        return [], page

    def _carried(self, artifact: Artifact, keep: Callable[[str, bytes], str]) -> LockedWheel:
        assert artifact.sha256 is not None
        assert self._http is not None
        data = self.cache.blob(artifact.sha256)
        if data is None:
            destination = self.cache.blob_destination(artifact.sha256)
            partial = self.cache.partial(artifact.url)
            self._http.stream_to(artifact.url, destination, sha256=artifact.sha256, size=artifact.size, partial=partial)
            data = self.cache.blob(artifact.sha256)
        assert data is not None
        path = keep(artifact.name, data)
        return LockedWheel(name=artifact.name, input=LockedInput(path=path, url=None, sha256=artifact.sha256))
