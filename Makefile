# Two commands set everything up: `make demo` and `make test`. Both use one virtual environment.
PYTHON ?= python3
VENV ?= .venv
# nightly: all training runs; ci: the ten that `make test` compares
RECORD_PROFILE ?= nightly
BIN := $(VENV)/bin

# Hundreds of tests start a process, which takes a quarter less with compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo environments newest-packages test long newest versions quick nightly record record-write lint types lit unit extras docs wheel bench format generate clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# A test that fails is run once more, because XLA:CPU ends a process of its own accord now and then.
# The summary lists it (-rR): one that passes the second time is a fault to be mended, too.
PYTEST = HESPAS_SCALESIM_PYTHON=$(abspath $(VENV))/scalesim/bin/python \
  $(BIN)/pytest -n auto --dist loadfile --reruns 1 -rR

# Python compiles what is imported; most modules of the packages never are.
INSTALL := -m pip install --quiet --no-compile

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade pip
	$(BIN)/python $(INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python $(INSTALL) -e '.[dev]'
	@touch $@

# SCALE-Sim, which checks the closed forms of systolic arrays, fails with the numpy of the others.
$(VENV)/.scalesim: pyproject.toml | $(VENV)/.run
	$(PYTHON) -m venv $(VENV)/scalesim
	$(VENV)/scalesim/bin/python $(INSTALL) 'scalesim>=3.0,<4' 'numpy<2.4'
	@touch $@

# pip uses one core: `make --jobs=3 environments` makes those of CI side by side.
environments: $(VENV)/.dev $(VENV)/.scalesim newest-packages ## install what `test` and `newest` need

newest-packages: $(VENV)/.run
	.ci/test-newest $(BIN)/python --only-packages

demo: $(VENV)/.run ## predict the step time of a real sharded training step
	$(BIN)/hespas run docs/examples/llama3-100m.json

test: $(VENV)/.dev $(VENV)/.scalesim ## types, wheel, lint, lit and pytest: the first stage of CI
	$(MAKE) --jobs=2 --output-sync=target types wheel lint lit
	$(MAKE) unit

newest: $(VENV)/.dev ## lit and what XLA compiles, on the newest installed Python, with its JAX
	.ci/test-newest $(BIN)/python

VERSIONS ?= 3.11 3.12 3.13
versions: ## lit and pytest on each of VERSIONS of Python, with its JAX; fails if one is not installed
	for version in $(VERSIONS); do .ci/find-python $$version > /dev/null || exit 1; done
	for version in $(VERSIONS); do \
	  $(MAKE) lit unit long PYTHON=$$(.ci/find-python $$version) VENV=build/venv-$$version || exit 1; \
	done

quick: lint lit $(VENV)/.scalesim ## for the edit loop: lint, lit, and the fast part of pytest
	HYPOTHESIS_PROFILE=quick $(PYTEST) -m 'not slow and not long'

nightly: $(VENV)/.dev $(VENV)/.scalesim ## pytest with forty times as many examples of the property tests
	HYPOTHESIS_PROFILE=nightly $(PYTEST)

lint: $(VENV)/.dev ## formatting, lint, and whether generated files are current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m docs.generators --check

types: $(VENV)/.dev ## static types
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python --min-severity error

lit: $(VENV)/.dev ## FileCheck tests of the passes
	$(BIN)/lit -q test/lit

unit: $(VENV)/.dev $(VENV)/.scalesim ## pytest of what does not take long
	$(PYTEST) -m 'not long'

long: $(VENV)/.dev $(VENV)/.scalesim ## pytest of what takes long: with `newest`, the second stage of CI
	$(PYTEST) -m long

# Every figure of the examples, the documentation and the training runs is in test/record.json.
RECORDED := test/laws/test_record.py test/unit/test_docs.py
record: $(VENV)/.dev ## compare every figure with the committed record
	HYPOTHESIS_PROFILE=$(RECORD_PROFILE) $(PYTEST) $(RECORDED)

record-write: $(VENV)/.dev ## write the record, and what pages show, of what is predicted now
	HYPOTHESIS_PROFILE=$(RECORD_PROFILE) HESPAS_RECORD=write $(PYTEST) $(RECORDED)
	PYTHONPATH=test $(BIN)/python -P -m support.record
	$(BIN)/python -m docs.generators

# The tests that `make test` skips: each extra has an environment of its own. Those of MaxText are
# skipped with a Python older than 3.12: `make extra-maxtext PYTHON=python3.12`.
EXTRAS ?= tpu-compiler torch maxtext
EXTRA_TESTS_tpu-compiler := test/unit/test_tpu_hlo.py test/unit/test_splash_attention.py test/unit/test_compiler_cycles.py
EXTRA_TESTS_torch := test/unit/test_torch.py
EXTRA_TESTS_maxtext := test/unit/test_maxtext.py
extras: $(EXTRAS:%=extra-%) ## make the environments of the extras that dev lacks, and run their tests

extra-%:
	$(PYTHON) -m venv build/venv-$*
	build/venv-$*/bin/python -m pip install --quiet -e '.[$*,jax,gpu-compiler]' pytest hypothesis
	build/venv-$*/bin/python -m pytest $(EXTRA_TESTS_$*)

docs: $(VENV)/.dev ## build the documentation site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site

wheel: $(VENV)/.dev ## build the wheel and the sdist, install the wheel elsewhere and run it
	$(BIN)/python test/check_wheel.py

bench: $(VENV)/.dev ## time the passes against a bare parse
	$(BIN)/python -m benchmarks

generate: $(VENV)/.dev ## write every generated page and file
	$(BIN)/python -m docs.generators

format: $(VENV)/.dev ## format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what was built
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
