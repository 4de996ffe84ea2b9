"""What an image is: one pinned container image, as `images/NAME.yaml` describes it.

Standard-library types only; `patchkit.model.load` makes them from a file and is the one place
where what they demand is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from patchkit.model import rules
from patchkit.model.rules import OneOrMany, Pairs, SitePath


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One upstream inside an image, at its own revision.

    `exact`: the published release is the image's content. Otherwise the release is the nearest
    public one, a stand-in.
    """

    __pydantic_config__ = rules.EDGE

    repo: Annotated[str, rules.REPOSITORY]
    commit: Annotated[str, rules.COMMIT] | None = None
    release: Annotated[str, rules.RELEASE] | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How a root is recognised from inside: `file` in the site names `commit`."""

    __pydantic_config__ = rules.EDGE

    file: SitePath
    commit: Annotated[str, rules.COMMIT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One pinned container image.

    `site` holds the candidates (globs allowed) for the directory where patch paths start,
    `components` the upstreams built in, by name and in the file's order.
    """

    __pydantic_config__ = rules.EDGE

    name: Annotated[str, rules.NAME]
    reference: Annotated[str, rules.REFERENCE]
    digest: Annotated[str, rules.DIGEST] | None = None
    platform: Annotated[str, rules.PLATFORM] = "linux/amd64"
    site: Annotated[tuple[str, ...], OneOrMany(SitePath)]
    components: Annotated[
        tuple[tuple[str, Component], ...],
        Pairs(Annotated[str, rules.NAME], Component),
    ] = ()
    identity: Identity | None = None

    def component(self, name: str) -> Component | None:
        """Return the component called `name`, or None where the image names no such upstream."""
        return dict(self.components).get(name)
