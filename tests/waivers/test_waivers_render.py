"""The document: free text stays text, the same input gives the same bytes, a template can do no more than print."""

from __future__ import annotations

import os
import re
import string
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from patchkit.app import waivers
from patchkit.app.project import Project
from patchkit.core.errors import ConfigError
from patchkit.waivers import markdown
from patchkit.waivers.documents import block_of
from patchkit.waivers.render import render
from patchkit.waivers.view import derive

from .conftest import ROOT, Bench, copy_shipped, demo_waiver

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.waivers.view import View

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKUP = st.sampled_from([*"{}|<>&`*_[]()#+-.!\\~$^=:\"' \n\t", "{{ x }}", "{% if %}", "<b>", "<!--", "```", "1. ",
                          "![a](b)", "https://x.y", "www.x.y", "---", "|---|", "a@b.c", "&amp;", "\\|", "  \n", "##"])  # fmt: skip
TEXTS = st.lists(st.one_of(MARKUP, st.text(alphabet=string.ascii_letters + string.digits + " éß中\u202e\u200b", max_size=5)),
                 max_size=12).map("".join)  # fmt: skip


def visible(text: str) -> str:
    """What a person is to see of a text: on one line, and what hides or turns is spelled out."""
    shown = "".join(c if c.isprintable() or c.isspace() else f"U+{ord(c):04X}" for c in text)
    return " ".join(shown.split())


def seen(document: str) -> tuple[list[str], list[str]]:
    """What a reader sees of Markdown: the inline texts, and the kinds of everything that is not plain text."""
    texts, markup = [], []
    for token in READER.parse(document):
        if token.type == "inline":
            texts.append("".join(child.content for child in token.children or []))
            markup += [child.type for child in token.children or [] if child.type != "text"]
    return texts, markup


@given(TEXTS)
@example("{{ 7*7 }} {% raw %} | <script>alert(1)</script>\n# no heading\n\n- no list")
@example("1. not a list")
@example("+ 3 - 4 = *five*")
@example("\\")
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_as_that_text(text: str) -> None:
    escaped = markdown.escape(text)
    assert "\n" not in escaped
    expected = visible(text)
    texts, markup = seen(f"{escaped}\n")
    assert (texts, markup) == ([expected] if expected else [], [])
    texts, markup = seen(f"- {escaped}\n")
    assert (texts, markup) == ([expected] if expected else [], [])
    texts, markup = seen(f"| a | b |\n|---|---|\n| {escaped} | end |\n")
    assert (texts, markup) == (["a", "b", expected, "end"], [])


@given(TEXTS)
@settings(max_examples=100, deadline=None)
def test_code_and_links_hold_any_text(text: str) -> None:
    expected = visible(text)
    texts, _ = seen(f"| a | b |\n|---|---|\n| {markdown.code(text)} | end |\n")
    assert texts == ["a", "b", expected, "end"]
    texts, markup = seen(f"| a | b |\n|---|---|\n| {markdown.link(text, 'https://x.example/' + text)} | end |\n")
    assert texts == ["a", "b", expected, "end"]
    assert markup == ["link_open", "link_close"]


def test_other_addresses_are_no_links() -> None:
    assert markdown.link("x", "javascript:alert(1)") == "x (javascript:alert(1))"


@given(TEXTS.filter(str.strip))
@example("{{ view }} {% for x in y %} | </table> ```json {} ```")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_statement_renders_as_text(demo_view: tuple[Bench, str], text: str) -> None:
    bench, _ = demo_view
    said = demo_waiver() | {"owner": text, "entrypoint": text, "removal": {"plan": text}}
    said["why"] = [{"symptom": text, "steps": ["mla-fp8", "worker", "triton"]}]
    said["no_upstream"] = [{"steps": ["worker", "triton"], "because": text}]
    said["config"] = [{"entry": text, "file": text, "script": text, "values": {text.strip(): text}}]
    try:
        bench.write("waivers/12.yaml", said)
        document = waivers.read(Project(root=str(bench.root))).waivers[0].rendered
    except ConfigError as error:  # a character that no YAML file may hold
        assert "no text" in str(error) or "keys" in str(error)
        return
    assert document is not None
    expected = visible(text)
    if not expected:
        return
    texts, markup = seen(document)
    assert [each for each in texts if each == expected][:2] == [expected] * 2  # the owner, the plan
    assert f"Entrypoint: {expected}" in texts
    assert set(markup) <= {"code_inline", "link_open", "link_close", "softbreak"}
    assert [token.type for token in READER.parse(document) if token.type == "html_block"] == ["html_block"]
    headings = [line for line in document.splitlines() if line.startswith("#")]
    assert headings == HEADINGS
    assert block_of(document) is not None


HEADINGS = [
    "# Waiver example/benchmark#12", "## Config covered", "## What is patched",
    "## Why the unmodified upstream image cannot run this benchmark", "## Upstream PR and issue links", "## Removal plan",
    "## For machines",
]  # fmt: skip


@pytest.fixture
def demo_view(demo: Bench) -> tuple[Bench, str]:
    return demo, (demo.root / "docs/waiver/12.md").read_text()


def view_of(bench: Bench) -> View:
    subject = waivers.read(Project(root=str(bench.root)))
    (waiver,) = subject.waivers
    stack = subject.stack(waiver.waiver.image)
    assert stack is not None
    return derive(waiver, stack, subject.record)


def test_the_document_that_ships_is_fresh_and_whole(shipped: Bench) -> None:
    text = (shipped.root / "docs/waiver/2508.md").read_text("utf-8")
    assert view_of(shipped).waiver.pull_request == 2508
    assert render(view_of(shipped)) == text
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == HEADINGS[1:]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for step in view_of(shipped).steps:
        for file in step.files:
            assert any(f"`{file.path}` | `{step.id}`" in row for row in rows)
        for pin in step.pins:
            assert any(f"package `{pin.requirement}` | `{step.id}`" in row for row in rows)


def test_what_is_not_known_is_said_and_never_made_up(shipped: Bench) -> None:
    by_id = {step.id: step for step in view_of(shipped).steps}
    unresolved = {step.id for step in by_id.values() if step.unknown}
    assert len(unresolved) == 14
    for step_id in unresolved:
        step = by_id[step_id]
        assert all(file.count is None and file.size == "not known" for file in step.files)
        assert step.files or step.pins or step.command == "not known"
    assert by_id["tabulate"].pins[0].requirement == "tabulate (version not known)"
    assert by_id["triton"].pins[0].index == "not known"
    counted = [file.count for step in by_id.values() for file in step.files if file.count is not None]
    assert [(count.added, count.removed, count.hunks) for count in counted] == [
        (74, 0, 1), (4, 0, 1), (2, 1, 2), (19, 0, 3), (5, 3, 4), (14, 0, 3), (19, 3, 6),
    ]  # fmt: skip


def test_the_counts_are_those_of_git(shipped: Bench, tmp_path: Path) -> None:
    """`git apply --numstat` is the oracle for lines; hunks are counted by their heads."""
    for step in view_of(shipped).steps:
        if step.input is None:
            continue
        (path,) = [
            path for path in (shipped.root / "patches/common").iterdir() if path.stem == step.id
        ]  # fmt: skip
        done = subprocess.run(
            ["git", "apply", "--numstat", str(path)], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        told = {line.split("\t")[2]: tuple(map(int, line.split("\t")[:2])) for line in done.stdout.splitlines()}
        counts = {file.path: file.count for file in step.files}
        assert {path: (count.added, count.removed) for path, count in counts.items() if count} == told
        hunks = len(re.findall(r"(?m)^@@ ", path.read_text()))
        assert sum(count.hunks for count in counts.values() if count) == hunks


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C", "COLUMNS": "20"},
        {"PYTHONHASHSEED": "2", "TZ": "America/New_York", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "0"},
    ],
)
def test_the_same_bytes_on_every_machine(tmp_path: Path, environment: dict[str, str]) -> None:
    bench = copy_shipped(tmp_path / f"elsewhere {environment['PYTHONHASHSEED']}")
    expected = (ROOT / "docs/waiver/2508.md").read_bytes()
    (bench.root / "docs/waiver/2508.md").unlink()
    command = [sys.executable, "-m", "patchkit", "waiver", "render", "-C", str(bench.root)]
    subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True)
    assert (bench.root / "docs/waiver/2508.md").read_bytes() == expected


def test_rendering_again_writes_nothing(shipped: Bench) -> None:
    path = shipped.root / "docs/waiver/2508.md"
    before = path.stat().st_mtime_ns
    assert shipped.run("waiver", "render") == 0
    assert path.stat().st_mtime_ns == before


# templates

OWN = '{% extends "waiver.md.j2" %}{% block why %}Because {{ view.waiver.why[0].symptom }}{% endblock %}'


def test_an_own_template_changes_one_section(demo: Bench) -> None:
    text = render(view_of(demo), OWN, "own")
    assert "\nBecause It answers nonsense.\n" in text
    assert "## Removal plan" in text


def test_an_own_template_escapes_too(demo: Bench) -> None:
    demo.edit("waivers/12.yaml", lambda waiver: waiver.update(owner="a|b <i> {{ c }}"))
    view = view_of(demo)
    assert render(view, "{{ view.waiver.owner }}") == "a\\|b \\<i\\> \\{\\{ c \\}\\}\n"
    macro = "{% macro m(x) %}*{{ x }}*{% endmacro %}{{ m(view.waiver.owner) }}"
    assert render(view, macro) == "*a\\|b \\<i\\> \\{\\{ c \\}\\}*\n"
    assert render(view, '{{ view.waiver.owner|replace("a", "|") }}') == "\\|\\|b \\<i\\> \\{\\{ c \\}\\}\n"
    assert render(view, '{{ [view.waiver.owner, "`"]|join("*") }}') == "a\\|b \\<i\\> \\{\\{ c \\}\\}\\*\\`\n"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ view.nothing }}", "own: 'patchkit.waivers.view.View object' has no attribute 'nothing'"),
        ("{{ nothing }}", "own: 'nothing' is undefined"),
        ("x\n{% for %}", "own:2: Expected an expression, got 'end of statement block'"),
        ('{% include "other" %}', "own: other"),
        ("{{ view.waiver.__class__.__mro__ }}", "own: access to attribute '__class__' of 'Waiver' object is unsafe."),
        ("{{ 1 // 0 }}", "own: integer division or modulo by zero"),
        ("{{ view.block|tojson }}", "own:1: No filter named 'tojson'."),
        ('{{ fence("```") }}', "own: a fenced block cannot hold three backticks"),
    ],
)
def test_what_a_template_cannot_do(demo: Bench, template: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        render(view_of(demo), template, "own")
    assert str(caught.value).startswith(problem)
    assert caught.value.exit_code == 2


def test_the_projects_own_template_is_taken_by_render_and_check(demo: Bench) -> None:
    demo.write("waivers/template.md.j2", OWN)
    assert demo.codes() == ["document-stale"]
    assert demo.run("waiver", "render") == 0
    assert "Because It answers nonsense." in (demo.root / "docs/waiver/12.md").read_text()
    assert demo.codes() == []
