"""The translation, one shape of the field at a time: what becomes a step, what is dropped, what is a finding."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.app import import_script
from patchkit.app.import_python import follow
from patchkit.app.project import Project
from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.app.import_script import Plan

SITE = "usr/lib/python3/dist-packages"
GO = f"cd /{SITE}\n"
DIFF = "--- a/demo/a.py\n+++ b/demo/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
OTHER = DIFF.replace("a.py", "b.py")
HERE = f"<<'EOF'\n{DIFF}EOF\n"


@dataclass
class Shop:
    """A project without a stack, and the folder in which scripts lie."""

    folder: Path

    @property
    def project(self) -> Project:
        return Project(root=str(self.folder / "project"))

    def plan(self, text: str, **more: Any) -> Plan:
        path = self.folder / "scripts" / "apply.sh"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return import_script.plan(self.project, "demo", path, **more)

    def step(self, text: str, **more: Any) -> dict[str, Any]:
        """The one step of a script that translates whole."""
        plan = self.plan(text, **more)
        assert [finding.message for finding in plan.findings] == []
        (step,) = plan.steps
        return dict(step.data)

    def finding(self, text: str, **more: Any) -> tuple[str, int]:
        """The one finding of a script that gives no step."""
        plan = self.plan(text, **more)
        assert [step.id for step in plan.steps] == []
        (found,) = plan.findings
        assert found.fix
        return found.code, found.line


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    for name in ("project/images", "project/patches", "scripts"):
        (tmp_path / name).mkdir(parents=True)
    image = {"name": "demo", "reference": "example/demo:x", "site": SITE}
    (tmp_path / "project/images/demo.yaml").write_text(json.dumps(image))
    return Shop(tmp_path)


def where(step: dict[str, Any]) -> tuple[int, str]:
    return step.get("strip", 1), step.get("prefix", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{GO}git apply {HERE}", (1, "")),
        (f"{GO}git apply -p1 - {HERE}", (1, "")),
        (f"git -C /{SITE} apply {HERE}", (1, "")),
        (f"patch -d /{SITE} -p1 {HERE}", (1, "")),
        (f"patch --directory=/{SITE} --strip=1 -i - {HERE}", (1, "")),
        (f"patch -p2 -d /{SITE}/demo {HERE}", (2, "demo")),
        (f"cd /{SITE}/demo && patch -p2 {HERE}", (2, "demo")),
        (f"cd /{SITE}/demo && patch {HERE}", (2, "demo")),
        (f"patch /{SITE}/demo/a.py {HERE}", (2, "demo")),
        (f"{GO}patch demo/a.py {HERE}", (2, "demo")),
        (f"{GO}git apply --directory=demo -p2 {HERE}", (2, "demo")),
        (f"{GO}git apply --directory vendor {HERE}", (1, "vendor")),
        (f"{GO}git am {HERE}", (1, "")),
        (f"sudo git -C /{SITE} apply {HERE}", (1, "")),
        (f"{GO}git apply <<< '{DIFF}'", (1, "")),
        (f"{GO}D='{DIFF}'\necho \"$D\" | git apply\n", (1, "")),
        (f"{GO}cat > /tmp/x.patch {HERE}git apply /tmp/x.patch", (1, "")),
        (f"{GO}tee /tmp/x.patch >/dev/null {HERE}git apply < /tmp/x.patch", (1, "")),
        (f"cat > /tmp/x.patch {HERE}bash -c 'cd /{SITE} && patch -p1 < /tmp/x.patch'", (1, "")),
        (f"cd /usr/lib && sed 's/^/x/' y | wc -l\npatch -p1 <<'EOF'\n{DIFF.replace('demo/', 'python3/dist-packages/demo/')}EOF\n", (3, "")),
        (f"patch -p1 -d / <<'EOF'\n{DIFF.replace('demo/', SITE + '/demo/')}EOF\n", (5, "")),
        (f"{GO}patch -p0 <<'EOF'\n{DIFF.replace('a/demo', 'demo').replace('b/demo', 'demo')}EOF\n", (0, "")),
    ],
)  # fmt: skip
def test_where_a_diff_goes(shop: Shop, text: str, expected: tuple[int, str]) -> None:
    step = shop.step(text)
    assert where(step) == expected
    plan = shop.plan(text)
    assert plan.steps[0].paths in (("demo/a.py",), ("vendor/demo/a.py",))
    assert DIFF.split("@@")[2].encode() in plan.files[f"patches/demo/{step['patch']}"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (f"{GO}patch -R -p1 {HERE}", "reverse", 2),
        (f"{GO}git apply --reverse {HERE}", "reverse", 2),
        (f"cd /opt/other\ngit apply {HERE}", "outside", 2),
        (f"git apply {HERE}", "outside", 1),
        (f"cd $(python3 -c 'import demo')\ngit apply {HERE}", "outside", 2),
        (f'cd "$NOWHERE"\ngit apply {HERE}', "outside", 2),
        (f"{GO}git apply $(ls *.patch)\n", "not-constant", 2),
        (f"{GO}git apply <<EOF\n{DIFF.replace('two', '$UNKNOWN')}EOF\n", "not-constant", 2),
        (f"{GO}git apply gone.patch\n", "missing-file", 2),
        (f"{GO}git apply /etc/passwd\n", "missing-file", 2),
        (f"{GO}git apply --include=demo/a.py {HERE}", "options", 2),
        (f"{GO}patch -p1 -o /tmp/out {HERE}", "options", 2),
        (f"{GO}git apply <<'EOF'\n{DIFF.replace('@@ -1,3 +1,3 @@', '@@ -1,9 +1,3 @@')}EOF\n", "bad-diff", 5),
        (f"{GO}git apply <<'EOF'\nno diff\nEOF\n", "bad-diff", 2),
        (f"cd /usr/lib\npatch -p1 {HERE}", "outside", 2),
        (f"{GO}cat x.patch | sed s/a/b/ | git apply\n", "not-constant", 2),
        (f"{GO}curl -s https://example.invalid/x.sh | bash\n", "script", 2),
        (f"{GO}source ./other.sh\n", "script", 2),
        (f"{GO}$TOOL apply\n", "not-constant", 2),
        (f"{GO}sed -i s/a/b/ demo/a.py\n", "sed", 2),
        (f"{GO}perl -pi -e s/a/b/ demo/a.py\n", "sed", 2),
        (f"{GO}cp /tmp/a.py demo/a.py\n", "overwrite", 2),
        (f"{GO}cat > demo/a.py <<'EOF'\nx\nEOF\n", "overwrite", 2),
        (f"{GO}rm -rf demo/old\n", "overwrite", 2),
        ("apt-get install -y git\n", "command", 1),
        ("git clone https://example.invalid/x\n", "command", 1),
        ("pip install -r requirements.txt\n", "packages", 1),
        ("pip install /tmp/x.whl\n", "packages", 1),
        ("pip install git+https://example.invalid/x\n", "packages", 1),
        ("pip uninstall -y triton\n", "packages", 1),
        ("pip install $WHAT\n", "not-constant", 1),
        (f'{GO}[ "$GPU" = gfx950 ] && git apply {HERE}', "condition", 2),
        (f"{GO}if rocm-smi | grep -q gfx950; then\ngit apply {HERE}fi\n", "condition", 3),
        (f"{GO}case $1 in a)\ngit apply {HERE};; esac\n", "condition", 3),
        (f"{GO}while read -r x; do\ngit apply {HERE}done < list\n", "condition", 3),
    ],
)  # fmt: skip
def test_what_needs_a_person(shop: Shop, text: str, code: str, line: int) -> None:
    assert shop.finding(text) == (code, line)


@pytest.mark.parametrize(
    "guard",
    [
        "if ! grep -q MARK demo/a.py; then\n{}fi\n",
        "if grep -q MARK demo/a.py; then echo already; else\n{}fi\n",
        "grep -q MARK demo/a.py || {{\n{}}}\n",
        "if git apply --reverse --check /tmp/p.patch; then echo already; else\n{}fi\n",
        "if git apply --check /tmp/p.patch; then\n{}else\npatch -p1 --fuzz=3 < /tmp/p.patch\nfi\n",
        "if [ -f demo/a.py ]; then\n{}fi\n",
        '[ -d "$PWD" ] || exit 1\n{}',
        '[ "$(id -u)" = 0 ] || {{ echo root >&2; exit 1; }}\n{}',
        'if [ "${{ON:-1}}" = 1 ]; then\n{}else git apply gone.patch; fi\n',
        "command -v git >/dev/null || exit 1\n{}",
        "f() {{ if grep -q MARK demo/a.py; then return 0; fi\n{}}}\nf\n",
        "f() {{\n{}}}\nf || true\n",
        "for n in p; do\n{}done\n",
    ],
)
@pytest.mark.parametrize("line", ["git apply /tmp/p.patch\n", "patch -p1 < /tmp/p.patch || echo FAILED\n"])
def test_guards_fall_away(shop: Shop, guard: str, line: str) -> None:
    text = f"{GO}cat > /tmp/p.patch {HERE}" + guard.format(line)
    assert where(shop.step(text)) == (1, "")


def test_a_second_way_with_another_diff_is_a_decision(shop: Shop) -> None:
    plan = shop.plan(f"{GO}git apply {HERE[:-4]}EOF\nif ! git apply <<'EOF'\n{OTHER}EOF\nthen patch -p1 <<'EOF'\n"
                     f"{DIFF.replace('TWO', 'ZWEI')}EOF\nfi\n")  # fmt: skip
    assert [step.id for step in plan.steps] == ["a", "b"]
    assert [(finding.code, finding.line) for finding in plan.findings] == [("condition", 20)]


def test_the_same_diff_twice_is_one_step(shop: Shop) -> None:
    plan = shop.plan(f"{GO}cat > /tmp/p.patch {HERE}git apply /tmp/p.patch\npatch -p1 < /tmp/p.patch\n")
    assert len(plan.steps) == 1
    assert any(dropped.what == "the same once more" for dropped in plan.dropped)


def test_one_temporary_file_for_many(shop: Shop) -> None:
    plan = shop.plan(f"{GO}cat > /tmp/p.patch {HERE}git apply /tmp/p.patch\n"
                     f"cat > /tmp/p.patch <<'EOF'\n{OTHER}EOF\ngit apply /tmp/p.patch\n")  # fmt: skip
    assert [(step.id, step.file) for step in plan.steps] == [("a", "a.patch"), ("b", "b.patch")]


def test_files_beside_the_script(shop: Shop) -> None:
    folder = shop.folder / "scripts" / "patches"
    folder.mkdir()
    (folder / "0001-one.patch").write_text(DIFF)
    (folder / "0002-two.patch").write_text(OTHER)
    (shop.folder / "outside.patch").write_text(DIFF)
    head = f'HERE=$(dirname "$(readlink -f "$0")")\n{GO}'
    plan = shop.plan(f'{head}for p in "$HERE"/patches/*.patch; do git apply "$p"; done\n')
    assert [(step.id, step.file) for step in plan.steps] == [("one", "0001-one.patch"), ("two", "0002-two.patch")]
    assert shop.finding(f'{head}git apply "$HERE/../outside.patch"\n') == ("missing-file", 3)
    subprocess.run(["git", "init", "-q", str(shop.folder)], check=True)
    assert shop.step(f'{head}git apply "$HERE/../outside.patch"\n')["patch"] == "outside.patch"


def test_loose_options_are_named(shop: Shop) -> None:
    plan = shop.plan(f"{GO}patch -p1 -F3 -l -N --force <<'EOF' || true\n{DIFF}EOF\n")
    assert {dropped.what for dropped in plan.dropped} == {"-F3", "-l", "-N", "--force", "`|| true`"}
    assert all(dropped.why and dropped.line == 2 for dropped in plan.dropped)


@pytest.mark.parametrize(
    ("url", "patch", "upstream"),
    [
        ("https://github.com/ROCm/aiter/pull/4521.diff", {"commit": None, "paths": None}, ["ROCm/aiter#4521"]),
        ("https://patch-diff.githubusercontent.com/raw/ROCm/aiter/pull/4521.patch", {"commit": None, "paths": None}, ["ROCm/aiter#4521"]),
        (f"https://github.com/ROCm/aiter/commit/{'a' * 40}.patch", {"commit": f"ROCm/aiter@{'a' * 40}", "paths": None}, None),
        ("https://example.invalid/some.diff", None, None),
    ],
)  # fmt: skip
def test_diffs_by_address(shop: Shop, url: str, patch: Any, upstream: Any) -> None:
    for text in (f"{GO}curl -sL {url} | git apply\n", f"{GO}wget -qO /tmp/d {url}\npatch -p1 -d . < /tmp/d\n"):
        step = shop.step(text)
        assert step["patch"] == patch
        assert step.get("upstream") == upstream


def test_files_by_address(shop: Shop) -> None:
    url = f"https://raw.githubusercontent.com/o/r/{'b' * 40}/x.co"
    digest = "c" * 64
    text = f'{GO}curl -fsSL -o demo/x.co {url}\necho "{digest}  demo/x.co" | sha256sum -c -\n'
    assert shop.step(text)["file"] == {"path": "demo/x.co", "url": url, "sha256": digest}
    text = f"{GO}wget -P /tmp {url}\nmkdir -p demo/k && cp /tmp/x.co demo/k/\n"
    assert shop.step(text)["file"] == {"path": "demo/k/x.co", "url": url, "sha256": None}
    moving = "https://raw.githubusercontent.com/o/r/main/x.co"
    assert shop.step(f"{GO}curl -o demo/x.co {moving}\n")["file"]["url"] is None
    assert shop.step(f"{GO}curl -o demo/x.co http://example.invalid/x.co\n")["file"]["url"] is None
    assert shop.step(f"{GO}curl -o demo/x.co https://example.invalid/$V/x.co\n")["file"]["url"] is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pip install triton==3.7.0", {"requirements": ["triton==3.7.0"]}),
        ("pip3 install -q -U tabulate", {"requirements": [{"name": "tabulate", "version": None}]}),
        ("python3 -m pip install 'a>=1,<2' b[c]==2", {"requirements": [{"name": "a", "version": None}, "b[c]==2"]}),
        ("uv pip install --system a==1", {"requirements": ["a==1"]}),
        ("pip install a==1 -i https://i.example/x", {"requirements": ["a==1"], "index": "https://i.example/x"}),
        ("pip install a==1 --index-url http://i.example/x", {"requirements": ["a==1"], "index": None}),
        ("pip install a==1 --extra-index-url https://i.example/x", {"requirements": ["a==1"], "index": None}),
        ("pip install a==1 --index-url $UNKNOWN", {"requirements": ["a==1"], "index": None}),
    ],
)
def test_pip(shop: Shop, words: str, expected: Any) -> None:
    assert shop.step(f"{words}\n")["pip"] == expected


def test_given_variables_and_site(shop: Shop) -> None:
    assert shop.step(f'cd "$S"\ngit apply {HERE}', given={"S": f"/{SITE}"})["patch"] == "a.patch"
    assert shop.step(f"S=$(find / -name x)\ncd $S\ngit apply {HERE}", given={"S": f"/{SITE}"})["patch"]
    assert shop.step(f"git apply {HERE}", given={"PWD": f"/{SITE}"})["patch"]
    assert shop.step(f"cd /opt/venv/site\ngit apply {HERE}", site="/opt/venv/site")["patch"]


def test_texts_survive_yaml(shop: Shop) -> None:
    texts = ["x", "a: b # c", "\n", " lead\n  more\n", "no end\nof line", "\n\nx\n\n\n", "tab\tx\n\ty\n", "trail \n x\n",
             "'\"\\n", "- a\n- b\n", "ü → 🜁\n", "cr\r\nlf\r\n", "null", "12", "#", "a\n  \nb\n", "%x\n---\n...\n"]  # fmt: skip
    body = "".join(
        f"t=open('demo/a.py').read()\nassert t.count({f'M{n}{old}'!r})==1\n"
        f"open('demo/a.py','w').write(t.replace({f'M{n}{old}'!r}, {old!r}))\n"
        for n, old in enumerate(texts)
    )
    plan = shop.plan(f"{GO}python3 <<'PY'\n{body}PY\n")
    assert [finding.message for finding in plan.findings] == []
    assert [
        dict(step.data)["replace"]["with"] for step in plan.steps
    ] == texts  # and import_stack held them against YAML
    import_script.write(shop.project, plan)
    with pytest.raises(ConfigError, match="it has a step a-replace already"):
        shop.plan(f"{GO}python3 <<'PY'\n{body}PY\n")


READ = "from pathlib import Path\np = Path('/s/x.py')\nt = p.read_text()\n"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("assert t.count('a') == 2\np.write_text(t.replace('a', 'b'))\n", 2),
        ("if t.count('a') != 1:\n    raise SystemExit(1)\np.write_text(t.replace('a', 'b'))\n", 1),
        ("n = t.count('a')\nassert n == 3, f'{n}'\nt = t.replace('a', 'b')\np.write_text(t)\n", 3),
        ("if t.count('a') == 1:\n    p.write_text(t.replace('a', 'b'))\nelse:\n    print('no')\n", 1),
        ("if 'b' in t:\n    print('already')\nelif t.count('a') == 1:\n    p.write_text(t.replace('a', 'b'))\n", 1),
        ("assert 'a' in t\np.write_text(t.replace('a', 'b', 1))\n", 1),
        ("assert t.count('a') == 1 and 'c' in t\np.write_text(t.replace('a', 'b'))\n", 1),
        ("if not t.count('a') == 1: raise ValueError\nopen(p, 'w').write(t.replace('a', 'b'))\n", 1),
        ("p.write_text(t.replace('a', 'b'))\n", None),
        ("assert 'a' in t\np.write_text(t.replace('a', 'b'))\n", None),
        ("if 'a' in t:\n    p.write_text(t.replace('a', 'b'))\n", None),
        ("assert t.count('a') == 2\np.write_text(t.replace('a', 'b', 1))\n", None),
        ("assert t.count('a') >= 1\np.write_text(t.replace('a', 'b'))\n", None),
    ],
)
def test_python_counts(code: str, count: int | None) -> None:
    outcome = follow(READ + code, ("-",), {}, None)
    assert outcome.others == []
    (found,) = outcome.replacements
    assert (found.path, found.find, found.put, found.count) == ("/s/x.py", "a", "b", count)


@pytest.mark.parametrize(
    "code",
    [
        "import re\np.write_text(re.sub('a', 'b', t))\n",
        "p.write_text('whole')\n",
        "p.write_text(t + 'x')\n",
        "import subprocess\nsubprocess.run(['x'])\n",
        "import os\nos.remove('/s/y')\n",
        "import os\nos.replace('/s/y', '/s/x.py')\n",
        "import shutil\nshutil.copy('/a', '/s/x.py')\n",
        "if unknown():\n    p.write_text(t.replace('a', 'b'))\n",
        "for x in unknown():\n    p.write_text(t.replace('a', x))\n",
        "while True:\n    p.write_text(t)\n",
        "open(unknown(), 'w').write('x')\n",
        "print('x', file=open('/s/x.py', 'w'))\n",
        "Path('/s/y.py').write_text(t)\n",
        "exec(unknown())\n",
    ],
)
def test_python_that_does_more_is_named(code: str) -> None:
    outcome = follow(READ + code, ("-",), {}, None)
    assert outcome.replacements == []
    assert outcome.others
    assert outcome.others[0][0] >= 4


def test_python_reads_only_is_nothing() -> None:
    outcome = follow(READ + "import sys, json\nprint(len(t), sys.version)\nprint(json.dumps({}))\n", ("-",), {}, None)
    assert (outcome.replacements, outcome.others) == ([], [])


def test_python_knows_the_site_of_a_module() -> None:
    code = "import demo, os\np = os.path.join(os.path.dirname(demo.__file__), 'x.py')\nt = open(p).read()\n"
    outcome = follow(code + "open(p, 'w').write(t.replace('a', 'b', 1))\n", ("-",), {}, "/s")
    assert outcome.replacements[0].path == "/s/demo/x.py"
    assert outcome.replacements[0].first_only


def test_python_errors_have_lines(shop: Shop) -> None:
    assert shop.finding(f"{GO}python3 <<'PY'\nx = 1\ny = (\nPY\n") == ("python", 4)
    assert shop.finding(f"{GO}python3 $FILE\n") == ("python", 2)
    assert shop.finding("python3 -m build\n") == ("python", 1)


def test_what_a_loop_tries_until_it_works(shop: Shop) -> None:
    urls = "https://a.example/x.co https://b.example/x.co"
    for tail in ("&& break", "|| continue; break"):
        plan = shop.plan(f"{GO}for u in {urls}; do curl -fsSL -o demo/x.co $u {tail}; done\n")
        assert [step.data["file"]["url"] for step in plan.steps] == ["https://a.example/x.co"], tail
    plan = shop.plan(f"{GO}for u in {urls}; do if curl -o demo/x.co $u; then break; fi; done\ngit apply {HERE}")
    assert [step.id for step in plan.steps] == ["x", "a"]
    assert [(finding.code, finding.line) for finding in plan.findings] == [("condition", 2)]


def test_commands_in_odd_places(shop: Shop) -> None:
    assert where(shop.step(f'{GO}OUT=$(git apply 2>&1 {HERE[:-1]}\n) || echo "$OUT"\n')) == (1, "")
    assert where(shop.step(f'{GO}if ! OUT=$(patch -p1 2>&1 {HERE[:-1]}\n); then echo "$OUT"; fi\n')) == (1, "")
    plan = shop.plan(f"{GO}cat x > >(patch -p1 < gone.diff)\n")
    assert sorted(finding.code for finding in plan.findings) == ["missing-file", "not-constant"]
    assert shop.finding(f"{GO}trap 'git apply x.patch' EXIT\n") == ("command", 2)
    assert shop.finding(f"{GO}patch -p$N {HERE}") == ("not-constant", 2)
    assert shop.finding(f"{GO}ls *.patch | xargs -n1 git apply\n") == ("command", 2)


def test_two_unknown_addresses_are_two_steps(shop: Shop) -> None:
    plan = shop.plan(
        f"{GO}curl -L https://a.example/1.diff | git apply\ncurl -L https://a.example/2.diff | git apply\n"
    )
    assert [step.data["patch"] for step in plan.steps] == [None, None]


def test_a_stack_with_crlf_keeps_it(shop: Shop) -> None:
    folder = shop.folder / "project/patches/demo"
    folder.mkdir()
    (folder / "one.patch").write_text(OTHER)
    before = b"image: demo\r\nversion: 1\r\nsteps:\r\n  - id: one # here\r\n    patch: one.patch"
    (folder / "stack.yaml").write_bytes(before)
    made = shop.plan(f"{GO}git apply {HERE}").files["patches/demo/stack.yaml"]
    assert made.startswith(before)
    assert made.count(b"\n") == made.count(b"\r\n")
