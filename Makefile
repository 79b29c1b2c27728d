# Two commands matter: `make demo` runs a whole sale, `make test` runs all
# tests. Both install what they need: Debian's redis-server, and for the check
# of the API description schemathesis from PyPI, into .venv.

SHOPPERS ?= 20000
UNITS ?= 1000
PORT ?= 8080

.PHONY: demo up test lint unit api setup setup-python

demo: setup
	cargo run -q -p drill -- demo --shoppers $(SHOPPERS) --units $(UNITS) $(DRILL)

up: setup
	cargo run -q -p local -- up --port $(PORT)

test: lint unit api

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

unit: setup
	cargo test --workspace

# The tests' own artefacts: a build of `local` alone has other features of its
# dependencies, and so all of them once more.
api: setup setup-python
	cargo test -q --workspace --no-run
	.venv/bin/python tests/openapi/check.py target/debug/local

setup:
	@.ci/setup

setup-python:
	@.ci/setup-python
