.DEFAULT_GOAL := help
.PHONY: help setup run test lint evidence batteries model bench shots clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what tests and linters need
	@bin/setup test

run: ## from a fresh machine to an open console with real work in it
	@bin/setup run
	@exec bin/run

test: ## every test, on MariaDB and TiDB, browser included
	@bin/setup test
	@bin/test

lint: ## formats, linters, types, import layers, templates, deployment checks
	@bin/setup test
	@bin/lint

evidence: ## run the tests and print which statements they prove
	@bin/setup test
	@bin/test; tested=$$?; LOCKHOUSE_LOCAL=1 .venv/bin/python manage.py evidence && exit $$tested

batteries: ## attack the guarantees with kills, races, cuts and outages, and count; LONG=1 for the long form
	@bin/setup test
	@bin/batteries $(if $(LONG),--form long)

model: ## run the kernel against its model: STEPS=200000 SEED=1
	@bin/setup test
	@.venv/bin/python -m tests.model --steps $(or $(STEPS),200000) --seed $(or $(SEED),1)

bench: ## measure against peers, in interleaved pairs; prints ratios
	@bin/setup test
	@bench/run

shots: ## screenshots of every page, both themes, wide and narrow
	@bin/setup test
	@bin/shots

clean: ## remove what was installed and built here; var/ is kept
	rm -rf .venv node_modules .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
