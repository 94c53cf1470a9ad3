# Two commands set everything up: `make demo` and `make test`. Both work from a bare clone, and make what they lack:
# .venv, a Docker Engine where none answers, and the base images. Each says what it did.

PY := .venv/bin/python
PYTEST := $(PY) -m pytest -q --durations=15 --durations-min=15
# What takes long and tells little that a neighbour does not: `make extended`.
DAILY := -m "not extended"
# Tests that start processes wait for them now and then, so there are more workers than processors.
WORKERS := -n $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 2)))

# Tests start Python some two thousand times. Without bytecode each start compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint format unit plugin docs docker local agents viewer podman buildkit k8s k8s-chaos extended fuzz simulate hostile bench mutants chaos test-matrix terminal-bench site dist venv engine bubblewrap chromium plugins clean

help:  ## Show this
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'

demo: venv engine  ## Run the quickstart benchmark with two agents in real containers
	$(PY) scripts/demo.py

test:  ## Everything CI runs, except the matrix
	@scripts/test.sh $(if $(MATRIX),"$(MATRIX)")

lint: venv  ## ruff, mypy --strict, import-linter
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	.venv/bin/lint-imports

format: venv  ## Format and fix what can be fixed
	$(PY) -m ruff format
	$(PY) -m ruff check --fix

unit: venv  ## No engine, no pytest plugin
	$(PYTEST) tests/unit $(WORKERS) $(DAILY)

plugin: venv  ## The pytest plugin, through pytester
	$(PYTEST) tests/plugin $(WORKERS) $(DAILY)

docs: venv engine plugins  ## Run what the documentation shows
	$(PYTEST) tests/docs $(WORKERS) $(DAILY)

docker: venv engine plugins  ## Real containers
	$(PYTEST) tests/docker $(WORKERS) $(DAILY)

local: venv engine bubblewrap  ## Sandboxes without Docker, beside real containers
	$(PYTEST) tests/local -n auto $(DAILY)

agents: venv engine  ## Real agents, against a scripted model server
	$(PYTEST) tests/agents -n auto $(DAILY)

viewer: venv engine chromium  ## Pages of the viewer, in Chromium
	$(PYTEST) tests/viewer $(WORKERS) $(DAILY)

extended: venv engine bubblewrap chromium plugins  ## What takes long and tells little that `make test` does not
	$(PYTEST) tests $(WORKERS) -m "extended or when_changed"
	$(PYTEST) tests/unit $(WORKERS) -m hypothesis --hypothesis-profile thorough
	@if git diff --quiet HEAD; then git update-ref refs/benchjobs/extended HEAD; else echo "extended: with changes that are not committed, the next make test goes by an older commit"; fi

chaos: venv engine plugins  ## Every call of the engine with every fault, by a socket that does harm; CHAOS_SEED=N, CHAOS_CELLS=N, CHAOS_REPORT=FILE, CHAOS_ENGINE=ssh|tls
	CHAOS_CELLS=$${CHAOS_CELLS:-1000000} $(PYTEST) tests/docker/chaos -s

fuzz: venv  ## 10,000 malformed manifests, task.toml, agent files, settings and options; FUZZ_SEED=N, FUZZ_CASES=N
	$(PYTEST) tests/unit/test_fuzz.py -m extended

hostile: venv engine  ## Every attack on a score that we know of, in one job, and how many score; HOSTILE_ENGINE=ssh|tls|trixie|bookworm-user.., HOSTILE_RUNTIME=NAME
	$(PYTEST) tests/docker/test_attacks.py -m "" -k all -s

simulate: venv  ## Judge thousands of simulated jobs, and check what docs/statistics.md says of verdicts; SIMULATE_REPORT=FILE
	$(PYTEST) tests/unit/test_simulated_gates.py -n auto -m ""

podman: venv engine  ## Podman 4.3 and 5.4, as root and as a user: the suite, jobs, a real agent; nothing is installed
	@scripts/podman.sh bookworm trixie
	$(PYTEST) tests/docker/test_conformance.py tests/docker/test_podman.py tests/agents/test_podman.py -m "" -k podman

buildkit: venv engine plugins  ## A BuildKit of Debian on this machine, built once, and images by BUILDKIT_HOST; nothing is installed
	@scripts/buildkit.sh
	$(PYTEST) tests/docker/test_buildkit_host.py -m ""

k8s: venv engine  ## A real Kubernetes of three nodes on this machine, built once, and its tests; or those alone, on the cluster of BENCHJOBS_KUBECONFIG
	scripts/k8s.sh run $(PYTEST) tests/kubernetes

k8s-chaos: venv engine  ## The same cluster, harmed about every 30 s while a job runs there and on Docker; SEED=N, TRIALS=N, CHAOS_REPORT=FILE
	CHAOS_SEED=$(SEED) CHAOS_TRIALS=$(or $(TRIALS),300) scripts/k8s.sh run $(PYTEST) tests/kubernetes/test_chaos.py -m "" -s

bench: venv engine chromium  ## Measure the budgets: each figure is the median of several runs, beside what it may be
	$(PY) -m tests.performance

mutants: venv engine  ## Change the code a little, 300 times over all ROOMS, and list what no test notices; SEED=N, COUNT=N, EXTENDED=1
	$(PY) -m tests.mutation $(ROOMS) $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(EXTENDED),--extended)

test-matrix: venv  ## Plugin tests on every supported pytest and pytest-xdist, and beside other plugins
	$(PY) scripts/matrix.py $(MATRIX)

terminal-bench: venv engine chromium  ## Stand-in images for Terminal-Bench 2.0 tasks where no registry answers
	scripts/standins.sh

site: venv  ## Build the documentation as a site in .site/; any broken link fails
	$(PY) -m mkdocs build --strict

dist: venv  ## Build the wheel and the sdist in dist/, and check them
	scripts/dist.sh

venv:
	@scripts/venv.sh

bubblewrap:
	@scripts/bubblewrap.sh

chromium:
	@scripts/chromium.sh

# Tests of services, and of the other builder, are skipped without them, and say so.
plugins:
	@scripts/plugin.sh compose || true
	@scripts/plugin.sh buildx || true

engine:
	@scripts/engine.sh
	@scripts/images.sh

clean:  ## Remove .venv, caches and what the demo left in reports/
	rm -rf .venv .matrix .site dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis reports/jobs reports/history.sqlite*
