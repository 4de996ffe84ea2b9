"""A git repository on this machine: the one module that imports GitPython and starts git.

Git runs in an environment of its own: no replacement object, no lazy fetch, no prompt, no repository of the
caller's. What talks to another machine is `Repository.fetching` and `clone_bare`, which say so by their names.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from patchkit.core.errors import ConfigError, RefusedByMachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # with a git that is older than GIT_NO_LAZY_FETCH, this prevents the fetch
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
#: A fetch that was asked for: it may talk, but never ask a question (credential helpers still answer).
_FETCHING = {"GIT_ALLOW_PROTOCOL": "https:ssh:file", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true"}
#: What the person's environment may say of a fetch: how to reach and trust a host, not which repository is meant.
_REACHING = ("GIT_SSL_", "GIT_SSH", "GIT_CONFIG_", "GIT_PROXY_", "GIT_HTTP_")
_PATIENCE = (
    "-c",
    "http.lowSpeedLimit=1000",
    "-c",
    "http.lowSpeedTime=60",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=0",
)


class GitFailedError(Exception):
    """Git ended with an error: `complaint` is the first line of what it said (`exit N` where it was silent),
    `status` its exit status."""

    def __init__(self, complaint: str, status: int) -> None:
        super().__init__(complaint)
        self.complaint = complaint
        self.status = status


class Repository:
    """The repository at `directory` itself: a work tree's top, a bare repository or a `.git` directory.

    `spec` begins the messages. Raises `ConfigError` for a directory that is none, or of another object format
    than sha1; every method raises `RefusedByMachineError` where git is missing or refuses the owner.
    """

    def __init__(self, directory: str, spec: str) -> None:
        self.directory = directory
        self._spec = spec
        self._repository = _open(directory)

    def close(self) -> None:
        """End git's processes."""
        with _no_git_environment():
            self._repository.close()

    def ask(self, command: str, *arguments: str) -> tuple[str, str]:
        """Run git; return its output, and its complaint where it fails."""
        try:
            return self.run(command, *arguments).decode("utf-8", "replace").removesuffix("\n"), ""
        except GitFailedError as error:
            return "", error.complaint

    def run(self, command: str, *arguments: str, stdin: bytes | None = None) -> bytes:
        """Run git with `stdin` and return its output; raise `GitFailedError` where it fails."""
        with _no_git_environment(), _file(stdin) as handle:
            return _execute(self._repository.git, self._spec, self.directory, [command, *arguments], handle)

    def fetching(self, *arguments: str) -> None:
        """Run `git fetch` with `arguments` and the network; raise `GitFailedError` where it fails."""
        command = [*_PATIENCE, "fetch", *arguments]
        environment = _fetching()
        with _no_git_environment(), _file(None) as handle:
            _execute(_program(self.directory, environment), self._spec, self.directory, command, handle)

    def object(self, sha: str) -> tuple[str, int, bytes] | None:
        """Return an object's kind, size and bytes, unchecked; None where git does not give it."""
        with _no_git_environment():
            try:
                _, kind, size, data = self._repository.git.get_object_data(sha)
            except (ValueError, OSError):  # the process says "missing", or is gone
                self._repository.git.clear_cache()
                return None
        return (kind.decode() if isinstance(kind, bytes) else kind), size, data

    def filter(self) -> str | None:
        """Return what a partial clone left out (`tree:0`, `blob:none`), `unknown` where it does not say; None
        for a clone that is not partial."""
        promises, names = False, []
        with _no_git_environment(), self._repository.config_reader("repository") as config:
            for section in config.sections():
                promises |= any(config.has_option(section, name) for name in ("partialclone", "promisor"))
                if config.has_option(section, "partialclonefilter"):
                    names.append(str(config.get_value(section, "partialclonefilter")))
        return names[0] if names else "unknown" if promises else None

    def remotes(self) -> dict[str, str]:
        """Return the remotes' names and addresses."""
        found = {}
        with _no_git_environment(), self._repository.config_reader("repository") as config:
            for section in config.sections():
                if section.startswith('remote "') and config.has_option(section, "url"):
                    found[section[len('remote "') : -1]] = str(config.get_value(section, "url"))
        return found

    @property
    def own_directory(self) -> str:
        """The directory of what belongs to this work tree alone (FETCH_HEAD)."""
        return str(self._repository.git_dir)

    @property
    def common_directory(self) -> str:
        """The directory that holds the objects' and refs' files, also of a linked work tree."""
        return str(self._repository.common_dir)


def clone_bare(url: str, directory: str, *, filter_: str, spec: str) -> None:
    """Make a bare partial clone of `url` at `directory`, over the network; raise `GitFailedError` where it fails."""
    command = [*_PATIENCE, "clone", "--quiet", "--bare", f"--filter={filter_}", "--", url, directory]
    environment = _fetching()
    with _no_git_environment(), _file(None) as handle:
        _execute(_program(os.path.dirname(directory), environment), spec, directory, command, handle)


def _fetching() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_REACHING)} | _FETCHING


def _execute(git: Any, spec: str, directory: str, command: list[str], stdin: Any) -> bytes:
    from git.exc import GitCommandError, GitCommandNotFound

    try:
        done = git.execute(["git", *command], istream=stdin, stdout_as_string=False, strip_newline_in_stdout=False)
        return bytes(done)
    except GitCommandNotFound as error:
        raise RefusedByMachineError(
            f"{spec}: expected the program git, found none", hint="apt-get install git"
        ) from error
    except GitCommandError as error:
        said = str(error.stderr).partition("stderr: '")[2].rstrip("'").strip()
        status = int(error.status) if isinstance(error.status, int) else -1
        complaint = said or f"exit {status}"
    if "dubious ownership" in complaint:
        raise RefusedByMachineError(
            f"{spec}: git refuses a repository that another user owns",
            hint=f"git config --global --add safe.directory {os.path.abspath(directory)}",
        )
    raise GitFailedError(_telling_line(complaint), status)


def _telling_line(complaint: str) -> str:
    """The first line that is no warning or progress, else the first."""
    lines = complaint.splitlines()
    return next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0])


@contextmanager
def _file(data: bytes | None) -> Iterator[Any]:
    """Git's standard input: a file that holds `data`, which GitPython hands to the process."""
    with tempfile.TemporaryFile() as handle:
        handle.write(data or b"")
        handle.seek(0)
        yield handle


@contextmanager
def _no_git_environment() -> Iterator[None]:
    """Take GIT_DIR and its kin out of the environment: the caller's repository is not the source's."""
    saved = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")}
    os.environ["GIT_PYTHON_REFRESH"] = "quiet"
    try:
        yield
    finally:
        del os.environ["GIT_PYTHON_REFRESH"]
        os.environ.update(saved)


def _program(directory: str, environment: dict[str, str]) -> Any:
    import git

    program = git.Git(directory)
    program.update_environment(**environment)
    return program


def _open(directory: str) -> Any:
    """Return GitPython's repository at `directory`."""
    with _no_git_environment():
        import configparser

        import git

        try:
            repository = git.Repo(directory, search_parent_directories=False)
            with repository.config_reader("repository") as config:
                config.read()  # get_value takes any failure for "not set"
                kind = config.get_value("extensions", "objectformat", "sha1")
        except (git.exc.InvalidGitRepositoryError, git.exc.NoSuchPathError) as error:
            raise ConfigError(
                f"git:{directory}: expected a clone or a bare repository, found {type(error).__name__}",
                hint="name the directory that holds .git, or a bare repository",
            ) from error
        except configparser.Error as error:
            raise ConfigError(
                f"git:{directory}: expected a repository, found a damaged one: its file config cannot be read",
                hint=f"git -C {directory} config --list  # tells the line; correct it, or name another clone",
            ) from error
        if kind != "sha1":
            raise ConfigError(f"git:{directory}: expected object format sha1, found {kind}, which is not supported")
        repository.git.update_environment(**_ENVIRONMENT)
        return repository
