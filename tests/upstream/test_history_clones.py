"""Clones of every kind as histories: full, bare, treeless, shallow, damaged; what is fetched, and what never is."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import BusyError, ConfigError, RefusedByMachineError, UnreachableError
from patchkit.sources.clone import Clone, clone_path, fetch_clone, find_clone, iso
from patchkit.upstream.history import default_branches, read_history
from tests.upstream.made_history import REPO, Made

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOST = "github.com"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    made = Made(tmp_path / "made")
    made.land("Pad (#1)", {"a.py": "one\n"}, "A body\nof two lines.\n\nReviewed-by: x")
    made.git("tag", "v1.0")
    made.tick(None)
    made.git("tag", "-a", "v1.1", "-m", "annotated")
    made.land("Unicode — ü (#2)", {"a.py": "two\n"})
    return made


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


def served(made: Made, tmp_path: Path) -> tuple[str, Callable[[], int]]:
    """An address of the repository, and how often it was asked for objects: its `git-upload-pack` counts."""
    log = tmp_path / "asked"
    script = tmp_path / "upload-pack"
    script.write_text(f'#!/bin/sh\necho asked >> {log}\nexec git-upload-pack "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script), lambda: len(log.read_text().splitlines()) if log.exists() else 0


def test_the_log(made: Made) -> None:
    log = made.clone.log([made.head])
    assert [entry.subject for entry in log] == ["Unicode — ü (#2)", "Pad (#1)", "start"]
    assert log[1].body == "A body\nof two lines.\n\nReviewed-by: x\n"
    assert log[0].parents == (log[1].sha,)
    assert log[2].parents == ()
    assert [iso(entry.time) for entry in log] == [
        "2026-08-01T04:00:00Z",
        "2026-08-01T02:00:00Z",
        "2026-08-01T01:00:00Z",
    ]
    assert made.clone.log([]) == ()


def test_the_user_s_settings_change_nothing(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = made.git("rev-parse", "v1.0")
    plain = made.clone
    expected = plain.log([made.head]), plain.patch_ids([made.head, sha]), plain.tags()
    home = tmp_path / "home"
    home.mkdir()
    settings = {
        "log.showSignature": "true",
        "log.decorate": "full",
        "log.mailmap": "true",
        "format.pretty": "oneline",
        "color.ui": "always",
        "core.pager": "false",
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.external": "false",
        "diff.context": "9",
        "diff.algorithm": "patience",
        "i18n.logOutputEncoding": "latin1",
    }
    for name, value in settings.items():
        made.git("config", "--file", str(home / ".gitconfig"), name, value)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    clone = made.clone
    assert (clone.log([made.head]), clone.patch_ids([made.head, sha]), clone.tags()) == expected


def test_tags_that_lead_to_a_commit(made: Made) -> None:
    sha = made.git("rev-parse", "v1.0")
    made.git("tag", "tree-tag", "HEAD^{tree}")
    assert {(tag.name, tag.commit, iso(tag.time)) for tag in made.clone.tags()} == {
        ("v1.0", sha, "2026-08-01T02:00:00Z"),
        ("v1.1", sha, "2026-08-01T03:00:00Z"),
    }


def test_revisions_and_ancestry(made: Made) -> None:
    clone = made.clone
    old, new = made.git("rev-parse", "v1.1^{commit}"), made.head
    assert [
        clone.resolve(revision) for revision in ("v1.1", old[:9], "main", "no", "--help", "v1.1^{tree}", "0" * 40)
    ] == [
        old,
        old,
        new,
        None,
        None,
        None,
        None,
    ]
    assert (clone.is_ancestor(old, new), clone.is_ancestor(new, old)) == (True, False)
    assert (clone.is_ancestor("0" * 40, new), clone.is_ancestor(old, "0" * 40)) == (None, None)
    assert clone.merge_base(old, new) == old
    assert (clone.kind, clone.full, clone.fetched_at()) == ("a full clone", True, None)


def test_the_upstream_branch_of_a_work_clone(made: Made, tmp_path: Path) -> None:
    """Somebody's own `main` is not the upstream's; the remote whose address is the repository's comes first."""
    upstream = tmp_path / "ROCm" / "aiter.git"
    upstream.parent.mkdir()
    shutil.copytree(made.path / ".git", upstream)
    made.land("only here", {"b": "x\n"})
    fork = tmp_path / "fork.git"
    made.cloned(fork)
    made.git("remote", "add", "origin", f"file://{fork}")
    made.git("fetch", "-q", "origin")
    assert made.clone.branch("main", REPO) == made.head
    made.land("local work", {"b": "y\n"})
    assert made.clone.branch("main", REPO) == made.git("rev-parse", "origin/main")
    made.git("remote", "add", "rocm", f"file://{upstream}")
    made.git("fetch", "-q", "rocm")
    assert made.clone.branch("main", "rocm/Aiter") == made.git("rev-parse", "rocm/main")
    assert made.clone.branch("gone", REPO) is None
    assert read_history(made.clone, repo=REPO, branch="gone") is None
    # the last fetch was from that remote: of the fork it tells nothing
    assert made.clone.fetched_at("ROCm/aiter") is not None
    assert made.clone.fetched_at("someone/aiter") is None


@pytest.mark.parametrize("what", ["tree:0", "blob:none"])
def test_a_partial_clone_never_fetches(made: Made, tmp_path: Path, what: str) -> None:
    script, asked = served(made, tmp_path)
    to = tmp_path / "partial.git"
    made.git("clone", "-q", "--bare", "-u", script, f"--filter={what}", f"file://{made.path}", str(to))
    made.git("-C", str(to), "config", "remote.origin.uploadpack", script)
    assert asked() == 1
    before = sorted(path.name for path in to.rglob("*"))
    clone = Clone(str(to))
    assert (clone.filter, clone.full, clone.kind) == (what, False, f"a partial clone ({what})")
    history = read_history(clone, repo=REPO, revisions=["v1.0", "no", "0" * 40, "1" * 40])
    assert history is not None
    assert (history.landed(1), history.landed(2), [r.name for r in history.releases]) == ((1,), (2,), ["v1.0", "v1.1"])
    sha = made.git("rev-parse", "v1.0")
    assert clone.is_ancestor(sha, made.head) is True
    assert clone.is_ancestor("1" * 40, made.head) is None
    assert clone.resolve("v1.0:a.py") is None
    for question in (
        lambda: clone.patch_ids([made.head]),
        lambda: clone.patch_ids_between(sha, made.head),
    ):
        with pytest.raises(UnreachableError, match=r"partial clone .* without it: nothing is fetched"):
            question()
    clone.close()
    assert asked() == 1
    assert sorted(path.name for path in to.rglob("*")) == before
    made.git("-C", str(to), "show", "HEAD:a.py")  # the count counts: git itself does fetch
    assert asked() > 1


def test_a_shallow_clone(made: Made, tmp_path: Path) -> None:
    clone = made.cloned(tmp_path / "shallow.git", "--depth=1")
    assert (clone.shallow, clone.full, clone.kind) == (True, False, "a shallow clone")
    history = read_history(clone, repo=REPO)
    assert history is not None
    assert history.shallow
    assert len(history) == 1
    sha = made.git("rev-parse", "v1.0")
    assert clone.is_ancestor(sha, made.head) is None
    assert history.is_ancestor(sha, made.head) is None


def test_a_linked_work_tree_of_a_shallow_clone(made: Made, tmp_path: Path) -> None:
    made.git("clone", "-q", "--depth=1", f"file://{made.path}", str(tmp_path / "shallow"))
    made.git("-C", str(tmp_path / "shallow"), "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert Clone(str(tmp_path / "linked")).shallow


@pytest.mark.parametrize("damage", ["missing", "rubbish"])
def test_a_damaged_clone(made: Made, damage: str) -> None:
    sha = made.git("rev-parse", "v1.0")
    path = made.path / ".git/objects" / sha[:2] / sha[2:]
    path.chmod(0o644)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"rubbish")
    with pytest.raises(UnreachableError, match="expected a readable history, found a damaged") as caught:
        made.clone.log([made.head])
    assert caught.value.hint == f"git -C {made.path} fsck, or name another clone"


@pytest.mark.parametrize(
    "damage",
    ["objects emptied", "packs truncated", "packs gone", "packed-refs rubbish", "ref rubbish", "shallow rubbish"],
)
@pytest.mark.parametrize("cached", [False, True])
def test_a_clone_whose_branch_cannot_be_read_is_damaged(made: Made, root: str, damage: str, cached: bool) -> None:
    """It is not that it "knows no such branch": that would send the person looking for the branch."""
    clone = fetch_clone(HOST, REPO, f"file://{made.path}", root)
    clone.close()
    spoil(clone.directory, damage)
    given = {} if cached else {REPO: clone.directory}
    with pytest.raises(UnreachableError, match=r"expected a readable history, found") as caught:
        read_history(find_clone(HOST, REPO, given, root), repo=REPO)  # type: ignore[arg-type]
    assert "a damaged or incomplete clone" in str(caught.value)
    cure = f"rm -r {clone.directory}; patchkit status --fetch" if cached else f"git -C {clone.directory} fsck"
    assert caught.value.hint.startswith(cure)
    assert fetch_clone(HOST, REPO, f"file://{made.path}", root).branch("main") == made.head  # the cure is one


def spoil(directory: str, damage: str) -> None:
    def files(under: str, ending: str = "") -> list[str]:
        found = [os.path.join(at, name) for at, _, names in os.walk(f"{directory}/{under}") for name in names]
        return [path for path in found if path.endswith(ending)]

    for path in files("objects"):
        os.chmod(path, 0o644)
    if damage == "objects emptied":
        for path in files("objects"):
            os.truncate(path, 0)
    elif damage == "packs truncated":
        for path in files("objects", ".pack"):
            os.truncate(path, 40)
    elif damage == "packs gone":
        for path in files("objects/pack"):
            os.unlink(path)
    else:
        name = {"packed-refs rubbish": "packed-refs", "ref rubbish": "refs/heads/main", "shallow rubbish": "shallow"}
        with open(f"{directory}/{name[damage]}", "w") as handle:
            handle.write("rubbish\n")


def test_a_clone_whose_settings_cannot_be_read(made: Made) -> None:
    (made.path / ".git/config").write_text("rubbish [\n")
    with pytest.raises(ConfigError, match="its file config cannot be read"):
        find_clone(HOST, REPO, {REPO: str(made.path)})


def test_a_branch_that_is_not_there_is_no_damage(made: Made, tmp_path: Path) -> None:
    assert made.clone.branch("gone") is None
    made.git("init", "-q", "--bare", str(tmp_path / "empty"))
    assert Clone(str(tmp_path / "empty")).branch("main") is None


def test_the_default_branch(made: Made, root: str, tmp_path: Path) -> None:
    """A clone says what its upstream's HEAD was; of a repository cloned from nowhere HEAD is somebody's work."""
    made.git("checkout", "-q", "-b", "work")
    assert default_branches(made.clone) == ("main", "master", "work")
    made.git("checkout", "-q", "main")
    made.git("branch", "-q", "-m", "main", "trunk")
    assert default_branches(made.clone) == ("main", "master", "trunk")
    bare = made.cloned(tmp_path / "bare.git")
    assert (bare.default_branch(), default_branches(bare)) == ("trunk", ("trunk", "main", "master"))
    made.git("clone", "-q", f"file://{made.path}", str(tmp_path / "ROCm/aiter"))
    made.git("-C", str(tmp_path / "ROCm/aiter"), "checkout", "-q", "-b", "mine")
    assert default_branches(Clone(str(tmp_path / "ROCm/aiter"))) == ("trunk", "main", "master")
    fork = tmp_path / "fork"
    made.git("clone", "-q", "-o", "rocm", f"file://{tmp_path}/ROCm/aiter", str(fork))
    assert Clone(str(fork)).default_branch(REPO) == "mine"
    history = read_history(bare, repo=REPO, branch=default_branches(bare)[0])
    assert history is not None
    assert (history.branch, history.base) == ("trunk", made.head)
    made.git("-C", str(fork), "checkout", "-q", "--detach")
    made.git("-C", str(fork), "remote", "remove", "rocm")
    assert Clone(str(fork)).default_branch(REPO) is None
    assert default_branches(Clone(str(fork))) == ("main", "master")


def test_a_fetch_follows_a_renamed_default_branch(made: Made, root: str) -> None:
    assert fetch_clone(HOST, REPO, f"file://{made.path}", root).default_branch(REPO) == "main"
    made.git("branch", "-q", "-m", "main", "trunk")
    again = fetch_clone(HOST, REPO, f"file://{made.path}", root)
    assert (again.default_branch(REPO), again.branch("trunk"), again.branch("main")) == ("trunk", made.head, None)


def test_patch_ids_are_git_s(made: Made) -> None:
    """Of a commit with one file it is what `git patch-id` itself says; turned round, the revert's."""
    sha, clone = made.head, made.clone
    diff = made.git("diff-tree", "-p", "--full-index", sha) + "\n"
    whole = made.git("patch-id", "--stable", stdin=diff).split()[0]
    assert clone.patch_ids([sha]) == {sha: {"a.py": whole}}
    assert clone.patch_ids_of(diff.encode()) == {"a.py": whole}
    assert clone.patch_ids_between(f"{sha}^", sha) == {"a.py": whole}
    odd = {"new.py": "x\n", "ä b.py": "x\n", "dir/c": "x\n", "*": "y\n", 'q"uote': "x\n"}
    made_all = made.land("odd names", odd)
    assert set(clone.patch_ids([made_all])[made_all]) == {"new.py", "ä b.py", "dir/c", "*", 'q\\"uote'}
    assert set(clone.patch_ids([made_all], ["*"])[made_all]) == {"*"}
    gone = made.land("gone", dict.fromkeys(odd))
    assert clone.patch_ids([made_all], reverse=True)[made_all] == clone.patch_ids([gone])[gone]
    empty = made.land("empty", {})
    assert clone.patch_ids([empty]) == {}
    assert clone.patch_ids([]) == {}
    assert clone.patch_ids_of(b"") == {}
    root = made.git("rev-list", "--max-parents=0", "HEAD")
    assert set(clone.patch_ids([root])[root]) == {"README"}


def test_where_cached_clones_live(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clone_path(HOST, REPO, root) == f"{root}/clones/github.com/ROCm/aiter.git"
    monkeypatch.setenv("PATCHKIT_CACHE", "/c")
    assert clone_path("ghe.example:8443", REPO) == "/c/clones/ghe.example_8443/ROCm/aiter.git"
    for host, repo in [
        ("", REPO),
        ("../x", REPO),
        ("-h", "a"),
        (HOST, "../x"),
        (HOST, "a/.."),
        (HOST, "a/b/c"),
        (HOST, "a"),
    ]:
        with pytest.raises(ConfigError, match="expected a host and owner/repo"):
            clone_path(host, repo)


def test_which_clone_is_found(made: Made, root: str, tmp_path: Path) -> None:
    assert find_clone(HOST, REPO, {}, root) is None
    for key in (REPO, "rocm/AITER", f"{HOST}/{REPO}"):
        found = find_clone(HOST, REPO, {key: str(made.path)}, root)
        assert found is not None
        assert found.directory == str(made.path)
    assert find_clone("ghe.example", REPO, {f"{HOST}/{REPO}": str(made.path)}, root) is None
    with pytest.raises(ConfigError, match="expected a clone"):
        find_clone(HOST, REPO, {REPO: str(tmp_path / "none")}, root)
    fetch_clone(HOST, REPO, f"file://{made.path}", root).close()
    found = find_clone(HOST, REPO, {}, root)
    assert found is not None
    assert found.directory == clone_path(HOST, REPO, root)
    shutil.rmtree(clone_path(HOST, REPO, root))
    os.makedirs(clone_path(HOST, REPO, root))
    with pytest.raises(UnreachableError, match="found no repository") as caught:
        find_clone(HOST, REPO, {}, root)
    assert "patchkit status --fetch" in caught.value.hint


@pytest.mark.parametrize(
    ("urls", "others"),
    [
        ((), ""),
        (("https://github.com/ROCm/aiter.git",), ""),
        (("git@github.com:rocm/Aiter",), ""),
        (("https://github.com/me/aiter", "ssh://git@github.com/ROCm/aiter/"), ""),
        (("https://mirror.example/github/ROCm/aiter.git",), ""),
        (("/srv/mirrors/aiter.git",), ""),
        (("../aiter",), ""),
        (("file:///srv/other.git",), ""),
        (("https://github.com/vllm-project/vllm.git",), "vllm-project/vllm"),
        (("git@github.com:me/aiter.git",), "me/aiter"),
        (("github:me/aiter.git", "https://x.example/notROCm/aiter"), "me/aiter, notrocm/aiter"),
    ],
)
def test_a_given_clone_of_another_repository_is_refused(made: Made, urls: tuple[str, ...], others: str) -> None:
    for number, url in enumerate(urls):
        made.git("remote", "add", f"r{number}", url)
    if not others:
        assert find_clone(HOST, REPO, {REPO: str(made.path)}) is not None
        return
    with pytest.raises(ConfigError) as caught:
        find_clone(HOST, REPO, {REPO: str(made.path)})
    assert caught.value.problems == (f"--clone {REPO}={made.path}: expected a clone of {REPO}, found one of {others}",)
    assert f"remote add -f upstream https://{HOST}/{REPO}.git" in caught.value.hint


def test_fetching_makes_a_treeless_clone_and_refreshes_it(made: Made, root: str) -> None:
    clone = fetch_clone(HOST, REPO, f"file://{made.path}", root)
    assert (clone.filter, clone.shallow, clone.resolve("main")) == ("tree:0", False, made.head)
    assert os.path.exists(os.path.join(clone.directory, "objects/info/commit-graph"))
    first = clone.fetched_at(REPO)
    assert first is not None
    made.land("Third (#3)", {"a.py": "three\n"})
    made.git("branch", "release/1.0")
    made.git("tag", "-f", "v1.0")
    made.git("tag", "-d", "v1.1")
    again = fetch_clone(HOST, REPO, f"file://{made.path}", root)
    assert (again.resolve("main"), again.resolve("release/1.0"), again.resolve("v1.0")) == (made.head,) * 3
    assert again.resolve("v1.1") is None
    assert (again.fetched_at(REPO) or 0) >= first
    with pytest.raises(UnreachableError, match="nothing is fetched"):  # it stayed treeless
        again.patch_ids([made.head])
    history = read_history(again, repo=REPO)
    assert history is not None
    assert history.landed(3)
    assert sorted(os.listdir(os.path.dirname(again.directory))) == ["aiter.git", "aiter.git.lock"]


def test_a_rewritten_branch_is_followed(made: Made, root: str) -> None:
    fetch_clone(HOST, REPO, f"file://{made.path}", root)
    made.git("reset", "-q", "--hard", "HEAD~1")
    made.land("Instead (#4)", {"a.py": "four\n"})
    assert fetch_clone(HOST, REPO, f"file://{made.path}", root).resolve("main") == made.head


def test_a_remote_that_cannot_be_read(made: Made, root: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/nowhere"
    with pytest.raises(UnreachableError, match=f"{HOST}/{REPO}: {url} cannot be fetched: fatal: ") as caught:
        fetch_clone(HOST, REPO, url, root)
    assert caught.value.hint.startswith(f"git ls-remote {url}")
    assert os.listdir(os.path.dirname(clone_path(HOST, REPO, root))) == ["aiter.git.lock"]
    fetch_clone(HOST, REPO, f"file://{made.path}", root)
    with pytest.raises(UnreachableError):
        fetch_clone(HOST, REPO, url, root)
    with pytest.raises(UnreachableError, match="transport 'http' not allowed"):
        fetch_clone(HOST, REPO, "http://127.0.0.1:1/x.git", root)
    kept = find_clone(HOST, REPO, {}, root)
    assert kept is not None
    assert kept.resolve("main") == made.head
    for refused in ("ext::sh -c echo%20x", "--upload-pack=touch"):
        with pytest.raises(UnreachableError):
            fetch_clone(HOST, "other/repo", refused, root)


def test_a_damaged_cached_clone_is_made_anew(made: Made, root: str) -> None:
    directory = fetch_clone(HOST, REPO, f"file://{made.path}", root).directory
    for name in os.listdir(os.path.join(directory, "objects/pack")):
        os.unlink(os.path.join(directory, "objects/pack", name))
    assert fetch_clone(HOST, REPO, f"file://{made.path}", root).resolve("main") == made.head
    shutil.rmtree(directory)
    os.makedirs(directory)
    assert fetch_clone(HOST, REPO, f"file://{made.path}", root).resolve("main") == made.head


def test_a_cached_clone_that_lacks_a_commit_names_its_cure(made: Made, root: str) -> None:
    directory = fetch_clone(HOST, REPO, f"file://{made.path}", root).directory
    clone = find_clone(HOST, REPO, {}, root)
    assert clone is not None
    with pytest.raises(UnreachableError) as caught:
        clone.log(["1" * 40])
    assert caught.value.hint == f"rm -r {directory}; patchkit status --fetch"


def test_another_run_fetches_the_same(made: Made, root: str) -> None:
    import fcntl

    fetch_clone(HOST, REPO, f"file://{made.path}", root)
    with open(f"{clone_path(HOST, REPO, root)}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another run fetches this clone"):
            fetch_clone(HOST, REPO, f"file://{made.path}", root)


def test_a_cache_that_cannot_be_written(made: Made, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedByMachineError, match="the cache cannot be used"):
        fetch_clone(HOST, REPO, f"file://{made.path}", str(tmp_path / "file"))
