# `make` lists the targets. Nothing here needs more than Rust and either root on Debian or the programs named by
# `make setup`; scripts/tools.sh says where they are looked for.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PLUGIN_TARGET := wasm32-wasip1
NODE_TARGET := wasm32-unknown-unknown
# What `make fuzz` runs, and for how many seconds.
TARGET ?= path
FUZZ_SECONDS ?= 60
# What was built is below this.
BUILT = $(abspath $(or $(CARGO_TARGET_DIR),target))

##@ See it work
demo: build-demo ## Redis, a sidecar and two Envoys on free ports: shows and checks what Sluice does, then stops them
	@scripts/demo.sh

up: build-demo ## The same, kept running until Ctrl-C, with addresses and commands to try
	@scripts/demo.sh up

##@ Build
setup: ## Get everything that building, the demo and the tests need
	@scripts/setup.sh test

build: setup-demo plugin sidecar ## The plugin (target/wasm32-wasip1/release/sluice_filter.wasm) and the sidecar (target/release/sluice)

plugin: setup-build
	cargo build --release -p sluice-filter --target $(PLUGIN_TARGET)

sidecar: setup-build
	cargo build --release -p sluice

# The sidecar as the tests use it: optimising it takes minutes, and shows nothing more.
build-demo: setup-demo plugin
	cargo build -p sluice

images: ## Container images of both, with buildah and without a registry: see Containerfile
	@scripts/images.sh

clean: ## Remove what was built and what set-up fetched
	cargo clean
	rm -rf .tools

##@ Check
test: setup lint unit unit-wasm e2e servers ## Everything CI runs

fmt: ## Format
	cargo fmt --all

lint: setup ## Formatting, clippy natively and for both Wasm targets, luacheck
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p sluice --bin instructions --features instructions -- -D warnings
	cargo clippy -p sluice-filter --lib --target $(PLUGIN_TARGET) -- -D warnings
	cargo clippy -p sluice-filter --lib --target $(PLUGIN_TARGET) --features panics-for-tests -- -D warnings
	cargo clippy -p sluice-filter --all-targets --target $(NODE_TARGET) -- -D warnings
	for script in decide lease refund; do \
	    cargo run --quiet -p sluice -- script $$script | \
	        luacheck --no-color --std lua51 --read-globals redis struct KEYS ARGV -- - || exit 1; \
	done
	@scripts/optional.sh shellcheck -x scripts/*.sh .ci/run
	@scripts/optional.sh cargo-deny --workspace check
	@scripts/manifests.sh
	@scripts/charts.sh
	@scripts/alerts.sh

unit: setup-build ## Unit tests, natively
	cargo test --workspace --lib --bins
	cargo test --workspace --doc

unit-wasm: setup ## The plugin's unit tests as Wasm, under Node
	PATH="$$(dirname "$$(scripts/tools.sh node)"):$$PATH" \
	CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER="$$(scripts/tools.sh wasm-bindgen-test-runner)" \
	    cargo test -p sluice-filter --lib --target $(NODE_TARGET)

e2e: setup-page plugin ## End-to-end tests: real Envoy, real Redis, real Chromium
	cargo test -p sluice --test e2e -- --test-threads=3

page-test: setup-page ## Those of the admin listener's page alone; pictures of it go to target/page/
	cargo test -p sluice --test e2e -- page::

fuzz: ## Fuzz one of the filter's parsers: make fuzz TARGET=path FUZZ_SECONDS=300
	mkdir -p fuzz/corpus/$(TARGET)
	cargo +nightly fuzz run $(TARGET) fuzz/corpus/$(TARGET) fuzz/seeds/$(TARGET) -- -max_total_time=$(FUZZ_SECONDS)

servers: setup-demo ## The script's tests against Redis 6.2 and Valkey 8.0 too
	@scripts/servers.sh

##@ Measure
# The sidecar that is measured.
RELEASED ?= $(BUILT)/release/sluice
# The benchmark's own program is not optimised: it only waits for those that are measured.
RUN_BENCH = SLUICE_BIN=$(abspath $(RELEASED)) SLUICE_PLUGIN=$(BUILT)/$(PLUGIN_TARGET)/release/sluice_filter.wasm \
    BENCH_JSON=$(BUILT)/bench/performance.json BENCH_COMMAND="make $@" \
    cargo bench --quiet -p sluice --profile dev --bench gateway --

bench: setup-bench plugin sidecar ## What a decision costs: BENCH_SECONDS, BENCH_REPEATS, BENCH_ROWS, BENCH_PARTS make it short
	$(RUN_BENCH)

bench-docs: setup-bench plugin sidecar ## The same, written into docs/performance.md, .svg and .json
	$(RUN_BENCH) --docs

bench-guard: setup-build ## Count instructions of the code that runs per request, and compare them with bench/instructions.txt
	@scripts/instructions.sh check

# Each needs more than the one before it, so that `make demo` does not fetch what only the tests use.
setup-build setup-demo setup-page setup-bench: setup-%:
	@scripts/setup.sh $*

help:
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

.PHONY: demo up setup build plugin sidecar images clean test fmt lint unit unit-wasm e2e page-test fuzz servers bench bench-docs bench-guard setup-build setup-demo \
    setup-page setup-bench build-demo help
# Set-up before anything that uses it, and one cargo at a time, whatever -j says.
.NOTPARALLEL:
