# Every target can be run again at any time. What is built is kept outside the tree, so that a fresh clone reuses it.

# Where a user's files are, also for callers without an environment.
export HOME ?= $(shell getent passwd $$(id -u) | cut -d: -f6)
CACHE := $(or $(REMORA_CACHE_DIR),$(HOME)/.cache/remora)
export CARGO_TARGET_DIR ?= $(CACHE)/target
# The target is named in .cargo/config.toml (static linking), so that programs lie one folder deeper.
BIN := $(CARGO_TARGET_DIR)/x86_64-unknown-linux-gnu/release
REMORA := $(BIN)/remora
# The lab is on this machine, whatever proxy leads out of it.
comma := ,
export NO_PROXY := $(if $(NO_PROXY),$(NO_PROXY)$(comma))127.0.0.1,localhost,192.168.123.0/24
export no_proxy := $(NO_PROXY)
# Always the whole workspace: a part of it would select other features, and compile the dependencies once more.
CARGO_TEST := RUST_BACKTRACE=0 RUST_LIB_BACKTRACE=0 cargo test --locked --release --workspace

.PHONY: help demo programs test-programs packages check fmt clippy unit pure api-tests e2e test bench clean-lab update
.DEFAULT_GOAL := help
# Stages share the processor and the target directory: one after another.
.NOTPARALLEL:

# Shows what a stage is and, afterwards, what it took.
define stage
	@echo "== $(1)"; start=$$(date +%s); ( $(2) ); code=$$?; echo "== $(1): $$(( $$(date +%s) - start )) s"; exit $$code
endef

help: ## Shows the targets.
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

demo: programs ## From nothing to the application's page on every hosting worker; leaves everything running.
	@$(REMORA) lab demo

programs: ## Builds remora, the operator and the sample application.
	$(call stage,programs,cargo build --locked --release --workspace --bins)

# With the tests at once: built apart, the programs would be built twice, as tests ask for other features.
test-programs:
	$(call stage,programs and tests,cargo build --locked --release --workspace --bins --tests)

packages: test-programs
	@$(REMORA) lab packages

check: fmt clippy pure unit ## The fast half of the tests: needs no lab.

fmt:
	$(call stage,format,cargo fmt --all -- --check)

clippy:
	$(call stage,clippy,cargo clippy --locked --workspace --all-targets -- -D warnings)

# The committed CRDs are compared with the types by a test of remora-api. Properties are tried with the same inputs on
# every run, so that a run says something about the change; search wider with PROPTEST_RNG_SEED=... PROPTEST_CASES=....
unit:
	$(call stage,unit and snapshot tests,PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-1} INSTA_UPDATE=no $(CARGO_TEST) --lib --bins)

# What decides must not be able to act: no client, no runtime in remora-core's dependencies.
pure:
	$(call stage,remora-core is pure,tree=$$(cargo tree --locked -p remora-core -e normal --prefix none --format '{p}') \
		&& ! echo "$$tree" | grep -E '^(tokio|kube-client|kube-runtime|hyper|reqwest|rustix) ')

api-tests: packages ## CRDs, operator and command line against a real API server: needs no lab, builds Kubernetes once.
	$(call stage,CRDs against a real API server,$(CARGO_TEST) --test crds)
	$(call stage,operator against a real API server,$(CARGO_TEST) --test api)
	$(call stage,command line against a real API server,$(CARGO_TEST) --test cli)

e2e: packages ## The users' stories, in the lab.
	$(call stage,end-to-end stories,$(CARGO_TEST) --test stories -- --test-threads=1)

test: check api-tests e2e ## All tests.

bench: programs ## Measures on the running lab: five runs, median and range.
	@bench/measure $(REMORA)

update: ## Writes snapshots, CRDs and the picture anew after a change of their sources.
	INSTA_UPDATE=always REMORA_UPDATE=1 UPDATE_PICTURE=1 $(CARGO_TEST) --lib --bins

clean-lab: ## Removes every process, namespace, link, mount, cgroup and file of the lab.
	@if [ -x $(REMORA) ]; then $(REMORA) lab down; else $(MAKE) --no-print-directory programs && $(REMORA) lab down; fi
