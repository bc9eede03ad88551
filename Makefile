# Every task of the project; CI runs `make test`. Trials have a command of their own: `python -m tests.trials`.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Packages in the versions and with the hashes of the one lock; uv reads the hashes of constraints too.
LOCKED := pip install --quiet --require-hashes --constraint requirements.lock
RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock pyproject.toml
# The tests that are run with other versions of the packages too.
DEPENDENT_TESTS := tests --ignore=tests/e2e --ignore=tests/trials --ignore=tests/project/test_own_packages.py
# The site has the tree of the repository, so that links between pages hold in both.
PAGES := README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE docs deploy benches/README.md benches/results
# PROCESSORS="x86_64 aarch64" builds wheels for both, on either of them.
PROCESSORS ?= $(shell uname -m)

.PHONY: help demo build check lint format test e2e breaks bench nightly lock docs release

help: ## list these tasks
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/' | expand -t 12

demo: build ## start the server, send it recorded requests of every verb, print what it decides
	$(BIN)/python deploy/demo/demo.py

build: build/installed ## make the virtual environment and install kubextend into it

build/installed: requirements.lock $(RUST_SOURCES)
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed, this is " + sys.version'
	mkdir -p build && [ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > build/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r build/uv.txt
	$(BIN)/uv $(LOCKED) --python $(BIN)/python -r pyproject.toml --group tools
	$(BIN)/maturin develop --release --locked --uv
	touch $@

check: build ## formatting, lints, types, tests of the core, and every Python test that is not slow: 3 minutes
	cargo fmt --check
	$(BIN)/ruff check --quiet && $(BIN)/ruff format --quiet --check
	$(BIN)/mypy && $(BIN)/lint-imports --no-cache > /dev/null && $(BIN)/python -m tests.prose && $(BIN)/python -m tests.doors_only
	PROPTEST_CASES=10 cargo test --quiet --locked -p kubextend-core
	$(PYTEST) --quiet --numprocesses=2 --dist=worksteal --hypothesis-profile=check -m "not slow and not e2e"

lint: build ## formatting, lints, types, stubs, and the rules of the architecture
	cargo fmt --check
	rustfmt --edition 2024 --check rust/core/src/plugins/*.rs # a macro declares these modules
	cargo clippy --locked --workspace --all-targets -- -D warnings
	! cargo tree --locked -p kubextend-core --edges normal | grep pyo3
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest kubextend._native --allowlist tests/stubtest-allowlist.txt
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.prose
	$(BIN)/python -m tests.doors_only
	$(BIN)/python -m tests.rust_layers
	test -z "$$(gofmt -l tests/go tests/e2e/tools benches)"
	cd tests/go && go vet ./...
	cd benches && go vet ./...

format: build ## write the formatting that lint checks
	cargo fmt
	rustfmt --edition 2024 rust/core/src/plugins/*.rs
	$(BIN)/ruff format
	gofmt -w tests/go tests/e2e/tools benches

# The Python tests and e2e run side by side; the output of e2e comes at its end.
test: lint ## everything that CI runs: 20 minutes once all is built
	tests/apt-packages prometheus prometheus-node-exporter chromium
	cargo test --locked -p kubextend-core
	$(BIN)/python -m tests.e2e.controlplane
	$(PYTEST) tests/e2e > build/e2e.txt 2>&1 & e2e=$$!; \
	red=0; $(PYTEST) --ignore=tests/e2e || red=1; \
	wait $$e2e || red=1; cat build/e2e.txt; exit $$red

e2e: build ## etcd, kube-apiserver and kube-scheduler against kubextend; KUBE=1.34 for an older version
	$(BIN)/python -m tests.e2e.controlplane
	$(PYTEST) tests/e2e

breaks: build ## put each break into the code, one at a time, and say which breaks no test notices
	$(BIN)/python -m tests.breaks

bench: build ## measure all that needs no cluster, in turns with its floors and peers, as ratios
	mkdir -p build/benches && cd benches && go build -trimpath -o ../build/benches/ ./...
	$(PYTEST) benches -q --benchmark-columns=min,median,max,rounds
	$(BIN)/python benches/picture.py
	$(BIN)/python benches/prometheus_outage.py
	$(BIN)/python benches/report.py

nightly: build ## what takes hours, or asks databases that change: fuzzing, the lowest and newest packages, audits
	$(PYTEST) tests/property --hypothesis-profile=nightly
	PROPTEST_CASES=200000 cargo test --release --locked -p kubextend-core \
		--lib --test wire_reading --test wire_hostile --test wire_writing
	for versions in lowest-direct highest; do \
		$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/$$versions; \
		$(BIN)/uv pip compile --quiet --python build/$$versions --resolution $$versions pyproject.toml > build/$$versions/pins.txt; \
		$(BIN)/uv pip install --quiet --python build/$$versions --constraints build/$$versions/pins.txt . --group tools; \
		build/$$versions/bin/python -m pytest $(DEPENDENT_TESTS); \
	done
	$(BIN)/uv venv --quiet --clear build/audit && $(BIN)/uv $(LOCKED) --python build/audit --group audit
	build/audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.lock
	command -v cargo-deny > /dev/null || cargo install --quiet --locked cargo-deny@0.20.2
	cargo deny --all-features check

lock: build ## pin the newest versions that pyproject.toml and Cargo.toml allow
	cargo update
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--group tools --group docs --group audit --group release pyproject.toml --output-file requirements.lock

docs: build ## write the configuration reference, and build the site into build/site
	$(BIN)/uv venv --quiet --clear build/docs-venv && $(BIN)/uv $(LOCKED) --python build/docs-venv --group docs
	$(BIN)/python docs/configuration.py
	rm -rf build/docs && mkdir -p build/docs && cp -R --parents $(PAGES) build/docs
	NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build --quiet --strict --config-file docs/mkdocs.yml
	! grep -rlE '<(script|link|img)[^>]*(src|href)="?(https?:)?//' build/site --include='*.html'

release: build ## wheels that run on any Linux, tried without Rust, and what they and the image are made of
	$(BIN)/uv venv --quiet --clear build/release && $(BIN)/uv $(LOCKED) --python build/release --group release
	for processor in $(PROCESSORS); do \
		target=$$processor-unknown-linux-gnu; \
		[ -d "$$(rustc --print target-libdir --target $$target)" ] || rustup target add $$target; \
		PATH="$$PWD/build/release/bin:$$PATH" maturin build --release --locked --zig \
			--target $$target --compatibility manylinux_2_28 --out build/wheels; \
	done
	$(PYTHON) -m tests.wheels build/wheels $(BIN)/uv
	$(BIN)/python -m tests.sbom build/sbom build/release/bin/cyclonedx-py
