# Tocsin's everyday commands; `make` alone lists them. Each makes what it needs, and repeats quickly.

BIN := .venv/bin
INSTALLED := .venv/.installed
PYTHON_FILES := src tools tests $(if $(wildcard benchmarks/*.py),benchmarks)
BENCH_SIZE ?= small
TEST_PROCESSES ?= 3
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup run test test-slow check bench docs rows format clean FORCE

help: ## list these commands
	@echo "Tocsin: standing queries over streams of documents."
	@echo "Start with 'make run', then 'make test'."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## install Tocsin and its tools into .venv (the others do this by themselves)
	@echo "Ready: $(BIN)/tocsin"

# The stamp holds the folder it was made for: a copied or moved project gets its own environment.
ifneq ($(shell cat $(INSTALLED) 2>/dev/null),$(CURDIR))
$(INSTALLED): FORCE
endif
$(INSTALLED): pyproject.toml constraints.txt
	@python=$$(./tools/find-python) || exit 1; \
	if [ "$$(cat $(INSTALLED) 2>/dev/null)" != "$(CURDIR)" ] || [ -n "$$PYTHON" ]; then \
	    echo "Making .venv with $$("$$python" --version) ($$python)"; \
	    "$$python" -m venv --clear .venv; \
	fi
	@echo "Installing Tocsin into .venv (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m tools.java || { echo "No Java 17 or newer here: adding one for Spark"; \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,java]'; }
	@printf '%s' "$(CURDIR)" > $@
FORCE:

run: $(INSTALLED) ## a site with generated documents and sample subscriptions; ctrl-C ends it
	@$(BIN)/tocsin up --demo

test: $(INSTALLED) ## the tests, without the slow ones, in TEST_PROCESSES processes (3)
	@$(BIN)/python -m pytest -q -m "not slow" -n $(TEST_PROCESSES) --dist loadfile

test-slow: $(INSTALLED) ## the slow tests: fuzzing, whole corpora, volume
	@$(BIN)/python -m pytest -q -m slow --hypothesis-profile=thorough
	@echo "The kernels' definitions, without compiling them"
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -m "not slow" tests/match

check: $(INSTALLED) ## style, types, import order, generated pages
	@echo "ruff: style";            $(BIN)/ruff check --quiet $(PYTHON_FILES)
	@echo "ruff: layout";           $(BIN)/ruff format --quiet --check $(PYTHON_FILES) || { echo "Run 'make format'."; exit 1; }
	@echo "mypy: types";            $(BIN)/mypy --no-error-summary $(PYTHON_FILES)
	@echo "import-linter: order";   found=$$($(BIN)/lint-imports 2>&1) || { echo "$$found"; exit 1; }
	@echo "reference: up to date";  $(BIN)/python -m tools.reference --check
	@echo "All checks passed."

bench: $(INSTALLED) ## every benchmark at a small size, as JSON lines (BENCH_SIZE=full for the real ones)
	@$(BIN)/python -m tools.bench --size $(BENCH_SIZE)

docs: $(INSTALLED) ## write the generated pages of docs/reference
	@$(BIN)/python -m tools.reference

rows: $(INSTALLED) ## which rows of the mission have a test
	@$(BIN)/python -m tools.rows

format: $(INSTALLED) ## lay out the code and mend what ruff can
	@$(BIN)/ruff check --quiet --fix $(PYTHON_FILES) || true
	@$(BIN)/ruff format $(PYTHON_FILES)

clean: ## remove caches and build output (.venv stays: remove it by hand)
	@rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@echo "Clean."
