"""The closed table of what `waiver scan` finds: few kinds, plain names, each with an example.

The document `docs` and the tests are held against this table; a new kind is added here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "patch",
    "missing-patch",
    "edit",
    "overwrite",
    "download",
    "install",
    "rebuild",
    "monkeypatch",
    "shadow",
    "mount",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindInfo:
    """One kind of finding: what it means, and the shortest example."""

    id: Kind
    means: str
    example: str


KINDS: tuple[KindInfo, ...] = (
    KindInfo(
        id="patch",
        means="a diff is applied to the serving stack, or to a tree that may be it (git apply, git am, patch, quilt)",
        example="git apply -p1 /patches/0001-fix-mla.patch",
    ),
    KindInfo(
        id="missing-patch",
        means="a patch file, or a patching script, is called that exists nowhere in the repository",
        example='patch -p1 < "$HERE/patches/nowhere.patch"',
    ),
    KindInfo(
        id="edit",
        means="an installed file is rewritten in place (sed -i, perl -i, ed, a Python program that reads and writes it)",
        example="sed -i 's/32/64/' /usr/local/lib/python3.12/dist-packages/vllm/envs.py",
    ),
    KindInfo(
        id="overwrite",
        means="an installed file is replaced, added, moved or removed (cp, mv, ln, tee, >, COPY, tar -C, docker cp)",
        example="cp mla.py /usr/local/lib/python3.12/dist-packages/vllm/v1/attention/backends/mla.py",
    ),
    KindInfo(
        id="download",
        means="a file is fetched from the network into the installed stack (curl -o, wget -O, ADD https://…)",
        example="curl -L https://example.com/mla.co -o $SITE/aiter_meta/hsa/gfx950/mla/mla.co",
    ),
    KindInfo(
        id="install",
        means="a package of the serving stack is installed, replaced or removed (pip, uv, apt, dpkg, conda)",
        example="pip install --no-deps --force-reinstall ./vllm-0.27.1+rocm-cp312-linux_x86_64.whl",
    ),
    KindInfo(
        id="rebuild",
        means="built modules of the stack are removed or built again (rm ….so, jit builds, setup.py, cmake, hipcc)",
        example="rm -f $SITE/aiter/jit/module_mla_asm.so",
    ),
    KindInfo(
        id="monkeypatch",
        means="objects of the stack are replaced while it runs (assignment, setattr, mock.patch, sys.modules)",
        example="vllm.worker.Worker.execute_model = traced",
    ),
    KindInfo(
        id="shadow",
        means="other code is found first (PYTHONPATH, sitecustomize, .pth, sys.path before the stack)",
        example="export PYTHONPATH=/opt/vllm-fork:$PYTHONPATH",
    ),
    KindInfo(
        id="mount",
        means="a file or directory is mounted over the installed stack (docker -v, volumes:, container-mounts, --bind)",
        example="docker run -v ./mla.py:/usr/local/lib/python3.12/dist-packages/vllm/mla.py vllm/vllm-openai-rocm",
    ),
)
