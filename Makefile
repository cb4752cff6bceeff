# `make` alone lists the targets. PYTHON is the interpreter that .venv is created with;
# ARGS is passed to pytest: make test ARGS="-k java". WORKERS is the number of test processes.
# SPARK is a line of Spark, such as 4.1: its environment is .venv-4.1, and `make test` runs there.
PYTHON ?= python3
ARGS ?=
WORKERS ?= 2
N ?= 100000
SEED ?=
SCHEDULE ?=
KILLS = $(if $(filter command line environment,$(origin N)),$(N),50)

SPARK ?=

VENV := .venv$(addprefix -,$(SPARK))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
REAL_STAMP := $(VENV)/.installed-real
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
STORES_VENV := .venv-stores
STORES_STAMP := $(STORES_VENV)/.installed
DOCS_NEEDS := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print("\n".join(project["optional-dependencies"]["docs"]))
CONSTRAINTS := $(firstword $(wildcard constraints-$(SPARK).txt) constraints.txt)
INSTALL := -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)
PIP := $(BIN)/python $(INSTALL)
PYSPARK := $(if $(SPARK),'pyspark==$(SPARK).*' setuptools)
PURE := tests/engine tests/checkpoint
COVERAGE := --cov=src/penstock/engine --cov=src/penstock/checkpoint --cov-branch --cov-report=term --cov-fail-under=95
PARALLEL := -n $(WORKERS) --dist worksteal
WHICH_JAVA := $(BIN)/python -c 'from penstock.spark.jvm.java_home import find_java; print("Java:", find_java().description)'

CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Development needs Python 3.11 or newer; $(PYTHON) is" \
			"$$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }

# A test run starts about 200 Python processes; without bytecode each compiles every module anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup check test test-all test-real test-stores core matrix upgrades test-install test-pyspark test-web \
	simulate crash bench flame bench-store scale soak demo demo-kafka docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv and install everything into it, and Java if there is none

check: setup ## lint, formatting, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup ## all tests but the slow ones, with branch coverage of engine and checkpoint
ifeq ($(SPARK)$(ARGS),)  # coverage in a run of its own: tracing slows down all tests of the run
	$(BIN)/python -m pytest $(PARALLEL) $(COVERAGE) $(PURE)
	$(BIN)/python -m pytest $(PARALLEL) --durations=25 $(addprefix --ignore=,$(PURE))
else
	$(BIN)/python -m pytest $(PARALLEL) --durations=25 $(ARGS)
endif

test-all: setup ## all tests, with every program of the differential suite, every round trip
	$(BIN)/python -m pytest $(PARALLEL) -m "extended or not extended" $(ARGS)

test-real: $(REAL_STAMP) ## jobs on Kafka, PostgreSQL, Delta, Iceberg and a cluster; needs Maven. KILLS=20: kills of each kind
	$(BIN)/python -m pytest --timeout 7200 $(if $(findstring tests/,$(ARGS)),,tests/real) $(if $(filter command line environment,$(origin KILLS)),--kills $(KILLS)) $(ARGS)
ifeq ($(SPARK)$(ARGS),)  # Delta and Iceberg, on the newest line that has them
	$(MAKE) test-real SPARK=4.2 ARGS="-m delta"
	$(MAKE) test-real SPARK=4.1 ARGS="-m iceberg"
endif

test-stores: setup $(STORES_STAMP) ## checkpoints on S3 and HDFS: requests, races, faults; needs Maven
	$(BIN)/python -m pytest --timeout 1800 $(if $(findstring tests/,$(ARGS)),,tests/stores) $(ARGS)

core: setup ## the tests that every Spark line must pass before a merge: make core SPARK=4.0
	$(BIN)/python -m pytest $(PARALLEL) -m core $(ARGS)

matrix: setup ## test every Spark line in its own environment; update the table in the docs
	$(BIN)/python -m tests.matrix

upgrades: setup ## continue checkpoints of every Spark line on every other, on both engines
	$(BIN)/python -m tests.upgrades

test-install: setup ## install the wheel beside every line's PySpark in a new environment, and run it
	$(BIN)/python -m tests.fresh_installs $(PYTHON)

test-pyspark: setup ## PySpark's own streaming tests; SOURCE is a git repository of Apache Spark
	$(BIN)/python -m tests.pyspark_suite $(SOURCE)

test-web: setup ## test the live page in Chromium; CHROMIUM is the path of the browser
	$(BIN)/python -m pytest tests/web/in_browser.py $(ARGS)

simulate: setup ## run the engine in memory with N fault schedules; SEED, SCHEDULE to repeat
	$(BIN)/python -m tests.simulation $(N) --seed "$(SEED)" --schedule "$(SCHEDULE)"

crash: setup ## kill real pipelines on real Spark N times, 50 by default; SEED to repeat
	$(BIN)/python -m tests.crash $(KILLS) --seed "$(SEED)" --workers $(WORKERS)

bench: setup ## compare with Spark's own engine, as ratios; QUICK=1 for a short run
	$(BIN)/python bench/run.py

flame: setup ## where the query's thread spends a trigger, as a picture; ONLY=windowed; needs a JDK
	$(BIN)/python bench/flame.py

bench-store: setup $(STORES_STAMP) ## requests and time of a batch on S3, with both engines; needs Maven
	PYTHONPATH=. $(BIN)/python bench/store.py

scale: setup ## how a trigger grows with queries, sources, files, ...; QUICK=1, ONLY="files"
	$(BIN)/python bench/scale.py

soak: setup ## run N batches of one query, 20,000 by default, and check for leaks
	$(BIN)/python -m tests.soak $(if $(filter command line environment,$(origin N)),$(N),20000)

demo: setup ## a stream from start to recovery, narrated
	$(BIN)/python examples/demo.py

demo-kafka: $(REAL_STAMP) ## the same from a Kafka topic, with a broker of its own; needs Maven
	$(BIN)/python -m tests.real.with_kafka examples/demo_kafka.py

docs: $(DOCS_STAMP) ## build the documentation in site/; needs neither Spark nor Java
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet --strict
	@echo "site/index.html is the first page. With search: $(PYTHON) -m http.server -d site"

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) $(DOCS_VENV) $(STORES_VENV) .parts build dist site .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis spark-warehouse metastore_db derby.log
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(CHECK_PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[dev]' $(PYSPARK)
	@$(WHICH_JAVA) 2>/dev/null || { $(PIP) --editable '.[java]' && $(WHICH_JAVA); }
	@touch $@

$(REAL_STAMP): $(STAMP)
	@$(PIP) --editable '.[real]'
	@touch $@

$(STORES_STAMP): constraints-stores.txt
	@$(CHECK_PYTHON)
	@test -x $(STORES_VENV)/bin/python || $(PYTHON) -m venv $(STORES_VENV)
	@$(STORES_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r constraints-stores.txt
	@touch $@

$(DOCS_STAMP): pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -c '$(DOCS_NEEDS)' > $(DOCS_VENV)/needs.txt
	@$(DOCS_VENV)/bin/python $(INSTALL) -r $(DOCS_VENV)/needs.txt
	@touch $@
