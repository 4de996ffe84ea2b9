"""Opens the site below a root as a target: what the command line and the bundle share."""

from __future__ import annotations

import os
from contextlib import contextmanager

from patchkit.core.errors import ConfigError, RefusedByMachineError
from patchkit.core.paths import UnsafePathError, check_relative
from patchkit.core.site import Site, resolve_site
from patchkit.core.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.core.lockfile import Lock
    from patchkit.core.operate import Target


class Caller(Value):
    """How the person reaches the target: every hint that names a command is spelled here, so that it leads to the
    very tree that the message is about. `program`: the words that start patchkit, or a bundle, which has no
    --image; `target`: the options that name the tree, as they were given; `image`: the one that was meant."""

    program: tuple[str, ...] = ("patchkit",)
    target: tuple[str, ...] = ()
    image: str = ""

    def of(self, image: str) -> Caller:
        """The same for `image`."""
        return Caller(program=self.program, target=self.target, image=image)

    def spell(self, command: str, *more: str, image: str = "") -> str:
        """The command line that does `command` on the same target, for a shell; `image`, if it is another one."""
        import shlex  # only for a hint

        named = image or self.image
        program = self.program
        if program[:1] == ("patchkit",):
            more = (*more, "--image", named) if named else more
        elif image and self.image and image != self.image:
            program = (*program[:-1], f"BUNDLE-OF-{image}.pyz")
        return shlex.join((*program, command, *more, *self.target))


class Choice(Value):
    """What the person said about the target (design.md, Target rule)."""

    root: str | None = None
    site: str | None = None
    stand_in: bool = False
    caller: Caller = Caller()


def site_patterns(lock: Lock, choice: Choice) -> tuple[str, ...]:
    """The globs that name the site: the person's, else the image's. Raises ConfigError."""
    if choice.site is None:
        return lock.image.site
    try:
        return (check_relative(choice.site.strip("/")),)
    except UnsafePathError as error:
        raise ConfigError(f"--site: {error}", hint="name a folder relative to the root") from None


@contextmanager
def open_root(lock: Lock, choice: Choice, root: str, *, managed: bool, prefix: str = "") -> Iterator[Target]:
    """The site below `root`, open as a target. Raises ConfigError where there is none. `prefix` says
    in every label where that root is, if not on this machine."""
    from patchkit.core.operate import Target  # not needed to know which site is meant

    if not os.path.isdir(root):
        raise ConfigError(f"--root {root}: no such directory", hint="name the root of the image's file tree")
    patterns = site_patterns(lock, choice)
    try:
        path = resolve_site(root, patterns)
    except OSError as error:
        raise RefusedByMachineError(f"{root}: {error.strerror}") from None
    if path is None:
        raise ConfigError(
            no_site(f"{prefix}{root}", patterns),
            hint="name the site below the root: --site PATH",
        )
    with Site(path) as site:
        yield Target(
            site=site,
            label=f"{prefix}{path}",
            managed=managed,
            stand_in_meant=choice.stand_in,
            is_machine=os.path.realpath(root) == "/",
            caller=choice.caller.of(lock.image.name),
        )


def no_site(root: str, patterns: tuple[str, ...]) -> str:
    """The sentence about a root without a site."""
    return f"{root}: it holds no site directory {' or '.join(patterns)}"


def is_machine(lock: Lock, choice: Choice) -> bool:
    """Whether `choice` means the machine that this runs on, `/`: there steps can be run."""
    return os.path.realpath(choice.root) == "/" if choice.root is not None else is_running_image(lock, choice)


def is_running_image(lock: Lock, choice: Choice) -> bool:
    """Whether `/` is the image that `lock` is for, by its identity."""
    from patchkit.core.identity import contradiction

    if not lock.image.identity_file:
        return False
    try:
        path = resolve_site("/", site_patterns(lock, choice))
    except (ConfigError, OSError):
        return False
    if path is None:
        return False
    with Site(path) as site:
        return contradiction(lock.image, site) is None
