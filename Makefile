# Everything a person needs: make run, make test. Both make .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export SPARK_LOCAL_IP := 127.0.0.1

.PHONY: help setup run test lint bench calibrate simulate clean

help:
	@echo "make run        set up, then one chaos run on a cluster of its own, with a report at the end"
	@echo "make test       set up, lint, types, import rules, test suite"
	@echo "make bench      measure checking, importing, recording and the shipped cluster (about twenty minutes)"
	@echo "make calibrate  seeded chaos runs on a managed Apache Kafka 3.9 (needs Maven or KAFKA_HOME)"
	@echo "make simulate   random schedules on simulated clusters (MINUTES=60; a failure names its seed)"
	@echo "make lint       ruff, mypy --strict, import rules"
	@echo "make clean      remove .venv, caches and build output (runs/ stays)"

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Tidemark needs Python >= 3.11: install it (Debian: apt-get install python3 python3-venv) or pass PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tidemark needs Python >= 3.11, and $(PYTHON) is $$($(PYTHON) --version): pass PYTHON=/path/to/a/newer/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing (Debian: apt-get install python3-venv)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

setup: $(STAMP)

run: setup
	$(BIN)/tidemark run default

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

bench: setup
	$(BIN)/python -m bench

calibrate: setup
	$(BIN)/python -m bench.calibrate --target kafka

simulate: setup
	$(BIN)/python -m system_under_test.simulation --minutes $(or $(MINUTES),60)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
