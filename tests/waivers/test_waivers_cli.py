"""The commands: the scaffold, rendering, every form of output, the baseline."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.waivers.rules import RULES

from .conftest import IMAGE, ROOT, demo_waiver

if TYPE_CHECKING:
    from .conftest import Bench

TODAY = ("--today", "2026-12-01")


def break_it(bench: Bench) -> None:
    bench.edit("waivers/12.yaml", lambda waiver: waiver.update(owner="FILL IN: a%b,\nc"))
    bench.render()


# new


def test_new_marks_the_gaps_and_check_names_them(shipped: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    (shipped.root / "waivers/2508.yaml").unlink()
    (shipped.root / "docs/waiver/2508.md").unlink()
    assert shipped.run("waiver", "new", "2508", "--image", "nightly-cb", *TODAY) == 0
    assert capsys.readouterr().out == "waivers/2508.yaml: written; fill it in, then: patchkit waiver check\n"
    waiver = shipped.read("waivers/2508.yaml")
    steps = [step["id"] for step in shipped.read(f"patches/{IMAGE}/stack.yaml")["steps"]]
    assert waiver["covers"] == [f"{IMAGE}/{step}" for step in steps]
    assert waiver["filed"] == "2026-12-01"
    assert sorted(step for symptom in waiver["why"] for step in symptom["steps"]) == sorted(steps)
    codes = shipped.codes()
    assert set(codes) == {"gap", "statement-missing", "document-missing"}
    text = (shipped.root / "waivers/2508.yaml").read_text()
    gaps = [each for each in shipped.findings() if each.code == "gap"]
    assert len(gaps) == text.count("FILL IN") - 1  # the comment speaks of the mark
    assert {each.subject for each in shipped.findings() if each.code == "statement-missing"} == {
        "repository", "expires", "recipes",
    }  # fmt: skip
    assert shipped.run("waiver", "render") == 0  # a draft can be read
    assert "FILL IN" in (shipped.root / "docs/waiver/2508.md").read_text()


def test_new_derives_what_other_waivers_tell(demo: Bench) -> None:
    waiver = demo_waiver() | {"covers": ["demo/mla-fp8"], "no_upstream": []}
    waiver["why"][0]["steps"] = ["mla-fp8"]
    demo.write("waivers/12.yaml", waiver)
    assert demo.run("waiver", "new", "13", "--image", "demo", *TODAY) == 0
    new = demo.read("waivers/13.yaml")
    assert (new["repository"], new["pull_request"]) == ("example/benchmark", 13)
    assert new["covers"] == ["demo/worker", "demo/triton"]


def test_new_never_overwrites(shipped: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    before = (shipped.root / "waivers/2508.yaml").read_bytes()
    assert shipped.run("waiver", "new", "2508", "--image", IMAGE) == 2
    assert "waivers/2508.yaml: it is there already, and is not overwritten" in capsys.readouterr().err
    assert (shipped.root / "waivers/2508.yaml").read_bytes() == before


def test_new_does_not_follow_a_dangling_link(shipped: Bench) -> None:
    os.symlink(shipped.root / "elsewhere", shipped.root / "waivers/7.yaml")
    (shipped.root / "waivers/2508.yaml").unlink()
    assert shipped.run("waiver", "new", "7", "--image", IMAGE) == 2
    assert not (shipped.root / "elsewhere").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["new", "x", "--image", IMAGE], "PR: expected the number of a pull request, found 'x'"),
        (["new", "012", "--image", IMAGE], "PR: expected the number of a pull request, found '012'"),
        (["new", "7"], "--image is missing: whose steps does the waiver cover?"),
        (["new", "7", "--image", IMAGE], f"image {IMAGE}: every step is covered already"),
        (["new", "7", "--image", "other"], "has no such image"),
        (["render", "9"], "waivers/9.yaml: there is no such waiver"),
        (["render", "--template", "none.j2"], "none.j2: No such file or directory"),
        (["check", "--today", "tomorrow"], "--today tomorrow: expected a day such as 2026-12-01"),
        (["check", "--github", "--sarif"], "--json, --sarif and --github: only one of them can be printed"),
        (["check", "--write-baseline", "--reason", "x"], "a suppression needs a reason and an end"),
        (["check", "--baseline", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["what"], "invalid choice: 'what'"),
    ],
)
def test_what_is_refused(shipped: Bench, capsys: pytest.CaptureFixture[str], words: list[str], problem: str) -> None:
    assert shipped.run("waiver", *words) == 2
    captured = capsys.readouterr()
    assert problem in captured.err
    assert "hint: " in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("action", ["new", "render", "check"])
def test_help_has_an_example(capsys: pytest.CaptureFixture[str], action: str) -> None:
    from patchkit.cli.main import main

    with pytest.raises(SystemExit) as caught:
        main(["waiver", action, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"  patchkit waiver {action}" in text
    assert "--json" in text


# render


def test_render_check_fails_on_a_difference(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run("waiver", "render", "--check") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "docs/waiver/12.md: is up to date"
    path = demo.root / "docs/waiver/12.md"
    path.write_text(path.read_text() + "\n")
    assert demo.run("waiver", "render", "--check") == 5
    captured = capsys.readouterr()
    assert captured.out == "docs/waiver/12.md: differs\n"
    assert captured.err.startswith("error: docs/waiver/12.md: it is not what is rendered from waivers/12.yaml\n")
    code, document = demo.json(capsys, "waiver", "render", "--check", "12")
    assert (code, document["outcome"]) == (5, "refused")
    assert document["documents"] == [{"path": "docs/waiver/12.md", "changed": True}]
    code, document = demo.json(capsys, "waiver", "render")
    assert (code, document["outcome"]) == (0, "applied")
    code, document = demo.json(capsys, "waiver", "render")
    assert (code, document["outcome"]) == (0, "unchanged")


def test_render_refuses_a_stale_lock(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    path = demo.root / "patches/demo/mla.patch"
    path.write_text(path.read_text().replace("256", "512"))
    assert demo.run("waiver", "render") == 2
    assert "patches/demo/mla.patch: it was changed since the stack was locked" in capsys.readouterr().err


# check


def test_what_ships_passes_and_says_what_is_exempt(capsys: pytest.CaptureFixture[str]) -> None:
    from patchkit.cli.main import main

    assert main(["-C", str(ROOT), "waiver", "check", *TODAY]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert lines[0] == f"waivers/2508.yaml covers 19 steps of {IMAGE}"
    assert lines[-1] == "waiver check: no findings"
    exempt = [line.partition(" ")[0] for line in lines if "is exempt from waivers (governed: false): " in line]
    assert exempt == ["nightly-7c5dc571", "nightly-c50aca", "v0.27.1"]


def test_check_as_lines(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    break_it(demo)
    capsys.readouterr()
    assert demo.run("waiver", "check", *TODAY) == 5
    captured = capsys.readouterr()
    assert captured.out.splitlines()[:2] == [
        "waivers/12.yaml:5: gap: owner: FILL IN: a%b, c",
        "    fix: write the statement in its place",
    ]
    assert captured.err == (
        "error: waiver check: 1 finding\nhint: docs/waiver-rules.md explains each code\n"
    )  # fmt: skip


def test_check_as_json(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = demo.json(capsys, "waiver", "check", *TODAY)
    assert (code, document["outcome"], document["findings"], document["errors"]) == (0, "clean", [], [])
    break_it(demo)
    code, document = demo.json(capsys, "waiver", "check", *TODAY)
    assert (code, document["outcome"]) == (5, "refused")
    assert document["findings"] == [
        {
            "code": "gap",
            "path": "waivers/12.yaml",
            "line": 5,
            "step": None,
            "subject": "owner",
            "message": "owner: FILL IN: a%b, c",
            "fix": "write the statement in its place",
        }
    ]
    assert [error["code"] for error in document["errors"]] == ["finding"]


def test_check_as_sarif(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    break_it(demo)
    capsys.readouterr()
    assert demo.run("waiver", "check", "--sarif", *TODAY) == 5
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.code for rule in RULES]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "gap"
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "waivers/12.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 5},
    }
    assert re.fullmatch("[0-9a-f]{64}", result["partialFingerprints"]["patchkit/v1"])


def test_a_fingerprint_does_not_depend_on_the_line(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def fingerprint() -> str:
        capsys.readouterr()
        demo.run("waiver", "check", "--sarif", *TODAY)
        (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
        return result["partialFingerprints"]["patchkit/v1"]

    break_it(demo)
    first = fingerprint()
    path = demo.root / "waivers/12.yaml"
    path.write_text("# a line more\n" + path.read_text())
    assert fingerprint() == first


def test_check_as_annotations(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    break_it(demo)
    capsys.readouterr()
    assert demo.run("waiver", "check", "--github", *TODAY) == 5
    assert capsys.readouterr().out.splitlines()[0] == (
        "::error file=waivers/12.yaml,line=5,title=gap::"
        "owner: FILL IN: a%25b, c. To mend it: write the statement in its place"
    )
    demo.write("waivers/12.yaml", demo_waiver() | {"expires": "2026-12-03"})
    demo.render()
    capsys.readouterr()
    assert demo.run("waiver", "check", "--github", *TODAY) == 5
    assert capsys.readouterr().out.startswith("::warning file=waivers/12.yaml,line=7,title=expires-soon::")


def test_soon(demo: Bench) -> None:
    assert demo.run("waiver", "check", *TODAY, "--soon", "300") == 5
    assert demo.run("waiver", "check", *TODAY, "--soon", "3") == 0


# the baseline


def baseline_run(bench: Bench, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    return bench.json(capsys, "waiver", "check", *TODAY, *words)


def test_a_baseline_lets_a_project_begin(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """All findings of now are accepted with a reason and an end; a new one fails, a mended one is reported."""
    (demo.root / "waivers/12.yaml").unlink()
    (demo.root / "docs/waiver/12.md").unlink()
    demo.write("patches/demo/stray.patch", "x")
    accept = ("--write-baseline", "--reason", 'we "begin" #1', "--until", "2027-03-31")
    assert demo.run("waiver", "check", *TODAY, *accept) == 0
    code, document = baseline_run(demo, capsys)
    assert (code, document["findings"]) == (0, [])
    assert [each["code"] for each in document["suppressed"]] == ["stack-without-waiver", "file-uncovered"]
    assert demo.read("waivers/baseline.yaml")["suppressions"][0]["reason"] == 'we "begin" #1'

    demo.write("patches/demo/other.patch", "x")
    code, document = baseline_run(demo, capsys)
    assert (code, [each["subject"] for each in document["findings"]]) == (5, ["patches/demo/other.patch"])
    (demo.root / "patches/demo/other.patch").unlink()

    (demo.root / "patches/demo/stray.patch").unlink()
    code, document = baseline_run(demo, capsys)
    assert (code, [each["code"] for each in document["findings"]]) == (5, ["suppression-unused"])
    assert document["findings"][0]["line"] == 9
    assert "patches/demo/stray.patch" in document["findings"][0]["subject"]

    assert demo.run("waiver", "check", *TODAY, *accept) == 0  # written anew, without what was mended
    assert len(demo.read("waivers/baseline.yaml")["suppressions"]) == 1
    assert baseline_run(demo, capsys)[0] == 0
    code, document = demo.json(capsys, "waiver", "check", "--today", "2027-04-01")
    assert code == 5
    assert [each["code"] for each in document["findings"]] == ["stack-without-waiver", "suppression-expired"]


@pytest.mark.parametrize("key", ["reason", "expires", "code", "path"])
def test_a_suppression_needs_all_of_it(demo: Bench, capsys: pytest.CaptureFixture[str], key: str) -> None:
    entry = {"code": "gap", "path": "waivers/12.yaml", "reason": "x", "expires": "2027-01-01"}
    del entry[key]
    demo.write("waivers/baseline.yaml", {"suppressions": [entry]})
    assert demo.run("waiver", "check", *TODAY) == 2
    assert f"suppressions[0].{key}: required, but not there" in capsys.readouterr().err


def test_a_baseline_elsewhere(demo: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    break_it(demo)
    place = str(demo.root / "accepted.yaml")
    accept = ("--write-baseline", "--reason", "x", "--until", "2027-03-31", "--baseline", place)
    assert demo.run("waiver", "check", *TODAY, *accept) == 0
    assert baseline_run(demo, capsys)[0] == 5
    assert baseline_run(demo, capsys, "--baseline", place)[0] == 0
    capsys.readouterr()
    assert demo.run("waiver", "check", "--sarif", "--baseline", place, *TODAY) == 0
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "external"}]
