"""`/app/versions.txt`: the branches and tags that an image was built from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchkit.upstream.versions import parse_versions

TEXT = b"""BASE_IMAGE: rocm/dev-ubuntu-22.04:7.0-complete
TRITON_BRANCH: f9e5bf54
TRITON_REPO: https://github.com/ROCm/triton.git
PYTORCH_BRANCH: b2fb6885
PYTORCH_REPO: git@github.com:ROCm/pytorch.git
AITER_BRANCH: v0.1.5
AITER_REPO: https://github.com/ROCm/aiter/
FA_BRANCH=0e60e394
export FA_REPO="https://github.com/Dao-AILab/flash-attention.git"

# no entry
MORI_COMMIT = 0123abc
MORI_BRANCH = main
EMPTY_BRANCH:
"""


def test_what_the_images_write() -> None:
    versions = parse_versions(TEXT.replace(b"\n", b"\r\n"))
    assert [versions.revision(name) for name in ("triton", "aiter", "fa", "mori", "vllm", "empty")] == [
        "f9e5bf54",
        "v0.1.5",
        "0e60e394",
        "0123abc",
        None,
        None,
    ]
    assert [versions.repo(name) for name in ("aiter", "triton", "PyTorch", "fa", "mori")] == [
        "ROCm/aiter",
        "ROCm/triton",
        "ROCm/pytorch",
        "Dao-AILab/flash-attention",
        None,
    ]
    assert versions.entries[0] == ("BASE_IMAGE", "rocm/dev-ubuntu-22.04:7.0-complete")
    assert len(versions.entries) == 12


def test_the_last_of_a_key_counts() -> None:
    assert parse_versions(b"AITER_BRANCH: a\nAITER_BRANCH: b\n").revision("aiter") == "b"


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    assert isinstance(parse_versions(data).entries, tuple)
