"""What a script leaves behind is either part of a step or named with its line; what changes nothing is not named."""

from __future__ import annotations

import pytest

from tests.app.test_import_translate import GO, HERE, OTHER, SITE, Shop, shop

__all__ = ["shop"]

ABOVE = SITE.rpartition("/")[0]
FOLDERS = {
    "site": f"/{SITE}",
    "site with a slash": f"/{SITE}/",
    "site by a variable": '"$SITE"',
    "parent": f"/{ABOVE}",
    "far parent": "/usr/",
    "below": f"/{SITE}/demo",
    "new below": "demo/new/",
    "elsewhere": "/opt/rocm/lib",
    "the current one": ".",
    "the current one with a slash": "./",
    "elsewhere by a variable": '"${LIB:-/opt/lib}"',
    "not constant": '"$NOWHERE"',
    "of a user": "~/x",
}
INTO = [
    "cp /opt/o/fix.py {}",
    "cp -r /opt/o/. {}",
    "cp -a /opt/o/* {}",
    "cp -r over/vllm {}",
    "cp -t {} /opt/a.py /opt/b.py",
    "cp /opt/a.py /opt/b.py {}",
    "sudo cp /opt/x.py {}",
    "\\cp -f /opt/x.py {}",
    "command cp /opt/x.py {}",
    "/bin/cp /opt/x.py {}",
    "mv x.py {}",
    "mv -t {} /opt/x.py",
    "install -m 644 /opt/x.py {}",
    "rsync -a /opt/o/ {}",
    "rsync -a --exclude x --delete host:/o/ {}",
    "ln -s /opt/o {}",
    "ln -sf -t {} /opt/o",
    "chmod -R a+w {}",
    "chmod 0 {}",
    "chmod -x {}",
    "chown -R root:root {}",
    "rm -rf {}",
    "rm -rf {}/*",
    "touch {}/x.py",
    "truncate -s 0 {}/x.py",
    "dd if=/dev/zero of={}/x.py bs=1",
    "echo x | tee -a {}/x.py",
    "echo x > {}/x.py",
    "> {}/x.py",
    "echo x >> {}/x.py",
    "echo x &> {}/x.py",
    "{{ echo x; echo y; }} > {}/x.py",
    "if true; then echo x; fi > {}/x.py",
    "f() {{ echo x; }}; f > {}/x.py",
    "f() {{ cp /opt/x.py $1; }}; f {}",
    "cp() {{ command cp -f $@; }}; cp /opt/x.py {}",
    "bash -c 'cp /opt/x.py '{}",
    "(cp /opt/x.py {})",
    "X=$(cp /opt/x.py {})",
    "cat x | cp /dev/stdin {}/y.py",
    "trap 'cp /opt/x.py '{} EXIT",
    "sort -o {}/x.py x.py",
    "uniq x.py {}/x.py",
    "tar xf /opt/x.tar -C {}",
    "unzip /opt/x.zip -d {}",
    "find {} -name x -delete",
    "find {} -name x -exec rm {{}} +",
    "find . -name '*.py' -not -path '*__pycache__*' -exec cp {{}} {} \\;",
    "find /opt/o -name '*.py' | xargs cp -t {}",
    "git clone https://x.example/y {}/y",
    "curl -o {}/a.so https://x.example/a.so",
    "curl https://x.example/a.so > {}/a.so",
    "curl -fsSL https://x.example/a.so | tee {}/a.so",
    "(cd {}; curl -O https://x.example/a.so)",
    "curl --output-dir {} -O https://x.example/a.so",
    "curl --proto '=https' -sS https://x.example/a.so -o {}/a.so",
    "wget -P {} https://x.example/a.so",
    "wget https://x.example/a.so -O {}/a.so",
    "(cd {} && wget https://x.example/a.so)",
    "curl -o {}/a.so https://x.example/a.so -o {}/b.so https://x.example/b.so",
]


@pytest.mark.parametrize("command", INTO)
def test_what_lasts_is_a_step_or_named(shop: Shop, command: str) -> None:
    head = f"SITE=/{SITE}\n{GO}git apply {HERE}"
    line = head.count("\n") + 1
    for name, folder in FOLDERS.items():
        plan = shop.plan(head + command.format(folder, folder) + "\necho done\n")
        done = [step for step in plan.steps if line in step.lines]
        found = [finding for finding in plan.findings if finding.line == line]
        assert done or found, name
        assert len(plan.steps) == 1 + len(done)
        assert len(plan.findings) == len(found), name
        fetched = "curl" in command or "wget" in command
        if done:
            assert fetched, name
            assert name.startswith(("site", "below", "new below", "the current")), name
        for finding in found:
            assert finding.fix
            assert "__patchkit" not in finding.message
            assert "\n" not in finding.message


PLACES = [
    "X={}",
    "export X={}",
    "X+={}",
    "X[0]={}",
    'echo "a {} b"',
    "echo $(( {} + 1 ))",
    "X=$(( {} + 1 ))",
    "(( {} ))",
    "for ((i={};i<3;i++)); do :; done",
    'unset "{}"',
    'X=(a "{}")',
    "[[ -n x || {} ]]",
    "case {} in x) ;; esac",
    "cat <<< {}",
    "cat <<EOF\n{}\nEOF",
    "cat < {}",
    "echo ${{NEVER:-{}}}",
    "f() {{ return {}; }}; f",
    "! true {} &",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_command_is_found_wherever_it_stands(shop: Shop, place: str) -> None:
    text = place.format("$(cp /opt/x.py .)")
    found = [finding for finding in shop.plan(f"{GO}{text}\n").findings if "writes x.py" in finding.message]
    assert len(found) == 1


FETCHES = [
    "curl https://x.example/a | sha256sum -c",
    "curl -s https://x.example/a",
    "X=$(curl -s https://x.example/a)",
    "curl -s https://x.example/a | jq -r .x",
    "curl -o /tmp/a.tgz https://x.example/a.tgz",
    "W=$(mktemp -d); curl -o $W/a.tgz https://x.example/a.tgz",
    "wget -i addresses",
    "curl -K options",
    "curl --url https://x.example/a -o /opt/a",
    "curl -O $ADDRESS",
    "curl -sSL https://x.example/a | tar xz -C /opt",
    "curl -D /opt/heads -o demo/a.so https://x.example/a.so -o demo/b.so https://x.example/b.so",
]


@pytest.mark.parametrize("command", FETCHES)
def test_a_fetch_that_goes_into_no_step_is_named(shop: Shop, command: str) -> None:
    plan = shop.plan(f"{GO}{command}\n")
    assert plan.steps == ()
    assert {finding.line for finding in plan.findings} == {2}


QUIET = [
    "echo hello",
    "set -euo pipefail",
    "cd /opt; cd -",
    "export A=b; A=c",
    "[ -f demo/a.py ] && test -d /opt",
    "cat demo/a.py | head -n 3 | sort | uniq -c",
    "ls -l /opt > /dev/null 2>&1",
    "echo oops >&2",
    "python3 -c 'print(1)'",
    "python3 -m compileall -q .",
    "pip list; pip show vllm",
    "git status; git -C . rev-parse HEAD",
    "find . -name '*.py' -exec grep -l x {} +",
    "find . -name '*.py' | xargs -n1 wc -l",
    "sed -n 's/a/b/p' demo/a.py; awk '{print $1}' demo/a.py; perl -ne 'print if /x/' demo/a.py",
    "W=$(mktemp -d); trap 'rm -rf \"$W\"' EXIT; echo x > $W/x; cp demo/a.py $W/; chmod 600 $W/x",
    'W=$(mktemp); cleanup() { rm -f "$W"; }; trap cleanup EXIT INT; echo x > $W',
    "mkdir -p /tmp/work && cp /opt/x /tmp/work/ && (cd /tmp/work; ln -s x y; rm x)",
    "echo x > /tmp/list; while read -r x; do echo $x; done < /tmp/list",
    "echo x > /tmp/list; cat /tmp/list; rm -f /tmp/list",
    "echo x | tee /dev/stderr",
    "rsync -n -a /opt/o/ .; curl --version; wget --help",
    "command -v git >/dev/null || exit 1",
    'f() { echo "$@"; }; f rm -rf /opt',
    "exec 2>&1",
    "wait; sleep 1; true",
]


@pytest.mark.parametrize("command", QUIET)
def test_what_changes_nothing_is_not_named(shop: Shop, command: str) -> None:
    plan = shop.plan(f"{GO}{command}\n")
    assert [finding.message for finding in plan.findings] == []
    assert plan.steps == ()


@pytest.mark.parametrize(
    "command",
    [
        f"cat > /tmp/p.patch {HERE}git apply /tmp/p.patch\n",
        f"cat > /opt/p.patch {HERE}git apply /opt/p.patch\nrm /opt/p.patch\n",
        f"cat > /opt/p.patch {HERE}git apply < /opt/p.patch\n",
        f"cat > /opt/p.patch {HERE}cat /opt/p.patch | git apply\n",
        f"cat > /opt/a.patch {HERE}cp /opt/a.patch /opt/b.patch; git apply /opt/b.patch\n",
        f"mkdir /opt/mine; cat > /opt/mine/p.patch {HERE}git apply /opt/mine/p.patch; rm -rf /opt/mine\n",
        f"cat > fix.patch {HERE}git apply fix.patch\nrm -f fix.patch\n",
        "curl -o /tmp/d https://x.example/1.diff; git apply /tmp/d\n",
        "curl https://x.example/1.diff > /opt/d; git apply /opt/d\n",
        "curl https://x.example/1.diff | git apply\n",
        "save() { cat > $1; }; curl https://x.example/1.diff | save /opt/d; git apply /opt/d\n",
        "mkdir -p demo/k; wget -P /tmp https://x.example/k.co; cp /tmp/k.co demo/k\n",
        "wget -P /tmp https://x.example/k.co; install -m 644 /tmp/k.co demo/\n",
        f"wget -P /tmp https://x.example/k.co; mv /tmp/k.co /{SITE}\n",
    ],
)
def test_working_copies_of_steps_are_not_named(shop: Shop, command: str) -> None:
    assert shop.step(GO + command)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (f"cat > fix.patch {HERE}git apply fix.patch\n", 2),
        (f"cat > /opt/p.patch {HERE}git apply /opt/p.patch\ncp /opt/p.patch /opt/q.patch\n", 12),
        ("wget -P /tmp https://x.example/k.co; cp /tmp/k.co demo/\ncp /tmp/k.co /opt/rocm/lib/\n", 3),
        (f"wget -P /tmp https://x.example/k.co; cp /tmp/k.co demo/\ncp /tmp/k.co /{ABOVE}/\n", 3),
        (f"cat > demo/new.py <<'EOF'\nx\nEOF\ngit apply <<'EOF'\n{OTHER}EOF\n", 2),
        (f"git apply {HERE}rm -rf /opt/p.patch\n", 11),
        ("curl -o demo/a.so https://x.example/a.so\necho x > /tmp/settings.json\n", 3),
    ],
)
def test_what_else_is_left_behind_is_named(shop: Shop, command: str, line: int) -> None:
    plan = shop.plan(GO + command)
    assert len(plan.steps) == 1
    assert [finding.line for finding in plan.findings] == [line]


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("exec > >(tee -a /var/log/apply.log) 2>&1", "the log /var/log/apply.log"),
        ("cat demo/a.py 2> /opt/errors", "the log /opt/errors"),
        ("curl -sf http://localhost:8000/health", "the probe `curl -sf http://localhost:8000/health`"),
        ("curl -so /dev/null https://x.example/", "the probe `curl -so /dev/null https://x.example/`"),
        ("touch /tmp/.done", "the marker file /tmp/.done"),
        ("rm -rf /tmp/cache", "what it does to /tmp/cache"),
        ("cp demo/a.py /opt/a.py.bak", "the copy /opt/a.py.bak"),
        ("git init -q .", "git's own records: `git init`"),
        ("find . -name __pycache__ -type d -exec rm -rf {} +", "stale byte-code removed"),
    ],
)
def test_what_is_left_behind_on_purpose_has_its_line(shop: Shop, command: str, what: str) -> None:
    plan = shop.plan(f"{GO}{command}\n")
    assert (2, what) in [(dropped.line, dropped.what) for dropped in plan.dropped]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("dd if=/dev/zero of=demo/x bs=1 count=0", "`dd if=/dev/zero of=demo/x bs=1 count=0` writes demo/x"),
        ("chmod +x demo/x", "`chmod +x demo/x` changes demo/x"),
        ("chmod -R 0 demo", "`chmod -R 0 demo` changes demo"),
        (f"rm -rf /{SITE}/*", f"`rm -rf /{SITE}/*` removes /{SITE}/*"),
        ("cp -r over .; rm -rf $PWD/*", "`rm -rf $PWD/*` removes $PWD/*"),
        ("rm -rf .", "`rm -rf .` removes the site itself"),
        (f"rm -rf /{ABOVE}", f"`rm -rf /{ABOVE}` removes /{ABOVE}, above the site"),
        ("rm a b c d e f", "`rm a b c d e f` removes a, b, c, d and 2 more"),
        ('cat > "$(cat <<E\n$X\nE\n)" <<E\nE', '`cat` writes "$(cat <<… )", which is not constant: X is set by no line of the script'),
    ],
)  # fmt: skip
def test_messages_name_what_the_script_names(shop: Shop, command: str, message: str) -> None:
    assert message in [finding.message for finding in shop.plan(f"{GO}{command}\n").findings]


def test_a_function_may_be_called_like_the_program_that_it_runs(shop: Shop) -> None:
    assert shop.step(f'{GO}git() {{ command git -c a.b=c "$@"; }}\ngit apply {HERE}')["patch"] == "a.patch"
