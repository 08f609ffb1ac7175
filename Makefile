# Everything starts with the set-up: it gets libtorch once per machine and is instant afterwards.

CARGO ?= cargo

.PHONY: help setup demo test lint deny bench docs

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

lint: setup ## formatting, clippy, the links of the API's pages
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --locked --release --workspace --exclude fidgp-cli --no-deps -q
	scripts/links
	scripts/readme --check

deny: ## licences, sources, duplicates and advisories of all crates; installs cargo-deny, needs the network
	@scripts/deny

docs: ## the guide as a book, in target/book, after a check of its links
	@scripts/links
	@scripts/readme --check
	@if mdbook --version >/dev/null 2>&1; then mdbook build docs; else echo "mdbook is not installed: cargo install mdbook --locked, then make docs" >&2; exit 1; fi
