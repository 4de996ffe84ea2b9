"""The engine itself is killed half-way (SIGKILL): nothing half done is called done, and the next run ends whole.

What becomes of the bundle's process inside a running container: dockerd's end of its pipes closes, and it runs on, to
its end, unless the next dockerd comes first, which kills every container (exit code 137) but with --live-restore.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from .second import Daemon, until
from .stacks import ROOT, SITE, Project, Result, content, make_project, tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docker.models.containers import Container

    from .conftest import ImageOf
    from .stacks import Tree

JOURNALS = ("journal.json", "journal.json.tmp")


@pytest.fixture(scope="module", params=["plain", "live-restore"])
def daemon(request: pytest.FixtureRequest, programs: None, image: ImageOf) -> Iterator[Daemon]:
    """An engine of the module's own."""
    with Daemon.of(*(["--live-restore"] if request.param == "live-restore" else [])) as made:
        made.bring(image("vllmlike"))
        yield made


@dataclass(kw_only=True)
class Victim:
    """A container of an engine that will be killed while a stack goes onto it, or off it.

    `runs`: it is running at the time, so that the bundle works inside it; else it goes through archives.
    """

    daemon: Daemon
    project: Project
    name: str
    upper: str
    runs: bool
    after: dict[str, Tree] = field(default_factory=dict)
    #: Seconds from the client's start to its journal, and from there to its end.
    lasts: dict[str, tuple[float, float]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    @property
    def container(self) -> Container:
        return self.daemon.container(self.name)

    def run(self, command: str) -> Result:
        return self.project.in_turn(command, "--container", self.name)

    def start(self, command: str) -> subprocess.Popen[str]:
        words = self.project.words(command, "--container", self.name)
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def measure(self) -> None:
        """How long each command takes, and what it leaves."""
        for command in ("apply", "revert"):
            begun = time.monotonic()
            client = self.start(command)
            self.until_journal(client)
            middle = time.monotonic()
            _, err = client.communicate()
            assert client.returncode == 0, err
            self.lasts[command] = (middle - begun, time.monotonic() - middle)
            self.after[command] = content(tree(self.container))

    def has_journal(self) -> bool:
        return any(os.path.lexists(f"{self.upper}/{SITE}/.patchkit/{name}") for name in JOURNALS)

    def until_journal(self, client: subprocess.Popen[str]) -> None:
        """Wait until the change has begun, or the client has ended."""
        until(lambda: self.has_journal() or client.poll() is not None, "a journal, or the client's end")

    def kill(self, command: str, number: int, chance: random.Random) -> bool:
        """Run `command`, and kill the engine: first as soon as it changes something, then at any instant (a fourth
        of them before that). Every other time a running container dies with it, as when the machine does. Whether
        the client was not done yet."""
        early, late = self.lasts[command]
        init = self.container.attrs["State"]["Pid"] if self.runs and number % 2 == 0 else None
        client = self.start(command)
        if number and chance.random() < 0.25:
            time.sleep(early * chance.uniform(0.3, 1))
        else:
            self.until_journal(client)
            time.sleep(0.7 * late * chance.random() ** 2 if number else 0)
        self.daemon.kill(init)
        _, err = client.communicate(timeout=60)
        assert client.returncode in {0, 6}, err
        if client.returncode == 6:
            assert re.match(r"error: (no container engine at|the container engine went away: ).*\nhint: .*engine", err)
        assert "Traceback" not in err
        assert "Error(" not in err
        self.seen.append(f"{number} {command}: {err.splitlines()[0] if err else 'done'}")
        return client.returncode == 6

    def check(self, command: str, *, again: bool) -> None:
        """After the engine's restart: what verify says is so, and the same command once more ends whole.

        `again`: the container was started again before that."""
        self.daemon.start()
        if again:
            self.container.start()
        clean = self.run("verify")
        now = content(tree(self.container))
        self.seen[-1] += " | journal" if self.has_journal() else " | no journal"
        self.seen[-1] += "" if now in self.after.values() else ", half-way"
        label = self.seen[-1]
        assert clean.code in {0, 4}, (label, clean)
        if clean.code == 0:
            assert now == self.after["apply"], label
        done = self.run(command)
        assert done.code == 0, (label, done)
        found = tree(self.container)
        assert content(found) == self.after[command], label
        assert not [path for path in found if ".tmp" in path or "journal" in path], label
        assert (self.run("verify").code == 0) == (command == "apply"), label


@pytest.fixture
def victim(
    daemon: Daemon, image: ImageOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> Iterator[Victim]:
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("DOCKER_HOST", daemon.host)
    (tmp_path / "project").mkdir()
    made = daemon.create(image("vllmlike"), start=how == "running")
    project = make_project(tmp_path / "project", made)
    victim = Victim(daemon=daemon, project=project, name=str(made.id), runs=how == "running", upper=daemon.upper(made))
    victim.measure()
    yield victim
    victim.container.remove(force=True)


HOW = [("plain", "running"), ("plain", "archives"), ("live-restore", "running")]


@pytest.mark.parametrize(
    ("daemon", "how", "count"),
    [
        *(pytest.param(*one, 2, marks=[pytest.mark.slow] if one[0] == "live-restore" else []) for one in HOW),
        *(pytest.param(*one, 14, marks=pytest.mark.kills) for one in HOW),
    ],
    indirect=["daemon"],
)
def test_the_engine_is_killed(count: int, victim: Victim) -> None:
    chance, number, cut = random.Random(count), 0, 0
    while cut < count and number < 3 * count:  # some clients are done before the kill
        command = ("apply", "revert")[number % 2]
        cut += victim.kill(command, number, chance)
        # a container that the new engine finds stopped is repaired as it is, by archives, or once it runs again
        victim.check(command, again=victim.runs and number % 4 < 2)
        if victim.runs:
            victim.container.start()
        number += 1
    print(*victim.seen, sep="\n")
    assert cut == count
    assert victim.runs or any("half-way" in line for line in victim.seen)
