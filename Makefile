# Every task of the project; CI runs `make test`.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
BIN := .venv/bin
RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock pyproject.toml
BENCH_SOURCES := $(shell find benches -name '*.go') benches/go.mod benches/go.sum
# The versions of Kubernetes that e2e knows. make e2e KUBE=1.34 and its like pass KUBE on to Python.
KUBES := $(sort $(notdir $(wildcard tests/e2e/tools/1.*)))

.PHONY: help
help: ## list these tasks
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/' | expand -t 20

.PHONY: demo
demo: build ## start the server, send it recorded requests of every verb, print what it decides
	$(BIN)/python deploy/demo/demo.py

.PHONY: test
test: lint test-rust ## everything that CI runs
	@echo "The Python tests and e2e run side by side now, and the output of each comes at its end."
	$(MAKE) --jobs=2 --output-sync=target test-python e2e

.PHONY: build
build: build/installed ## make the virtual environment and install kubextend into it

build/environment: requirements-dev.lock
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed, this is " + sys.version'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	mkdir -p build && touch $@

build/installed: build/environment $(RUST_SOURCES)
	$(BIN)/maturin develop --release --locked
	touch $@

.PHONY: lint
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
	$(BIN)/python -m tests.rust_layers
	test -z "$$(gofmt -l tests/go tests/e2e/tools benches)"
	cd tests/go && go vet ./...
	cd benches && go vet ./...

.PHONY: test-rust
test-rust: ## tests of the core
	cargo test --locked -p kubextend-core

.PHONY: test-python
test-python: build apt-packages ## unit, property, contract and integration tests
	$(BIN)/python -m pytest --ignore=tests/e2e

.PHONY: test-stress
STRESS_RUNS ?= 5
test-stress: build apt-packages e2e-tools ## the Python tests beside e2e 5 times, each in another order, with two busy processes beside them
	@for _ in 1 2; do timeout 6h sh -c 'while :; do :; done' & busy="$${busy:-} $$!"; done; \
	trap 'kill $$busy $$(jobs -p) 2> /dev/null' EXIT; \
	for run in $$(seq $(STRESS_RUNS)); do \
		echo "run $$run of $(STRESS_RUNS)"; \
		$(BIN)/python -m pytest --ignore=tests/e2e > build/stress.txt & python=$$!; \
		$(BIN)/python -m pytest tests/e2e; \
		wait $$python && tail --lines=1 build/stress.txt || { cat build/stress.txt; exit 1; }; \
	done

# Servers, clusters and configurations stand on other people's packages; the rest is our own.
DEPENDENT_TESTS := tests/unit tests/integration --ignore=tests/integration/packages

.PHONY: test-lowest
test-lowest: build apt-packages ## tests with the lowest versions of the dependencies that pyproject.toml allows
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/lowest
	$(BIN)/uv pip compile --quiet --python build/lowest --resolution lowest-direct pyproject.toml > build/lowest/pins.txt
	$(BIN)/uv pip install --quiet --python build/lowest --constraints build/lowest/pins.txt . --group tools
	build/lowest/bin/python -m pytest $(DEPENDENT_TESTS)

.PHONY: test-newest
test-newest: build apt-packages ## tests with the newest versions of the dependencies that pyproject.toml allows
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/newest
	$(BIN)/uv pip install --quiet --python build/newest --upgrade . --group tools
	build/newest/bin/python -m pytest $(DEPENDENT_TESTS)

.PHONY: hostile
hostile: build ## hundreds of odd conversations over raw sockets, plain and over TLS, and what they leave in memory; bodies and pods that are made to fill it
	$(BIN)/python -m tests.hostile
	$(BIN)/python -m tests.hostile.memory

.PHONY: hostile-tenant
hostile-tenant: build e2e-tools ## ten minutes of all the harm that pods of one namespace can do, on the real control plane
	$(BIN)/python -m tests.e2e.hostile_tenant
	$(BIN)/python -m tests.e2e.hostile_tenant --strategy StrictFIFO

.PHONY: leader-changes
leader-changes: build e2e-tools ## kill, drain and cut off the leader of two replicas 20 times each while 2,000 pods are placed for each kind
	$(BIN)/python -m tests.e2e.leader_changes

.PHONY: rollouts
rollouts: build e2e-tools ## ten rolling updates of two replicas with a leader, by the controllers of Kubernetes, while 3,000 pods are placed
	$(BIN)/python -m tests.e2e.rollouts

.PHONY: reliability
reliability: build apt-packages e2e-tools ## every fault of tests/reliability/rows.toml, and a report; ROWS="C7 --keep" for a part of them
	$(BIN)/python -m tests.reliability $(ROWS)

.PHONY: mutants
mutants: build apt-packages e2e-tools ## break the code in hundreds of places, one at a time, and say which breaks no test notices
	$(BIN)/python -m tests.breaks $(MUTANTS)

.PHONY: nightly
nightly: build ## property tests with 100,000 examples each
	$(BIN)/python -m pytest tests/property --hypothesis-profile=nightly

FUZZ_CASES ?= 200000

.PHONY: fuzz
fuzz: ## the core's reading, skipping, selecting and writing beside serde_json and slow rules, 200,000 examples each
	PROPTEST_CASES=$(FUZZ_CASES) cargo test --release --locked -p kubextend-core \
		--lib --test wire_reading --test wire_hostile --test wire_writing

APT_PROGRAMS := prometheus prometheus-node-exporter chromium

.PHONY: apt-packages
apt-packages: ## Prometheus, its node exporter and Chromium, which the tests start, from Debian where missing
	@for program in $(APT_PROGRAMS); do command -v $$program > /dev/null || missing=1; done; \
	if [ -z "$${missing:-}" ]; then exit 0; fi; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive \
		apt-get install -q --yes --no-install-recommends $(APT_PROGRAMS)

.PHONY: e2e
e2e: build apt-packages e2e-tools ## etcd, kube-apiserver and kube-scheduler against kubextend; KUBE=1.34 for an older version
	$(BIN)/python -m pytest tests/e2e

.PHONY: e2e-all
e2e-all: ## e2e with each version of Kubernetes
	for kube in $(KUBES); do $(MAKE) e2e KUBE=$$kube; done

.PHONY: e2e-tools
e2e-tools: build ## build the pinned etcd, and kube-apiserver and kube-scheduler of the version KUBE
	$(BIN)/python -m tests.e2e.controlplane

.PHONY: oracle-ports
oracle-ports: build ## ask the Go originals of the ported plugins again, and record their decisions in tests/data/ports
	cd tests/go/ports && go build -trimpath -o ../../../build/go-ports .
	$(BIN)/python -m tests.ports build/go-ports

.PHONY: bench
bench: build build/benches/built ## all that needs no cluster, beside its floors and peers, as ratios
	$(BIN)/python -m pytest benches -q --benchmark-columns=min,median,max,rounds
	$(BIN)/python benches/picture.py
	$(BIN)/python benches/prometheus_outage.py

.PHONY: bench-page
bench-page: build apt-packages ## how fast Chromium shows and sorts 15,000 nodes on the page
	PYTHONPATH=tests:. $(BIN)/python benches/page.py

.PHONY: bench-scheduler
bench-scheduler: build build/benches/built e2e-tools ## pods a second of kube-scheduler with kubextend, and with others
	PYTHONPATH=benches:. $(BIN)/python -m scheduler

build/benches/built: $(BENCH_SOURCES)
	mkdir -p build/benches
	cd benches && go build -trimpath -o ../build/benches/ ./...
	touch $@

.PHONY: bench-queue
bench-queue: build e2e-tools ## how fast gated pods are bound, beside pods without gates
	$(BIN)/python -m tests.e2e.bench_queue

.PHONY: flooded-nodes
flooded-nodes: build e2e-tools ## two schedulers fill the last room of nodes: how many nodes get too much, and what the guard costs
	$(BIN)/python -m tests.e2e.flooded_nodes $(FLOOD)

.PHONY: why-at-size
why-at-size: build e2e-tools ## how long `kubextend why` takes with 5,000 nodes: it must not be more than 5 s
	$(BIN)/python -m tests.e2e.why_at_size

.PHONY: gangs-at-random
gangs-at-random: build e2e-tools ## 200 random gangs on a real kube-scheduler: none is bound in part, none spins
	$(BIN)/python -m tests.e2e.gangs_at_random $(GANGS)

.PHONY: pod-groups-at-random
pod-groups-at-random: build e2e-tools ## 200 random pod groups of kube-scheduler 1.37: none is bound in part, no member twice
	$(BIN)/python -m tests.e2e.pod_groups_at_random $(GROUPS)

.PHONY: admission-at-random
admission-at-random: build e2e-tools ## 2,000 random rule sets as admission policies: a real kube-scheduler places the pods where LabelMatch would
	$(BIN)/python -m tests.e2e.rules_at_random $(RULES)

.PHONY: autoscalers
autoscalers: build e2e-tools ## what Karpenter sees of compiled rules and held pods, in a network namespace; needs root or sudo
	$(BIN)/python -m tests.e2e.karpenter
	sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo --preserve-env"; \
	$$sudo env "PATH=$$PATH" unshare --net sh -c 'ip link set lo up && exec "$$@"' sh \
		$(BIN)/python -m pytest -p no:cacheprovider tests/e2e/test_autoscalers.py

.PHONY: format
format: build ## write the formatting that lint checks
	cargo fmt
	rustfmt --edition 2024 rust/core/src/plugins/*.rs
	$(BIN)/ruff format
	gofmt -w tests/go tests/e2e/tools benches

.PHONY: lock
lock: build/environment ## pin the newest versions that pyproject.toml and Cargo.toml allow
	cargo update
	$(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-header --group tools pyproject.toml --output-file requirements-dev.lock
	for group in docs audit release; do \
		$(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes \
			--no-header --group pyproject.toml:$$group --output-file requirements-$$group.lock; \
	done

build/docs-environment: requirements-docs.lock
	$(PYTHON) -m venv build/docs-venv
	build/docs-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	mkdir -p build && touch $@

# The site has the tree of the repository, so that links between pages hold in both.
PAGES := README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE docs deploy benches/README.md benches/results

.PHONY: docs
docs: build build/docs-environment ## write the configuration reference, and build the site into build/site
	$(BIN)/python docs/configuration.py
	rm -rf build/docs && mkdir -p build/docs && cp -R --parents $(PAGES) build/docs
	NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build --quiet --strict --config-file docs/mkdocs.yml
	! grep -rlE '<(script|link|img)[^>]*(src|href)="?(https?:)?//' build/site --include='*.html'

.PHONY: audit
audit: requirements-audit.lock ## look for known vulnerabilities of the pinned Python packages; needs the network
	$(PYTHON) -m venv build/audit-venv
	build/audit-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-audit.lock
	for lock in requirements-*.lock; do build/audit-venv/bin/pip-audit --strict --disable-pip --require-hashes -r $$lock; done

CARGO_DENY := 0.20.2

.PHONY: deny
deny: ## check licences, sources and known vulnerabilities of crates; builds cargo-deny once, needs the network
	command -v cargo-deny > /dev/null || cargo install --quiet --locked cargo-deny@$(CARGO_DENY)
	cargo deny --all-features check

build/release-environment: requirements-release.lock
	$(PYTHON) -m venv build/release-venv
	build/release-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.lock
	mkdir -p build && touch $@

# PROCESSORS="x86_64 aarch64" builds for both, on either of them.
PROCESSORS ?= $(shell uname -m)

.PHONY: wheels
wheels: build/release-environment ## build a wheel that runs on any Linux of this processor into build/wheels
	for processor in $(PROCESSORS); do \
		target=$$processor-unknown-linux-gnu; \
		[ -d "$$(rustc --print target-libdir --target $$target)" ] || rustup target add $$target; \
		PATH="$$PWD/build/release-venv/bin:$$PATH" maturin build --release --locked --zig \
			--target $$target --compatibility manylinux_2_28 --out build/wheels; \
	done

.PHONY: test-wheels
test-wheels: build wheels ## install the wheel without Rust, and have a request answered within 10 s of the start of uv
	$(PYTHON) -m tests.wheels build/wheels $(BIN)/uv

CARGO_CYCLONEDX := 0.5.9
RUNTIME := build/sbom/requirements.txt

.PHONY: sbom
sbom: build/environment build/release-environment ## name what the image has of crates and Python packages, as CycloneDX in build/sbom; builds cargo-cyclonedx once, needs the network
	command -v cargo-cyclonedx > /dev/null || cargo install --quiet --locked cargo-cyclonedx@$(CARGO_CYCLONEDX)
	mkdir -p build/sbom
	cargo cyclonedx --quiet --manifest-path rust/python/Cargo.toml --format json --target all --override-filename kubextend.cdx
	mv rust/python/kubextend.cdx.json build/sbom/rust.cdx.json && rm -f rust/*/kubextend.cdx.json
	$(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-header \
		--constraint requirements-dev.lock pyproject.toml --output-file $(RUNTIME)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/sbom/venv
	$(BIN)/uv pip install --quiet --python build/sbom/venv --require-hashes -r $(RUNTIME)
	build/release-venv/bin/cyclonedx-py environment build/sbom/venv --pyproject pyproject.toml \
		--output-reproducible --output-file build/sbom/python.cdx.json
	$(BIN)/python -m tests.sbom build/sbom

.PHONY: clean
clean: ## remove everything that was built
	rm -rf .venv build target python/kubextend/*.so
