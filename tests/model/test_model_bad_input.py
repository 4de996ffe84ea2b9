"""Every mistake a person can make in an image or a stack file, with the whole message it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import ConfigError
from patchkit.model.load import load_image, load_stack

if TYPE_CHECKING:
    from pathlib import Path

IMAGE_KEYS = "components, digest, identity, name, platform, reference, site"
PATCH_KEYS = "id, patch, prefix, reason, removal, strip, type, upstream"
RELATIVE = "expected a relative path without `.`, `..`, empty parts or backslashes, and not under .patchkit"
KINDS = "a step has one of patch, replace, pip, file, run"
GOOD_IMAGE = "name: x\nreference: a/b:c\nsite: s\n"
GOOD_STACK = "image: x\nversion: 1\n"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("images", "patches/x", "patches/common"):
        (tmp_path / folder).mkdir(parents=True)
    for patch in ("patches/x/a.patch", "patches/common/b.patch", "patches/x/twice", "patches/common/twice"):
        (tmp_path / patch).touch()


IMAGES: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["1: expected a mapping, found nothing"]),
    "only a comment": ("# nothing\n", ["1: expected a mapping, found nothing"]),
    "list": ("- a\n", ["1: expected a mapping, found a list"]),
    "missing": (
        "site: s\n",
        ["1: name: required, but not there", "1: reference: required, but not there"],
    ),
    "unknown key": (
        GOOD_IMAGE + "digets: null\n",
        [f"4: digets: unknown key (did you mean digest?); allowed here: {IMAGE_KEYS}"],
    ),
    "far unknown key": (GOOD_IMAGE + "zzz: null\n", [f"4: zzz: unknown key; allowed here: {IMAGE_KEYS}"]),
    "duplicate": (GOOD_IMAGE + "name: y\n", ["4: name: written twice, first in line 1"]),
    "file name": (
        GOOD_IMAGE.replace("name: x", "name: y"),
        ['1: name: expected the name of the file, x, found "y"'],
    ),
    "number for text": (GOOD_IMAGE + "digest: 12\n", ["4: digest: expected a string, found 12: write it in quotes"]),
    "truth for text": (GOOD_IMAGE + "digest: true\n", ["4: digest: expected a string, found true: write it in quotes"]),
    "leading zeros": (
        GOOD_IMAGE + "digest: 0123\n",
        ["4: digest: 0123 is read in different ways: put it in quotes if it is text, or write a plain decimal number"],
    ),
    "long digits": (
        GOOD_IMAGE + f"digest: {'1' * 40}\n",
        [
            (
                f"4: digest: {'1' * 40} is read in different ways: put it in quotes if it is text, "
                "or write a plain decimal number"
            ),
        ],
    ),
    "digest": (
        GOOD_IMAGE + "digest: sha256:12\n",
        ['4: digest: expected sha256: and 64 lower-case hex digits, found "sha256:12"'],
    ),
    "digest in reference": (
        GOOD_IMAGE.replace("a/b:c", f"a/b@sha256:{'0' * 64}"),
        [
            (
                "2: reference: expected a container reference without a digest, which has its own key, "
                f'found "a/b@sha256:{"0" * 46}..."'
            ),
        ],
    ),
    "platform": (GOOD_IMAGE + "platform: amd\n", ['4: platform: expected a platform such as linux/amd64, found "amd"']),
    "site leaves the root": (GOOD_IMAGE.replace("site: s", "site: a/../b"), [f'3: site: {RELATIVE}, found "a/../b"']),
    "site absolute": (GOOD_IMAGE.replace("site: s", "site: [/usr, b]"), [f'3: site[0]: {RELATIVE}, found "/usr"']),
    "no site": (
        GOOD_IMAGE.replace("site: s", "site: []"),
        ["3: site: expected a list with at least one item, found an empty list"],
    ),
    "site null": (GOOD_IMAGE.replace("site: s", "site:"), ["3: site: expected a string, found nothing"]),
    "exact text": (
        GOOD_IMAGE + 'components: {vllm: {repo: a/b, release: "1", exact: "true"}}\n',
        ['4: components.vllm.exact: expected true or false, found "true"'],
    ),
    "exact without release": (
        GOOD_IMAGE + "components: {vllm: {repo: a/b, exact: true}}\n",
        ["4: components.vllm.exact: true needs a `release` to be exact about"],
    ),
    "component": (
        GOOD_IMAGE + "components:\n  a b: {repo: a/b}\n  c: {repo: a, commit: 6E448D0}\n  d: 3\n",
        [
            '5: components.a b: expected a name of letters, digits, dots, dashes and underscores, found "a b"',
            '6: components.c.repo: expected owner/repo, found "a"',
            '6: components.c.commit: expected 7 to 40 lower-case hex digits, found "6E448D0"',
            "7: components.d: expected a mapping, found 3",
        ],
    ),
    "identity": (
        GOOD_IMAGE + "identity:\n  file: ../x\n  commit: 1234567\n",
        [
            f'5: identity.file: {RELATIVE}, found "../x"',
            "6: identity.commit: expected a string, found 1234567: write it in quotes",
        ],
    ),
    "anchor and alias": (
        GOOD_IMAGE + "platform: &p linux/amd64\ndigest: *p\n",
        [
            "4: platform: an anchor (&p): write the value out where it is needed",
            "5: digest: an alias (*p): write the value out",
        ],
    ),
    "merge key": (
        GOOD_IMAGE + "identity: {<<: {file: a}, file: b, commit: abcdef0}\n",
        ["4: identity.<<: a merge key: write the values out"],
    ),
    "tag": (
        GOOD_IMAGE + "digest: !!python/object/apply:os.system [id]\n",
        [
            (
                "4: digest: a tag (tag:yaml.org,2002:python/object/apply:os.system): "
                "write the value without it, in quotes if it is text"
            ),
        ],
    ),
    "key not text": (
        GOOD_IMAGE + "components: {1: {repo: a/b}, true: {repo: a/b}, [a]: {repo: a/b}}\n",
        [
            "4: components.1: a key is text, found 1: put it in quotes",
            "4: components.true: a key is text, found true: put it in quotes",
            "4: components.?: a key is plain text, not an alias, a list or a mapping",
        ],
    ),
    "two documents": (GOOD_IMAGE + "---\na: b\n", ["4: a second document starts here: one file holds one"]),
    "too deep": (
        GOOD_IMAGE + "digest: " + "[" * 30 + "]" * 30 + "\n",
        ["4: digest[0]: nested more than 20 deep"],
    ),
    "tab": (GOOD_IMAGE + "identity:\n\tfile: a\n", ["5: a tab where YAML wants spaces"]),
    "not UTF-8": (b"name: x\nreference: \xff\n", ["2: not UTF-8: byte 0xff"]),
    "NUL": (b"name: x\nreference: a\0b\n", ["2: a character that no text holds: U+0000"]),
    "NUL escaped": (
        GOOD_IMAGE + 'digest: "a\\0"\n',
        ["4: digest: a character that no text here holds: U+0000"],
    ),
    "lone surrogate": (
        GOOD_IMAGE + 'digest: "\\ud800"\n',
        ["4: digest: a character that no text here holds: U+D800"],
    ),
    "unclosed": (
        GOOD_IMAGE + "identity: {file: a\n",
        ["5: not YAML: expected ',' or '}', but got '<stream end>' (while parsing a flow mapping)"],
    ),
}


@pytest.mark.parametrize("name", IMAGES)
def test_bad_image(name: str, tmp_path: Path) -> None:
    content, expected = IMAGES[name]
    path = tmp_path / "images" / "x.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        load_image(path)
    assert list(caught.value.problems) == [f"images/x.yaml:{line}" for line in expected]
    assert caught.value.hint == "correct images/x.yaml, then type: patchkit image show x"


STACKS: dict[str, tuple[str, list[str]]] = {
    "missing": ("image: x\n", ["1: version: required, but not there", "1: steps: required, but not there"]),
    "folder": ("image: y\nversion: 1\nsteps: []\n", ['1: image: expected the name of the folder, x, found "y"']),
    "version zero": (
        "image: x\nversion: 0\nsteps: []\n",
        ["2: version: expected a whole number, 1 or more, found 0"],
    ),
    "version as text": (
        "image: x\nversion: 1e5\nsteps: []\n",
        ['2: version: expected a whole number, found "1e5"'],
    ),
    "ungoverned": (
        GOOD_STACK + "governed: false\nsteps: []\n",
        ["3: governed: false needs a `reason`: why no waiver is needed"],
    ),
    "yes": (GOOD_STACK + "governed: yes\nsteps: []\n", ['3: governed: expected true or false, found "yes"']),
    "steps no list": (GOOD_STACK + "steps: {id: a}\n", ["3: steps: expected a list, found a mapping"]),
}
STEPS: dict[str, tuple[str, list[str]]] = {
    "no mapping": ("a", ['4: steps[0]: expected a mapping, found "a"']),
    "no kind": ("{id: a}", [f"4: steps[0]: {KINDS}; found none"]),
    "mistyped kind": (
        "{id: a, pach: a.patch}",
        [
            (
                "4: steps[0].pach: unknown key (did you mean patch?); allowed here: "
                "file, id, patch, pip, prefix, reason, removal, replace, run, strip, type, upstream"
            ),
            f"4: steps[0]: {KINDS}; found none",
        ],
    ),
    "two kinds": ("{id: a, patch: null, pip: null}", [f"4: steps[0].pip: {KINDS}; found patch and pip"]),
    "id": (
        "{id: A_b, patch: a.patch}",
        ['4: steps[0].id: expected lower-case letters, digits and dashes, such as kda-state-indices, found "A_b"'],
    ),
    "same id": (
        "{id: a, patch: a.patch}\n  - {id: a, patch: b.patch}",
        ['5: steps[1].id: "a" is the id of steps[0] too'],
    ),
    "patch number": ("{id: a, patch: 3}", ["4: steps[0].patch: expected a string, found 3: write it in quotes"]),
    "patch list": ("{id: a, patch: [a.patch]}", ["4: steps[0].patch: expected a string, found a list"]),
    "patch path": (
        "{id: a, patch: ../a.patch}",
        [
            (
                "4: steps[0].patch: expected the plain name of a file beside stack.yaml or in patches/common/, "
                'found "../a.patch"'
            ),
        ],
    ),
    "patch missing": (
        "{id: a, patch: z}",
        ["4: steps[0].patch: no such file: neither patches/x/z nor patches/common/z"],
    ),
    "patch twice": (
        "{id: a, patch: twice}",
        ["4: steps[0].patch: twice is there twice: patches/x/twice and patches/common/twice: keep one"],
    ),
    "step key": (
        "{id: a, patch: a.patch, stripe: 1}",
        [f"4: steps[0].stripe: unknown key (did you mean strip?); allowed here: {PATCH_KEYS}"],
    ),
    "strip": (
        "{id: a, patch: a.patch, strip: -1}",
        ["4: steps[0].strip: expected a whole number, 0 or more, found -1"],
    ),
    "prefix": ("{id: a, patch: a.patch, prefix: /a}", [f'4: steps[0].prefix: {RELATIVE}, found "/a"']),
    "short commit": (
        "{id: a, patch: {commit: ROCm/aiter@6e448d0, paths: [a//b, a/]}}",
        [
            (
                "4: steps[0].patch.commit: expected owner/repo@ and all 40 lower-case hex digits of a commit, "
                'found "ROCm/aiter@6e448d0"'
            ),
            f'4: steps[0].patch.paths[0]: {RELATIVE}, found "a//b"',
        ],
    ),
    "commit keys": (
        f"{{id: a, patch: {{comit: a/b@{COMMIT}}}}}",
        [
            "4: steps[0].patch.commit: required, but not there",
            "4: steps[0].patch.paths: required, but not there",
            "4: steps[0].patch.comit: unknown key (did you mean commit?); allowed here: commit, paths",
        ],
    ),
    "upstream": (
        "{id: a, patch: a.patch, upstream: ['51682', vllm#1, 7]}",
        [
            '4: steps[0].upstream[0]: expected owner/repo#N, such as vllm-project/vllm#51682, found "51682"',
            '4: steps[0].upstream[1]: expected owner/repo#N, such as vllm-project/vllm#51682, found "vllm#1"',
            "4: steps[0].upstream[2]: expected a string, found 7: write it in quotes",
        ],
    ),
    "type": (
        "{id: a, patch: a.patch, type: unofficial}",
        ['4: steps[0].type: expected cherry-pick, backport or local, found "unofficial"'],
    ),
    "type without upstream": (
        "{id: a, patch: a.patch, type: backport}",
        ["4: steps[0].type: backport needs an `upstream`; a step without one is local"],
    ),
    "reason": ("{id: a, patch: a.patch, reason: ' '}", ['4: steps[0].reason: expected some text, found " "']),
    "removal ref": (
        "{id: a, patch: a.patch, upstream: [a/b#1, a/b#2], removal: {when: contained, ref: a/b#3}}",
        ['4: steps[0].removal.ref: contained waits for one of the step\'s upstream (a/b#1, a/b#2), found "a/b#3"'],
    ),
    "removal without ref": (
        "{id: a, patch: a.patch, removal: {when: released}}",
        [
            (
                "4: steps[0].removal.when: released waits for one of the step's upstream "
                "(the step has none: when: manual), found nothing"
            ),
        ],
    ),
    "removal when": (
        "{id: a, patch: a.patch, removal: {when: never, nte: a}}",
        [
            '4: steps[0].removal.when: expected contained, released or manual, found "never"',
            "4: steps[0].removal.nte: unknown key (did you mean note?); allowed here: note, ref, when",
        ],
    ),
    "replace": (
        "{id: a, replace: {path: .patchkit/a, find: '', with: 3, count: 0}}",
        [
            f'4: steps[0].replace.path: {RELATIVE}, found ".patchkit/a"',
            '4: steps[0].replace.find: expected some text, found ""',
            "4: steps[0].replace.with: expected a string, found 3: write it in quotes",
            "4: steps[0].replace.count: expected a whole number, 1 or more, found 0",
        ],
    ),
    "pip": (
        "{id: a, pip: {requirements: [triton, 'a>=1', {name: b}, []], index: 'http://a', hashes: no}}",
        [
            (
                "4: steps[0].pip.requirements[0]: expected a requirement pinned with ==, such as triton==3.7.0, "
                'found "triton"'
            ),
            (
                "4: steps[0].pip.requirements[1]: expected a requirement pinned with ==, such as triton==3.7.0, "
                'found "a>=1"'
            ),
            "4: steps[0].pip.requirements[2].version: required, but not there",
            "4: steps[0].pip.requirements[3]: expected a string, found a list",
            (
                "4: steps[0].pip.index: expected an https:// address, or `default` for the index that pip is set to, "
                'found "http://a"'
            ),
            '4: steps[0].pip.hashes: expected required or first-use, found "no"',
        ],
    ),
    "file": (
        "{id: a, file: {path: 'a\\b', url: 'http://a/b', sha256: abc, mode: '9'}}",
        [
            f'4: steps[0].file.path: {RELATIVE}, found "a\\b"',
            '4: steps[0].file.url: expected an https:// address, found "http://a/b"',
            '4: steps[0].file.sha256: expected a sha256: 64 lower-case hex digits, found "abc"',
            '4: steps[0].file.mode: expected an octal file mode in quotes, such as "0644", found "9"',
        ],
    ),
    "run": (
        "{id: a, run: {argv: [], stage: never, needs: gpu, env: {1a: 3}, timeout: 0}}",
        [
            "4: steps[0].run.argv: expected a list with at least one item, found an empty list",
            '4: steps[0].run.stage: expected build or runtime, found "never"',
            '4: steps[0].run.needs: expected a list, found "gpu"',
            '4: steps[0].run.env.1a: expected the name of an environment variable, found "1a"',
            "4: steps[0].run.env.1a: expected a string, found 3: write it in quotes",
            "4: steps[0].run.timeout: expected a whole number, 1 or more, found 0",
        ],
    ),
    "questions": (
        "{id: a, run: {argv: [a], unless: {}, check: {path: a, argv: [b]}}}",
        [
            "4: steps[0].run.unless: expected one of path and argv, found none",
            "4: steps[0].run.check: expected one of path and argv, found both",
        ],
    ),
    "question's content": (
        f"{{id: a, run: {{argv: [a], check: {{sha256: {'ab' * 32}, argv: [b]}}}}}}",
        ["4: steps[0].run.check.sha256: goes with path, not with argv"],
    ),
}
STACKS.update({name: (f"{GOOD_STACK}steps:\n  - {text}\n", expected) for name, (text, expected) in STEPS.items()})


@pytest.mark.parametrize("name", STACKS)
def test_bad_stack(name: str, tmp_path: Path) -> None:
    content, expected = STACKS[name]
    path = tmp_path / "patches" / "x" / "stack.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_stack(path)
    assert list(caught.value.problems) == [f"patches/x/stack.yaml:{line}" for line in expected]
    assert caught.value.hint == "correct patches/x/stack.yaml, then type: patchkit lock --image x"


def test_the_table_is_long_enough() -> None:
    assert len(IMAGES) + len(STACKS) >= 40


def test_every_problem_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "patches" / "x" / "stack.yaml"
    path.write_text("image: y\nversion: *v\nsteps:\n  - id: A\n    patch: z\n  - 3\ngoverned: 1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_stack(path)
    assert str(caught.value) == (
        'patches/x/stack.yaml:1: image: expected the name of the folder, x, found "y"\n'
        "patches/x/stack.yaml:2: version: an alias (*v): write the value out\n"
        "patches/x/stack.yaml:4: steps[0].id: expected lower-case letters, digits and dashes, "
        'such as kda-state-indices, found "A"\n'
        "patches/x/stack.yaml:5: steps[0].patch: no such file: neither patches/x/z nor patches/common/z\n"
        "patches/x/stack.yaml:6: steps[1]: expected a mapping, found 3\n"
        "patches/x/stack.yaml:7: governed: expected true or false, found 1"
    )


def test_too_large(tmp_path: Path) -> None:
    path = tmp_path / "images" / "x.yaml"
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(
        ConfigError, match=r"^images/x\.yaml: larger than 1024 KiB: no image or stack file is that long$"
    ):
        load_image(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^images/no\.yaml: cannot be read: No such file or directory$"):
        load_image(tmp_path / "images" / "no.yaml")


def test_folder_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^images: not a regular file$"):
        load_image(tmp_path / "images")


def test_a_file_elsewhere_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "images")
    with pytest.raises(ConfigError) as caught:
        load_stack(tmp_path / "patches" / "x" / "stack.yaml")
    assert str(caught.value) == f"{tmp_path}/patches/x/stack.yaml: cannot be read: No such file or directory"


def test_billion_laughs(tmp_path: Path) -> None:
    rows = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    path = tmp_path / "images" / "x.yaml"
    path.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_image(path)
    problems = caught.value.problems
    assert sum("an alias" in problem for problem in problems) == 81
    assert sum("an anchor" in problem for problem in problems) == 10
    assert "images/x.yaml:2: a1[0]: an alias (*a0): write the value out" in problems
