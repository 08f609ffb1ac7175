# Everything starts with the set-up: it gets libtorch once per machine and is instant afterwards.

CARGO ?= cargo

.PHONY: help setup demo test lint bench

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

setup: ## get libtorch, point Cargo at it
	@scripts/setup

demo: setup ## train a small network and draw what it knows and what it does not
	$(CARGO) run --locked --release -q -p fidgp-cli -- demo

test: setup ## all tests, and the formatting where rustfmt is installed
	@if $(CARGO) fmt --version >/dev/null 2>&1; then $(CARGO) fmt --all --check; else echo "rustfmt not installed, formatting not checked" >&2; fi
	$(CARGO) test --locked --release --workspace

bench: setup ## time training and prediction beside plain PyTorch, as ratios
	$(CARGO) build --locked --release -q -p fidgp-cli
	@scripts/bench

lint: setup ## formatting, clippy and, where it is installed, cargo deny
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --release --workspace --all-targets -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check; else echo "cargo-deny not installed, licences and advisories not checked" >&2; fi
