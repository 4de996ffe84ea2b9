# expect: 7:monkeypatch
from unittest import mock

import vllm


mock.patch("vllm.platforms.rocm.on_gfx950", return_value=True).start()


def main():
    vllm.LLM("x").generate("hi")


if __name__ == "__main__":
    main()
