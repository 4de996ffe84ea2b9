"""Files that are made to break a scanner: it neither crashes nor hangs on any of them."""

from __future__ import annotations

import time

import pytest

from patchkit.waivers.scan import scan_report

SED = "sed -i s/a/b/ /usr/local/lib/python3.12/dist-packages/vllm/envs.py\n"
SITE = "/usr/local/lib/python3.12/dist-packages/vllm"
LIMIT = 20.0  # seconds; the machine is shared

FILES = {
    "long-line.sh": ("# vllm\necho " + "a" * 10_000_000).encode(),
    "long-line-below-the-limit.sh": ("# vllm\necho " + "$(a " * 200_000).encode(),
    "words.sh": ("# vllm\necho " + "a " * 450_000).encode(),
    "unclosed-heredoc.sh": (SED + "cat <<EOF\n" + "vllm\n" * 50_000).encode(),
    "unclosed-quotes.sh": (SED + "echo 'vllm\n" * 20_001).encode(),
    "nul.sh": b"# vllm\n" + b"\0" * 100_000,
    "nul-late.sh": SED.encode() + b"#" * 5000 + b"\n\0\0\n" + SED.encode(),
    "binary.sh": b"#!/bin/sh\n# vllm" + bytes(range(256)) * 2000,
    "nested-if.sh": ("# vllm\n" + "if true; then\n" * 5_000 + SED + "fi\n" * 5_000).encode(),
    "nested-substitution.sh": ("# vllm\nx=" + "$(" * 20_000 + ")" * 20_000 + "\n").encode(),
    "nested-braces.sh": ("# vllm\n" + "{ " * 20_000).encode(),
    "parentheses.sh": ("# vllm\n" + "(" * 100_000).encode(),
    "doubling.sh": ("# vllm\nx=aa\nfor i in " + "1 " * 60 + "; do x=$x$x; done\n" + SED).encode(),
    "calls.sh": ("\n".join(f"f{i}() {{ f{i + 1}; f{i + 1}; }}" for i in range(40)) + "\nf0\n" + SED).encode(),
    "loops.sh": ("for a in {}; do\n".format("1 " * 100) * 5 + SED + "done\n" * 5).encode(),
    "recursive.sh": ("f() { f; vllm; f; }\nf\n" + SED).encode(),
    "eval.sh": ('x=\'eval "$x"\'\neval "$x"\n' + SED).encode(),
    "nested.py": ("import vllm\nx = " + "(" * 5_000 + ")" * 5_000).encode(),
    "sums.py": ("import vllm\nx = " + "+".join(["1"] * 100_000)).encode(),
    "not.py": ("import vllm\nx = " + "not " * 50_000 + "1").encode(),
    "attributes.py": ("import vllm\nvllm" + ".x" * 30_000 + " = 1").encode(),
    "recursion.py": (b"import vllm\ndef f(x):\n    f(x)\n    f(x)\n    g(x)\ndef g(x):\n    f(x)\n    g(x)\nf(1)\n"),
    "nested.yaml": ("vllm: " + "[" * 100_000).encode(),
    "bomb.yaml": (
        "a: &a [vllm, vllm]\n"
        + "\n".join(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]" for i in range(20))
    ).encode(),
    "tabs.yaml": b"run:\n\t- vllm\n\x00\x01",
    "long.Dockerfile": ("FROM vllm\nRUN " + "true && \\\n" * 50_000 + "true").encode(),
    "heredoc.Dockerfile": ("FROM vllm\nRUN <<EOF\n" + SED * 1000).encode(),
    "empty.sh": b"",
    "vllm.patch": ("--- a/vllm/x.py\n+++ b/vllm/x.py\n" * 20_000).encode(),
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_it_ends(name, tmp_path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    start = time.process_time()
    report = scan_report([tmp_path], cache=False)
    assert time.process_time() - start < LIMIT
    assert report.files == 1
    if name.startswith("long-line.") or name in ("nul.sh", "binary.sh"):
        assert report.unread


@pytest.mark.parametrize(
    "name",
    ["unclosed-heredoc.sh", "unclosed-quotes.sh", "nul-late.sh", "doubling.sh", "calls.sh", "loops.sh", "recursive.sh"],
)
def test_what_can_be_read_is_found(name, tmp_path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    found = scan_report([tmp_path], cache=False).findings
    assert {(f.kind, f.touches) for f in found} == {("edit", "vllm/envs.py")}
