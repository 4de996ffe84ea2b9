"""The shell reader: words as bash makes them (bash itself is the oracle), and what it does not guess."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from patchkit.core.errors import ConfigError
from patchkit.model.shell_heredocs import ShellSyntaxError, cut
from patchkit.model.shellscript import Command, Script, parse

CASES = Path(__file__).parents[1] / "cases" / "legacy"

WORDS = r"""
A=one; B="two words"; E=
show $A "$B" $B $E "$E" end
show "${A}x" '$A' "\$A \"q\" \\ \`" a\ b $'t\tq\'s' "a
b"
show ${A:-d} ${U1:-"d e"} "${U2:-d e}" ${A:+yes} ${E:-empty} "${E-set}" ${E:+no}
P=/x/y/z.tar.gz
show ${P%.*} ${P%%.*} ${P#*/} ${P##*/} ${P/y/Q} ${P//\//_} ${#P} ${P:3} ${P:1:2}
arr=(a "b c" d); arr+=(e)
show "${arr[@]}" ${arr[1]} ${#arr[@]} "${arr[0]}x" "pre${arr[@]}post" "${arr[*]}"
show "$(echo hi there)" $(printf '%s-%s\n' a b) "$(dirname /a/b/c)" $(basename /a/b.txt .txt) "`echo tick`"
Z="q'q"; show "$Z" '"' "a#b" a#b # a comment
show one \
  two
show "${P:?msg}" ${UU=assigned}; show $UU
T=$'a\nb'; show "$T" $T
"""

FLOW = r"""
A=one
f() { local A=inner x="$1"; shift; show f "$A" "$x" "$@" $#; }
f 1 "2 3" 4
show $A
g() { A=changed; }
g; show $A
(A=sub; show $A); show $A
for i in x "y z" a b; do show $i; done
case "$A" in ch*) show yes;; *) show no;; esac
if [ "$A" = changed ]; then show then; else show else; fi
[ -n "" ] && show never
[ -z "" ] && show empty
[[ "$A" == ch* ]] && show glob
[ 3 -gt 2 ] && [ "a" != "b" ] && show num
eval 'show "ev al" $A'
bash -c 'show "$0" "$1"' zero "o ne"
export EX=exp; bash -c "show \$EX $A"
! false && show neg
true || show never
{ show grp; }
k() { show "$*"; show "$@"; }; k "a b" c
m() { if [ "$1" = stop ]; then return 0; fi; show m "$1"; }
m stop; m go
exit 0
show dead
"""

TEXTS = r"""
A=one; B="two words"
X=$(cat <<'Q'
  lead $A
mid

Q
)
show "$X"
IFS= read -r -d '' R <<'Q' || true

 l1
l2
Q
show "$R"
read -r -d '' R2 <<Q || true
  $A \$A \\ end
Q
show "$R2"
cat <<Q | input
a $A ${B} \`x\` "q" 'r'
Q
input <<'Q'
$A \n `x`
Q
input <<-Q
	tabbed
		more
	Q
input <<< "$B"
echo "$X" | input
printf '%s' "$X" | input
h() { input; }
h <<'END OF IT'

to function
END OF IT
cat <<Q1 - <<Q2 | input
first
Q1
second
Q2
bash -c input <<< inherited
if true; then
  input <<Q; fi
inner
Q
show "$(cat <<'Q'
) " ' (
Q
)"
"""


def by_bash(tmp_path: Path, text: str) -> list[list[str]]:
    """What bash gives to `show` (words) and `input` (standard input), in order."""
    head = "#!/usr/bin/env python3\nimport json, os, sys\n"
    tail = "with open(os.environ['LOG'], 'a') as log:\n    print(json.dumps(words), file=log)\n"
    for name, words in (("show", "sys.argv[1:]"), ("input", "[sys.stdin.read()]")):
        tool = tmp_path / name
        tool.write_text(f"{head}words = ['{name}', *{words}]\n{tail}")
        tool.chmod(0o755)
    (tmp_path / "t.sh").write_text(text)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}
    subprocess.run(["bash", str(tmp_path / "t.sh")], env=environment, cwd=tmp_path, check=True)
    return [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


def by_patchkit(script: Script) -> list[list[str | None]]:
    found: list[list[str | None]] = []
    for command in script.commands:
        if any(condition.held is False for condition in command.conditions):
            continue
        if command.program == "show":
            found.append(["show", *(word.text for word in command.words[1:])])
        elif command.program == "input":
            found.append(["input", command.stdin.text if command.stdin is not None else None])
    return found


def read(text: str, **more: object) -> Script:
    return parse(text.encode("utf-8", "surrogateescape"), "t.sh", path="/work/t.sh", cwd="/work", **more)  # type: ignore[arg-type]


def command(script: Script, program: str) -> Command:
    return next(each for each in script.commands if each.program == program)


@pytest.mark.parametrize("text", [WORDS, FLOW, TEXTS], ids=["words", "flow", "texts"])
def test_as_bash_reads_it(tmp_path: Path, text: str) -> None:
    assert by_patchkit(read(text)) == by_bash(tmp_path, text)


def test_what_is_not_constant_says_why() -> None:
    script = read('show "$(hostname)" $HOME_DIR/x ~/x $1 $((1+1)) a{b,c} "$@"\n')
    whys = [word.why for word in command(script, "show").words[1:]]
    assert all(word.text is None for word in command(script, "show").words[1:])
    assert whys[0] == "it is what `hostname` in line 1 prints"
    assert whys[1] == "HOME_DIR is set by no line of the script"
    assert whys[3] == "$1 is given by whoever runs the script"
    assert "several words" in whys[5]


def test_a_branch_that_nothing_decides_makes_its_variables_unknown() -> None:
    script = read("X=a\nif something; then X=b; fi\nshow $X\nY=1\nif other; then Y=1; fi\nshow $Y\n")
    first, second = (c for c in script.commands if c.program == "show")
    assert first.words[1].why == "X: its value differs by branch"
    assert second.words[1].text == "1"


def test_directories_and_files() -> None:
    script = read(
        'HERE="$(cd "$(dirname "$0")" && pwd)"\ncd /site\npushd sub >/dev/null\nshow a\npopd\nshow b\n'
        'cat > "$HERE/x.patch" <<E\nbody\nE\nshow c\n(cd /else; show d)\nshow e\n'
    )
    shows = [each for each in script.commands if each.program == "show"]
    assert [each.cwd for each in shows] == ["/site/sub", "/site", "/site", "/else", "/site"]
    assert shows[2].files["/work/x.patch"].text == "body\n"
    assert shows[2].files["/work/x.patch"].line == 8


def test_lines_survive_heredocs() -> None:
    script = read("a\ncat <<E\n1\n2\nE\nb\nf() {\n  c <<E\nx\nE\n}\nf\n")
    assert [(each.program, each.line, each.calls) for each in script.commands if each.program in "abc"] == [
        ("a", 1, ()),
        ("b", 6, ()),
        ("c", 8, (12,)),
    ]


def test_functions_that_nothing_calls_are_there_as_never_run() -> None:
    script = read("f() { show; }\n")
    assert [c.held for c in command(script, "show").conditions] == [False]
    assert [(remark.kind, remark.text) for remark in script.remarks] == [("uncalled", "f")]


def test_wrappers() -> None:
    script = read("sudo -u root env A=b timeout -k 5 60 nice -n 5 show x\ncommand -v show\n")
    assert [each.program for each in script.commands] == ["show", "command"]


def test_recursion_and_depth_end() -> None:
    assert read("f() { f; show; }\nf\n").commands
    deep = "{ " * 3000 + "a" + "; }" * 3000
    with pytest.raises(ConfigError):
        read(deep + "\n")


def test_too_many_commands() -> None:
    words = " ".join(str(n) for n in range(400))
    with pytest.raises(ConfigError, match="more than 100000 commands"):
        read(f"for a in {words}; do for b in {words}; do :; done; done\n")


def test_five_megabytes() -> None:
    line = "echo 'a line of base64 that stands for a kernel' $A \\\\ \"'\" # (\n"
    big = "cat > /tmp/x <<'EOF'\n" + line * (5_000_000 // len(line)) + "EOF\ncat <<EOF\n" + "$A " * 20_000 + "\nEOF\n"
    start = time.perf_counter()
    script = read("A=1\n" + big + "show done\n")
    assert command(script, "show").words[1].text == "done"
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb <<E\nx\n", 2),
        ("a\n'x\n", 2),
        ("a\n\n`x\n", 3),
        ("a <<\n", 1),
        ("a $'x\n", 1),
        ("a <<E && b <<F\n1\nE\n2\n", 1),
    ],
)
def test_where_it_is_not_closed(text: str, line: int) -> None:
    with pytest.raises(ShellSyntaxError) as caught:
        cut(text)
    assert caught.value.places[0][0] == line


@pytest.mark.parametrize(
    "text", ["x=$((1 << 2))\n(( y = 1 << z ))\n", "cat <<<EOF\n", "# <<EOF\n", "a '<<EOF' \"<<EOF\"\n"]
)
def test_no_heredoc_where_there_is_none(text: str) -> None:
    assert cut(text) == (text, ())


def test_bytes_that_are_no_utf8() -> None:
    data = b"# J\xf6rg\ncat > x <<'E'\nJ\xf6rg\nE\nshow 'J\xf6rg'\n"
    script = parse(data, "t.sh", cwd="/w")
    shown = command(script, "show")
    assert shown.files["/w/x"].text == "J\udcf6rg\n"
    assert shown.words[1].text == "J\udcf6rg"


def test_the_legacy_script_lists_everything() -> None:
    data = (CASES / "apply_patches.sh").read_bytes()
    script = parse(data, "apply_patches.sh", path=str(CASES / "apply_patches.sh"), cwd=str(CASES))
    assert dict(script.assumed) == {"EXPERIMENTAL": "0", "SITE": "/usr/local/lib/python3.12/dist-packages"}
    assert sum(c.program == "patch" for c in script.commands) > 5
    lines = data.decode("latin-1").splitlines()
    for each in script.commands:
        first = each.raw.splitlines()[0].split()[0].strip("\"'([{") if each.raw.split() else ""
        assert first in lines[each.line - 1], each


@pytest.mark.parametrize(
    "before",
    ["echo a\n", "X=1\n", "a > b\n\n", "a <<'E'\n\\x\nE\n", "a | b # c\n\t", "if a; then\n  ", "echo 'q\n\\r'\n"],
)
def test_a_line_that_starts_with_a_quoted_name_is_a_command(before: str) -> None:
    after = "\nfi\n" if before.startswith("if") else "\n"
    last = parse(f"{before}\\cp x y{after}".encode(), "x").commands[-1]
    assert [word.text for word in last.words] == ["cp", "x", "y"]
    assert last.line == before.count("\n") + 1


def test_a_trap_is_read_as_commands() -> None:
    script = parse(b"W=w\nend() { rm $W; }\ntrap end EXIT\ntrap 'rm \"$W\" x' INT\ntrap - TERM\nW=v\n", "x")
    removed = [[word.text for word in each.words] for each in script.commands if each.program == "rm"]
    assert removed == [["rm", "w"], ["rm", "w", "x"]]
    assert not [remark for remark in script.remarks if remark.kind == "uncalled"]
    assert all(each.conditions[0].relation == "trap" for each in script.commands if each.program == "rm")
