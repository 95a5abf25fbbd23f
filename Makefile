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

##@ The stack in containers
# PROFILES=cluster (three brokers), PROFILES=observability, or both: PROFILES=cluster,observability
PROFILES ?=
COMPOSE = COMPOSE_PROFILES=$(PROFILES) $(if $(findstring cluster,$(PROFILES)),KAFKA_REPLICATION=3 KAFKA_MIN_INSYNC=2) \
	docker compose

.PHONY: secrets
secrets: ## Write the stack's passwords to .env, once
	@infra/secrets.sh

.PHONY: up
up: ## Build and start Kafka, Spark and Airflow, and wait until all is healthy
	@$(COMPOSE) up -d --build --wait

.PHONY: down
down: ## Stop the stack; its data stays (`make clean` removes it)
	@COMPOSE_PROFILES='*' docker compose down

.PHONY: images
images: ## Build the stack's images
	@$(COMPOSE) build

.PHONY: local-images
local-images: setup ## Where no image registry can be reached: build stand-ins of the public images
	@infra/local-images/build.sh

.PHONY: executor-env
executor-env: setup ## Pack the environment that a cluster's executors need into dist/
	@scripts/executor-env.sh

.PHONY: test-containers
test-containers: setup ## Pass the tests that need a Docker engine: clusters, TLS, the stack itself
	@scripts/test-containers.sh $(PYTEST_ARGS)

##@ Benchmarks in Airflow, without Docker
.PHONY: airflow
airflow: setup ## Start Airflow with the benchmark DAGs and a broker; Ctrl-C stops all
	@scripts/airflow.sh
	@$(BIN)/python scripts/airflow_up.py

.PHONY: test-airflow
test-airflow: setup ## Pass the tests of the DAGs in Airflow
	@scripts/airflow.sh
	@$(BIN)/python -m pytest -m airflow tests/airflow $(PYTEST_ARGS)

.PHONY: test-browser
test-browser: setup ## Pass the tests of the report in Chromium
	@$(BIN)/python -m pytest -m browser tests/browser $(PYTEST_ARGS)

.PHONY: tpch-sf1
tpch-sf1: setup ## Hold whole-table Q1, Q3, Q6 at scale 1 against TPC's answers (minutes; makes the data)
	@$(BIN)/python scripts/tpch_sf1.py $(DATA)

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
	@$(BIN)/keyspread bench aggregates
	@$(BIN)/keyspread bench workloads

.PHONY: lock
lock: setup ## Resolve the lock files anew
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" --all-extras -o requirements.lock pyproject.toml
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" -o requirements-setup.lock requirements-setup.in
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" -o requirements-kafka-python-2.lock requirements-kafka-python-2.in
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" -o requirements-airflow.lock requirements-airflow.in
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" -c requirements.lock --extra spark --extra postgres --extra tpch \
		-o infra/images/requirements.lock pyproject.toml
	@for of in infra/images/requirements-build infra/airflow/requirements-postgres tests/containers/requirements; do \
		$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
			--custom-compile-command "make lock" -c requirements.lock -o $$of.lock $$of.in; done

##@ Clean up
.PHONY: clean
clean: ## Remove runs, environments and caches of this checkout, and the stack with its data
	@if [ ! -f .env ]; then \
		echo "clean: there is no .env: a stack with its data, if there is one, stays (make secrets clean removes it)" >&2; \
	elif ! docker info >/dev/null 2>&1; then \
		echo "clean: no Docker engine answers: the stack's data stays until make clean is run with one" >&2; \
	else COMPOSE_PROFILES='*' docker compose down --volumes --remove-orphans; fi
	@rm -rf runs dist .venv .venv-kafka-python-2 .venv-containers .venv-airflow .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make <target> [PYTEST_ARGS=...]\n"} \
		/^[a-z-]+:.*##/ {printf "  %-15s %s\n", $$1, $$2} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)
