# Two commands matter: `make demo` runs a whole sale, `make test` runs all
# tests. Both install what they need: Debian's redis-server, and from PyPI into
# .venv cfn-lint for the templates and schemathesis for the API description.
# `make deploy-local` deploys the template to an emulator of AWS and sells there.

SHOPPERS ?= 20000
UNITS ?= 1000
PORT ?= 8080

.PHONY: demo up test lint validate unit valkey api faults bench-start deploy-local setup setup-python setup-sam

TEMPLATES = template.yaml infra/network.yaml infra/cache.yaml infra/watch.yaml

# The features of the whole workspace, so that the tests find most of this built.
demo: setup
	cargo build -q --workspace --bin drill
	target/debug/drill demo --shoppers $(SHOPPERS) --units $(UNITS) $(DRILL)

up: setup
	cargo build -q --workspace --bin local
	target/debug/local up --port $(PORT)

test: lint unit valkey api

lint: setup-python
	.venv/bin/cfn-lint $(TEMPLATES)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# cfn-lint's rules as SAM applies them. No call is made: region and credentials
# are asked for and not used.
validate: setup-sam
	for template in $(TEMPLATES); do \
		SAM_CLI_TELEMETRY=0 AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=none AWS_SECRET_ACCESS_KEY=none \
			.venv/bin/sam validate --lint --template $$template || exit 1; \
	done

unit: setup
	cargo test --workspace

# The same on Valkey: everything about the gates, and a sale that outlives a
# primary. That build of Valkey has no TLS. GATE_PROGRAM chooses the server for
# any other program, too.
valkey: setup
	GATE_PROGRAM="$$(.ci/setup-valkey)" cargo test --workspace --test gates --test failover \
		-- --skip secure::

# A sale for each fault, audited, half an hour on two cores; docs/faults.md says
# what they are: `make faults FAULTS="--only primary,flush"`. Built as the tests are.
faults: setup
	cargo test -q --workspace --no-run --test faults
	target/debug/faults $(FAULTS)

# The tests' own artefacts: a build of `local` alone has other features of its
# dependencies, and so all of them once more.
api: setup setup-python
	cargo test -q --workspace --no-run
	.venv/bin/python tests/openapi/check.py target/debug/local

# Sizes and starts of all functions, as multiples of hello-function's:
# `make bench-start BENCH="--profile dev --functions claim-function"`.
bench-start: setup-python
	.venv/bin/python infra/hello/bench.py $(BENCH)

# DEPLOY="--as-shipped" builds with the shipped profile; --keep=DIR keeps logs.
deploy-local: setup setup-sam
	.venv-emulator/bin/python tests/deploy/check.py $(DEPLOY)

setup:
	@.ci/setup

setup-python:
	@.ci/setup-python

setup-sam:
	@.ci/setup-sam
