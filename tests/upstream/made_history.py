"""Histories made by the git program, with dates that do not depend on the clock."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from patchkit.sources.clone import Clone
from patchkit.upstream.facts import Mention, Pull, Ref
from patchkit.upstream.history import History, read_history

if TYPE_CHECKING:
    from pathlib import Path

REPO = "ROCm/aiter"
START = datetime(2026, 8, 1, tzinfo=timezone.utc)


def plain_environment() -> dict[str, str]:
    """The environment without the machine's own git settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Made:
    """A repository whose every commit is an hour after the one before, unless a time is given."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = START
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")
        self.git("config", "uploadpack.allowFilter", "true")
        self.git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.land("start", {"README": "start\n"})

    def git(self, *arguments: str, stdin: str | None = None) -> str:
        date = f"{int(self.now.timestamp())} +0000"
        environment = plain_environment() | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "protocol.file.allow=always"]
        command = ["git", *identity, "-C", str(self.path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, input=stdin, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout.strip()

    def tick(self, at: str | None) -> None:
        self.now = datetime.fromisoformat(at.replace("Z", "+00:00")) if at else self.now + timedelta(hours=1)

    def land(self, subject: str, files: dict[str, str | None], body: str = "", at: str | None = None) -> str:
        """Commit `files` (None deletes) with that message; return the SHA."""
        self.tick(at)
        for name, text in files.items():
            target = self.path / name
            if text is None:
                target.unlink()
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
        self.git("add", "-A")
        message = f"{subject}\n\n{body}\n" if body else f"{subject}\n"
        self.git("commit", "-q", "--allow-empty", "--cleanup=verbatim", "-F", "-", stdin=message)
        return self.head

    def revert(self, sha: str, subject: str | None = None, body: str | None = None, at: str | None = None) -> str:
        """`git revert`, with git's own message where none is given."""
        self.tick(at)
        self.git("revert", "--no-edit", sha)
        if subject is not None or body is not None:
            lines = self.git("log", "-1", "--format=%B").split("\n\n", 1)
            said = f"{subject or lines[0]}\n\n{lines[1] if body is None else body}\n"
            self.git("commit", "-q", "--amend", "--cleanup=verbatim", "-F", "-", stdin=said)
        return self.head

    def pick(self, sha: str, *options: str) -> str:
        self.tick(None)
        self.git("cherry-pick", *options, sha)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def clone(self) -> Clone:
        return Clone(str(self.path))

    def history(self, *revisions: str) -> History:
        found = read_history(self.clone, repo=REPO, revisions=revisions)
        assert found is not None
        return found

    def cloned(self, to: Path, *options: str) -> Clone:
        """A bare clone over file://."""
        self.git("clone", "-q", "--bare", *options, f"file://{self.path}", str(to))
        return Clone(str(to))


def ref(number: int) -> Ref:
    return Ref(repo=REPO, number=number)


def pull(number: int, title: str = "T", **more: Any) -> Pull:
    """What the forge says of a pull request: closed without a merge, unless told otherwise."""
    said: dict[str, Any] = {
        "ref": ref(number),
        "title": title,
        "state": "closed",
        "draft": False,
        "base": "main",
        "head": "",
        "merge_commit": None,
        "created_at": "2026-07-01T00:00:00Z",
        "updated_at": "2026-08-01T03:00:00Z",
        "closed_at": "2026-08-01T03:00:00Z",
        "merged_at": None,
        "as_of": "2026-10-01T00:00:00Z",
    }
    return Pull(**(said | more))


def mention(number: int, title: str, **more: Any) -> Mention:
    said: dict[str, Any] = {"ref": ref(number), "title": title, "state": "merged", "merged_at": "2026-08-20T00:00:00Z"}
    return Mention(**(said | more))
