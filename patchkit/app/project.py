"""The project folder: which images it has, and their locks, held against the files they came from.

On the hot path of `apply`: imports nothing but the core, and parses no YAML. A lock is fresh if
every file that it was made from still has the bytes it had.
"""

from __future__ import annotations

import hashlib
import os

from patchkit.core.errors import ConfigError
from patchkit.core.lockfile import Lock, LockedStep, parse
from patchkit.core.values import Value


class Project(Value):
    """A folder that holds `images/` and `patches/`; `root` is its absolute path."""

    root: str

    def path(self, *parts: str) -> str:
        """A path below the project."""
        return os.path.join(self.root, *parts)

    def shown(self, path: str) -> str:
        """`path` as messages name it: relative to the current directory where that is shorter."""
        relative = os.path.relpath(path)
        return relative if len(relative) < len(path) else path

    def images(self) -> list[str]:
        """The names of all images, sorted."""
        names = os.listdir(self.path("images"))
        return sorted(name[: -len(".yaml")] for name in names if name.endswith(".yaml"))

    def image_file(self, image: str) -> str:
        """The path of `images/NAME.yaml`."""
        return self.path("images", f"{image}.yaml")

    def stack_file(self, image: str) -> str:
        """The path of `patches/NAME/stack.yaml`."""
        return self.path("patches", image, "stack.yaml")

    def lock_file(self, image: str) -> str:
        """The path of `patches/NAME/stack.lock.json`."""
        return self.path("patches", image, "stack.lock.json")

    def managed_root(self, image: str) -> str:
        """The path of the managed root, `.patchkit/roots/NAME`."""
        return self.path(".patchkit", "roots", image)

    def resolve(self, name: str | None) -> str:
        """The one image that `name` means: the exact name, else any unambiguous prefix; with None
        the one image that has a managed root. Raises ConfigError."""
        images = self.images()
        if name is None:
            return self._only_managed(images)
        if name in images:
            return name
        hits = [image for image in images if image.startswith(name)]
        if len(hits) == 1 and name:
            return hits[0]
        if hits:
            raise ConfigError(
                f"--image {name!r}: it names {len(hits)} images: {', '.join(hits)}", hint="type more of the name"
            )
        raise ConfigError(
            f"--image {name!r}: {self.shown(self.path('images'))} has no such image",
            hint=f"its images are: {', '.join(images) or 'none'}",
        )

    def _only_managed(self, images: list[str]) -> str:
        managed = [image for image in images if os.path.isdir(self.managed_root(image))]
        if len(managed) == 1:
            return managed[0]
        found = f"{len(managed)} images have one: {', '.join(managed)}" if managed else "no image has one yet"
        raise ConfigError(
            f"--image is missing, and it may be left out only where exactly one managed root exists; {found}",
            hint=f"name one of: {', '.join(images)}",
        )

    def lock(self, image: str) -> Lock:
        """The fresh lock of `image`. Raises ConfigError where it is missing, stale or tampered with."""
        lock = self.lock_as_it_is(image)
        problems = self.stale(lock)
        if problems:
            raise ConfigError(*problems, hint=f"patchkit lock --image {image}")
        return lock

    def lock_as_it_is(self, image: str) -> Lock:
        """The lock of `image`, fresh or stale: enough to find and undo what was applied. Raises ConfigError."""
        path = self.lock_file(image)
        hint = f"patchkit lock --image {image}"
        try:
            with open(path, "rb") as stream:
                text = stream.read()
        except FileNotFoundError:
            raise ConfigError(f"{self.shown(path)}: the stack has no lock yet", hint=hint) from None
        except OSError as error:
            raise ConfigError(f"{self.shown(path)}: {error.strerror}", hint=hint) from None
        lock = parse(text, self.shown(path))
        if lock.image.name != image:
            problem = f"{self.shown(path)}: it is the lock of image {lock.image.name}, not of {image}"
            raise ConfigError(problem, hint=hint)
        return lock

    def stale(self, lock: Lock) -> list[str]:
        """What has changed since `lock` was made, one sentence a file; empty where it is fresh."""
        image = lock.image.name
        problems = [
            f"patches/{image}/stack.lock.json: it does not cover {needed}"
            for needed in (f"images/{image}.yaml", f"patches/{image}/stack.yaml")
            if needed not in lock.inputs
        ]
        for relative, digest in sorted(lock.inputs.items()):
            found = self._digest(relative)
            if found is None:
                problems.append(f"{relative}: it is gone since the stack was locked")
            elif found != digest:
                problems.append(f"{relative}: it was changed since the stack was locked")
        return problems

    def _digest(self, relative: str) -> str | None:
        try:
            with open(self.path(relative), "rb") as stream:
                return hashlib.sha256(stream.read()).hexdigest()
        except OSError:
            return None

    def read_input(self, step: LockedStep) -> bytes:
        """The bytes of a step's patch, checked against the lock. Raises ConfigError."""
        pinned = step.input
        if pinned is None:
            raise ConfigError(f"step {step.id}: the lock names no input for it", hint="patchkit lock")
        if pinned.path is None:
            from patchkit.sources.cache import Cache  # only remote inputs lie in the cache

            data = Cache().blob(pinned.sha256)
            if data is None:
                raise ConfigError(
                    f"step {step.id}: {pinned.url} (sha256 {pinned.sha256[:12]}…) is not in the cache of this machine",
                    hint="fetch it: patchkit lock; or carry it in the project: patchkit lock --vendor",
                )
            return data
        with open(self.path(pinned.path), "rb") as stream:
            data = stream.read()
        if hashlib.sha256(data).hexdigest() != pinned.sha256:
            raise ConfigError(f"{pinned.path}: it was changed since the stack was locked", hint="patchkit lock")
        return data


def find(start: str | None) -> Project:
    """The project: `start` itself if given, else the nearest folder upward that holds images/ and patches/.

    Raises ConfigError where there is none.
    """
    if start is not None:
        root = os.path.abspath(start)
        if _is_project(root):
            return Project(root=root)
        raise ConfigError(
            f"-C {start}: expected a folder that holds images/ and patches/", hint="name the right folder: -C DIR"
        )
    here = os.getcwd()
    root = here
    while not _is_project(root):
        above = os.path.dirname(root)
        if above == root:
            raise ConfigError(
                f"{here}: neither it nor any folder above holds images/ and patches/",
                hint="go to your project, or name it: -C DIR",
            )
        root = above
    return Project(root=root)


def _is_project(root: str) -> bool:
    return os.path.isdir(os.path.join(root, "images")) and os.path.isdir(os.path.join(root, "patches"))
