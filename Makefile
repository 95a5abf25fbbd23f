.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTEST_ARGS ?=
# Two at a time: most of an integration test waits for a start of Spark or of a broker.
TEST_PROCESSES ?= 2
BIN := .venv/bin

##@ Start here
.PHONY: demo
demo: setup ## Run the main job on shipped data: taxi routes and a novel's words, Kafka to Spark
	@$(BIN)/keyspread demo

.PHONY: test
test: setup ## Pass the whole test suite, with a real broker and a real Spark
	@$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)

##@ Develop
.PHONY: setup
setup: ## Make .venv from the lock files; see to a Java 17 or 21
	@scripts/setup.sh

.PHONY: check
check: setup ## Lint, format check and strict types: the gate before a commit
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

.PHONY: format
format: setup ## Let ruff mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: bench
bench: setup ## Run every benchmark; each prints ratios measured side by side
	@$(BIN)/keyspread bench partitioners
	@$(BIN)/keyspread bench producer
	@$(BIN)/keyspread bench windows
	@$(BIN)/keyspread bench split

.PHONY: lock
lock: setup ## Resolve the lock files anew
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" --all-extras -o requirements.lock pyproject.toml
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" -o requirements-setup.lock requirements-setup.in
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" -o requirements-kafka-python-2.lock requirements-kafka-python-2.in

##@ Clean up
.PHONY: clean
clean: ## Remove runs, environments and caches of this checkout
	@rm -rf runs .venv .venv-kafka-python-2 .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make <target> [PYTEST_ARGS=...]\n"} \
		/^[a-z-]+:.*##/ {printf "  %-8s %s\n", $$1, $$2} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)
