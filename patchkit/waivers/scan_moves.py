"""Files put over the installed stack, changed in it or taken from it: what each program's words say."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from patchkit.model import shell_fetch, shell_options
from patchkit.waivers.scan_places import place, touched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.model.shell_types import Command, Word

_VALUED = {"cp": "tS", "mv": "tS", "ln": "tS", "install": "tmogS", "rsync": "efT", "tar": "fCT", "unzip": "dx"}
_BUILT = re.compile(
    r"\.(?:so|co|hsaco|o|a)\b|\.so\*|/jit(?:/|$)|/build(?:/|$)|\.egg-info|module_\w+|\.cubin", re.IGNORECASE
)
_BYTECODE = re.compile(r"__pycache__|\.py[co]\b|\.py\[(?:co|oc)\]")
_MOVERS = ("cp", "mv", "ln", "install", "rsync", "scp")


def overwrites(command: Command) -> Iterator[str]:
    """The parts of the stack that a command replaces, adds or takes away as files."""
    program = command.program or ""
    if program in _MOVERS:
        yield from _moved(command, program)
    elif program in ("tee", "sponge", "truncate", "unlink", "shred"):
        yield from _each(command, _operands(command, ""))
    elif program == "dd":
        for word in command.argv[1:]:
            if word.shown.startswith("of="):
                yield from _one(command, word.shown[3:])
    elif program == "tar":
        yield from _unpacked(command)
    elif program in ("unzip", "7z", "bsdtar"):
        folder = next((re.sub(r"^-o", "", w.shown) for w in command.argv[1:] if w.shown.startswith("-o/")), None)
        parsed = shell_options.parse(command.argv[1:], short="dx", long=())
        option = parsed.last("-d")
        yield from _folder(command, option.value if option is not None else folder)
    for redirect in command.redirects:
        if redirect.writes:
            yield from _one(command, redirect.target.shown)


def checkouts(command: Command) -> Iterator[str]:
    """An installed tree that git changes to other sources."""
    if command.program != "git":
        return
    words, folder = [word.shown for word in command.argv[1:]], command.cwd or ""
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-C", "-c", "--git-dir", "--work-tree") and words:
            value = words.pop(0)
            folder = command.path(value) or value if option in ("-C", "--work-tree") else folder
    verb = words[0] if words else ""
    changes = verb in ("checkout", "switch", "pull", "merge", "rebase", "restore", "revert", "read-tree")
    changes = changes or (verb == "reset" and "--hard" in words) or words[:2] == ["submodule", "update"]
    changes = changes or (verb == "stash" and ("pop" in words or "apply" in words))
    if changes and place(folder).where == "installed" and not {"--abort", "--help"} & set(words):
        yield place(folder).shown


def removes(command: Command) -> Iterator[tuple[str, bool]]:
    """What `rm` takes out of the stack, and whether that is something built, which is then built again."""
    if command.program == "rm" or (command.program == "find" and any(w.text == "-delete" for w in command.argv)):
        words = _operands(command, "") if command.program == "rm" else command.argv[1:2]
        names = " ".join(word.shown for word in command.argv[2:]) if command.program == "find" else ""
        for word in words:
            path = command.path(word.shown) or word.shown
            found = place(path)
            cached = re.search(r"/\.aiter(?:/|$)", path) is not None
            if not cached and (_BYTECODE.search(path + names) or found.where in ("elsewhere", "unknown")):
                continue
            built = cached or _BUILT.search(path + names) is not None
            if found.where == "installed" or built:
                yield found.shown, built


def edits(command: Command) -> Iterator[str]:
    """The files of the stack that an editor for streams changes in place."""
    program, argv = command.program or "", command.argv
    texts = [word.shown for word in argv[1:]]
    files: list[Word] = []
    if program in ("sed", "gsed"):
        if any(re.match(r"-[nErsuz]*i|--in-place", text) for text in texts):
            parsed = shell_options.parse(argv[1:], short="efl", long=("expression", "file"))
            files = list(parsed.operands if parsed.has("-e", "-f", "--expression", "--file") else parsed.operands[1:])
    elif program in ("perl", "ruby"):
        if any(re.match(r"-\w*i", text) and not text.startswith(("-M", "-I")) for text in texts):
            files = [word for word in argv[2:] if not word.shown.startswith("-")]
    elif program in ("awk", "gawk") and "inplace" in texts:
        files = [word for word in argv[1:] if not word.shown.startswith("-")]
    elif program in ("ed", "ex", "vim", "vi", "nvim", "red"):
        files = [word for word in argv[1:] if not word.shown.startswith(("-", "+"))]
    for word in files:
        found = touched(command.path(word.shown) or word.shown, in_place=True)
        if found is not None:
            yield found


def downloads(command: Command) -> Iterator[str]:
    """Files that curl, wget and their like put into the stack."""
    if command.program in ("curl", "wget"):
        fetched = shell_fetch.fetch(command)
        output = None if fetched is None else fetched.output
        if output is None and command.program == "wget":
            parsed = shell_options.parse(command.argv[1:], short="P", long=("directory-prefix",))
            folder = parsed.last("-P", "--directory-prefix")
            yield from _folder(command, folder.value if folder is not None else None)
        elif output is not None:
            yield from _one(command, output.shown)
        if command.program == "curl":
            for redirect in command.redirects:
                if redirect.writes:
                    yield from _one(command, redirect.target.shown)
    elif command.program in ("aria2c", "axel", "gdown", "huggingface-cli", "hf"):
        parsed = shell_options.parse(command.argv[1:], short="doO", long=("dir", "out", "output", "local-dir"))
        folder, file = parsed.last("-d", "--dir", "--local-dir"), parsed.last("-o", "--out", "-O", "--output")
        base = folder.value if folder is not None and folder.value else ""
        if base or file is not None:
            yield from _one(command, posixpath.join(base, file.value or "" if file is not None else ""))


def _operands(command: Command, valued: str) -> tuple[Word, ...]:
    return shell_options.parse(
        command.argv[1:], short=valued, long=("target-directory", "mode", "owner", "group")
    ).operands


def _moved(command: Command, program: str) -> Iterator[str]:
    long = ("target-directory", "mode", "owner", "group", "suffix", "exclude", "include", "rsh")
    parsed = shell_options.parse(command.argv[1:], short=_VALUED.get(program, ""), long=long)
    if program == "install" and parsed.has("-d", "--directory"):
        return
    option = parsed.last("-t", "--target-directory")
    words = parsed.operands
    if option is not None:
        target, sources = option.value or "", words
    elif len(words) > 1:
        target, sources = words[-1].shown, words[:-1]
    else:
        return
    if program in ("rsync", "scp") and re.match(r"[\w.@${}-]+:", target):
        target = target.split(":", 1)[1]
    for word in sources:
        yield from _into(command, word.shown, target)
        if program == "mv":
            place_from = place(command.path(word.shown) or word.shown)
            if place_from.where == "installed":
                yield place_from.shown


def _into(command: Command, source: str, target: str) -> Iterator[str]:
    """A file or a folder put at `target`, or into it."""
    whole = command.program == "rsync" and source.endswith("/")
    name = "" if whole else posixpath.basename(source.rstrip("/"))
    path = command.path(target) or target
    if place(command.path(source) or source).where == "installed" and place(path).where == "tree":
        return  # the image's own files beside a copy of its sources
    is_file = re.search(r"\.\w{1,6}$", posixpath.basename(path)) and not target.endswith("/")
    if not is_file and name not in ("", ".", "*") and posixpath.basename(path) != name:
        path = posixpath.join(path, name)
    found = touched(path)
    if found is None and not is_file and place(path).where in ("installed", "tree") and _CODE_TREE.search(source):
        found = place(path).shown
    if found is not None:
        yield found


_CODE_TREE = re.compile(r"\*\.py|\.py$|/\.$|/\*$|patch|overlay|overrid|(?:^|/)(?:vllm|aiter|sglang|lmcache)/")


def _one(command: Command, text: str) -> Iterator[str]:
    found = touched(command.path(text) or text)
    if found is not None:
        yield found


def _each(command: Command, words: tuple[Word, ...]) -> Iterator[str]:
    for word in words:
        yield from _one(command, word.shown)


def _folder(command: Command, text: str | None) -> Iterator[str]:
    """Something unpacked or fetched into a folder."""
    found = place((command.path(text) or text) if text else command.cwd or "")
    if found.where == "installed":
        yield found.shown


def _unpacked(command: Command) -> Iterator[str]:
    texts = [word.shown for word in command.argv[1:]]
    first = texts[0] if texts else ""
    if not (re.match(r"-?\w*x", first) or "--extract" in texts or any(re.match(r"-\w*x", text) for text in texts)):
        return
    at = next((at for at, text in enumerate(texts) if text in ("-C", "--directory")), None)
    folder = texts[at + 1] if at is not None and at + 1 < len(texts) else None
    folder = folder or next((t.split("=", 1)[1] for t in texts if t.startswith("--directory=")), None)
    yield from _folder(command, folder)
