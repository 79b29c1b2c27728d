# Two commands matter: `make demo` runs a whole sale, `make test` runs all
# tests. Both install what they need: .ci/setup* say what that is, from Debian,
# PyPI and npm, each into a folder here or with apt-get.
# `make page` tests the edge function and walks through a sale on the sale page.
# `make deploy-local` deploys the template to an emulator of AWS and sells there.

SHOPPERS ?= 20000
UNITS ?= 1000
PORT ?= 8080

.PHONY: demo up test lint validate unit sales parts stripe valkey api faults web page crowd screens bench-start deploy-local setup setup-python setup-sam setup-stripe setup-node

# The test programs of whole sales, which are chosen by their names: those of other
# packages have others.
SALES = $(basename $(notdir $(wildcard tests/tests/*.rs tests/tests/cases)))

TEMPLATES = template.yaml infra/network.yaml infra/cache.yaml infra/edge.yaml infra/watch.yaml

# The features of the whole workspace, so that the tests find most of this built.
demo: setup
	@echo "Building; the first time that takes about ten minutes."
	cargo build -q --workspace --bin drill
	target/debug/drill demo --shoppers $(SHOPPERS) --units $(UNITS) $(DRILL)

# Page and edge need Node.
up: setup setup-node
	cargo build -q --workspace --bin local
	@exec node infra/page/up.mjs target/debug/local $(PORT)

test: lint web unit valkey api
	@echo "All tests passed."

lint: setup-python
	.venv/bin/cfn-lint $(TEMPLATES)
	.venv/bin/checkov --config-file infra/checkov.yaml $(addprefix -f ,$(TEMPLATES))
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# cfn-lint's rules as SAM applies them. No call is made: region and credentials
# are asked for and not used.
validate: setup-sam
	for template in $(TEMPLATES); do \
		SAM_CLI_TELEMETRY=0 AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=none AWS_SECRET_ACCESS_KEY=none \
			.venv-sam/bin/sam validate --lint --template $$template || exit 1; \
	done

# Most of the tests' time is waiting for sales to open and holds to lapse: more of
# them run at once than there are cores, and the programs of whole sales beside
# those of the parts. What each printed comes in one piece.
unit: setup setup-stripe
	cargo test --workspace --no-run
	@$(MAKE) --jobs=2 --output-sync=target sales parts

sales:
	+cargo test --workspace --no-fail-fast $(SALES:%=--test %) -- --test-threads=4

# Sales that are paid through localstripe at full size, and a provider that is away
# for half a minute: minutes.
stripe: setup setup-stripe
	cargo test --workspace --test stripe --test through_stripe --test provider -- --include-ignored

parts:
	+cargo test --workspace --no-fail-fast --exclude tests -- --test-threads=4

# The same on Valkey: everything about the gates, and a sale that outlives a
# primary. That build of Valkey has no TLS. GATE_PROGRAM chooses the server for
# any other program, too.
valkey: setup
	GATE_PROGRAM="$$(.ci/setup-valkey)" cargo test --workspace --test gates --test failover \
		-- --skip secure::

# A sale for each fault, audited, half an hour on two cores; docs/faults.md says
# what they are: `make faults FAULTS="--only primary,flush"`.
faults: setup
	cargo build -q --workspace --bin faults
	target/debug/faults $(FAULTS)

api: setup setup-python
	cargo build -q --workspace --bin local
	.venv/bin/python tests/openapi/check.py target/debug/local

# The logic of the edge function and the page: seconds, no browser.
web: setup-node
	cd infra && node --test edge/test/*.test.mjs page/test/*.test.mjs

# The edge beside the origin, and a whole sale in Chromium; the state of each
# step is looked at by axe-core.
page: setup web
	@.ci/setup-node browser
	node infra/edge/bench.mjs
	cargo build -q --workspace --bin local
	node infra/page/test/walk/walk.mjs $(WALK)

# Crowds at the edge, and what of them reaches the origin: the picture in docs.
# CROWD=10000000 takes an hour and adds one point to it.
CROWD ?= 10000,30000,100000,300000,1000000
crowd: setup setup-node
	cargo build -q --workspace --bin local
	node infra/edge/crowd.mjs --chart=docs/crowd.svg --crowds=$(CROWD)

# The pictures in docs/screens.
screens:
	$(MAKE) page WALK=--screens=docs/screens

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

setup-stripe:
	@.ci/setup-stripe >/dev/null

setup-sam:
	@.ci/setup-sam

setup-node:
	@.ci/setup-node
