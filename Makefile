# Everything a person types. Each target sets up what it needs; `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
IMAGE ?= nightly-c50aca
# what pytest gets besides; e.g. make test PYTEST="-k lock -x"
PYTEST ?=

.PHONY: help setup apply test slow kills check lock bench scan-corpus clean

help:
	@echo "make apply IMAGE=NAME   set up, then apply the image's stack and say where the patched tree is"
	@echo "make test               set up, then run the tests (with real vLLM sources on the CPU)"
	@echo "make check              lint, types, generated files"
	@echo "make lock               resolve every stack and write its lock"
	@echo "make bench              measure start-up, apply, the no-op and the bundle; prints tables"
	@echo "make scan-corpus        recall and precision of waiver scan on the snippets of tests/cases/scan"
	@echo "make slow               the slow tests"
	@echo "make kills              hundreds of kills of clients, containers and engines: a quarter of an hour"
	@echo "make clean              remove the environment and caches of the tools"

setup: $(READY)

# Byte-code is made here as pip makes it for any installed package: the first run starts as fast as the second.
$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q patchkit
	@touch $(READY)

apply: $(READY)
	@$(BIN)/patchkit apply --image $(IMAGE)

test: $(READY)
	@scripts/test -m "not slow and not kills" $(PYTEST)

slow: $(READY)
	@scripts/test -m slow $(PYTEST)

kills: $(READY)
	@scripts/test -m kills $(PYTEST)

check: $(READY)
	$(BIN)/ruff check patchkit tests benchmarks
	$(BIN)/ruff format --check patchkit tests benchmarks
	$(BIN)/mypy
	$(BIN)/python -m patchkit.model.schema --check
	$(BIN)/python -m patchkit.cli.reference --check
	$(BIN)/patchkit lock --check
	$(BIN)/patchkit waiver render --check
	$(BIN)/patchkit waiver check
	$(BIN)/python -m pytest -q tests/test_house.py

lock: $(READY)
	@$(BIN)/patchkit lock

bench: $(READY)
	@$(BIN)/python benchmarks/startup.py
	@$(BIN)/python benchmarks/history.py
	@$(BIN)/python benchmarks/bundle.py

scan-corpus: $(READY)
	@$(BIN)/python benchmarks/scan_corpus.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
