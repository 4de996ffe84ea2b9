"""A container that does not run, or has no python3, as a target: read and written through archives."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchkit.core import options
from patchkit.core.errors import ConfigError
from patchkit.core.operate import Target
from patchkit.core.roots import no_site, site_patterns
from patchkit.core.site import machine_says
from patchkit.targets import container as targets
from patchkit.targets.mirror import Mirror, find_site
from patchkit.targets.writeback import MirrorSite

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from patchkit.app.container import Place
    from patchkit.core.lockfile import Lock


@contextmanager
def by_archives(lock: Lock, place: Place, args: Namespace) -> Iterator[Target]:
    """The container as a target for core: a mirror of its site, brought back when the command is done.

    Raises ConfigError where it has no site, RefusedByMachineError where owners cannot be kept,
    or archives do not tell what is there.
    """
    choice = options.choice(args)
    if place.writes:
        targets.require_owners(place.engine, place.container)
    patterns = site_patterns(lock, choice)
    site = find_site(place.engine, place.container, patterns)
    targets.require_visible(place.engine, place.container, patterns, site)
    prefix = targets.prefix_of(place.container)
    if site is None:
        raise ConfigError(no_site(f"{prefix}/", patterns), hint="name the site below the root: --site PATH")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a private directory in it
    with tempfile.TemporaryDirectory(prefix="patchkit-", dir=memory) as private:
        mirror = Mirror(place.engine, place.container, site, os.path.join(private, "site"))
        with machine_says("cannot mirror the container on this machine; nothing was changed"):
            mirror.load(lock)
        here = MirrorSite(mirror, publish=place.writes)
        with here:
            try:
                caller = choice.caller.of(lock.image.name)
                yield Target(site=here, label=f"{prefix}{site}", stand_in_meant=choice.stand_in, caller=caller)
            finally:
                here.settle()
