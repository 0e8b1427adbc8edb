# Everything a machine needs is made here; Python >= 3.11 and make are enough for all but test-real.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
WORKERS ?= 2
# More workers than processors: most cases wait for processes. The longest files begin
# (tests/durations.json; PYTEST_OPTIONS=--record-durations records them).
PARALLEL = --workers $(WORKERS) -rfEs $(PYTEST_OPTIONS)

# LOCKED=1 installs exactly what requirements/dev.lock names, by hash: CI and releases do. Nothing is
# resolved (--no-deps), so that releases of others change nothing; what is missing ends it (pip check).
LOCKED ?=

# Bytecode of the tests is kept: every worker and many processes of theirs load it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install wasm demo test test-full test-real soak lint bench lock audit sbom clean

# The stubs of corral/v1 are made by the installation, and again when what they are made of changed.
install: $(VENV)/.installed
	@$(BIN)/python -m tools.protos

$(VENV)/.installed: pyproject.toml setup.py $(wildcard corral/learning/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "corral needs Python >= 3.11 (set PYTHON=…)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(LOCKED),--no-deps --require-hashes -r requirements/dev.lock,-e '.[dev]')
	$(if $(LOCKED),$(PIP) --no-deps --no-build-isolation -e . && $(BIN)/python -m pip check)
	@$(BIN)/python -m compileall -q corral
	@$(BIN)/python -m corral.api.stored
	@touch $@

# The federated client as a WebAssembly module, for the demo and the tests; they do without where
# there is no compiler and none can be had.
wasm: install
	@PYTHON=$(PYTHON) examples/federated/build.sh || echo "no WebAssembly client: what needs it is left out"
	@PYTHON=$(PYTHON) examples/federated/build.sh hostile tests/cluster/federated_clients/hostile.c || true

demo: install wasm
	$(BIN)/corral demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/security_table.py --check

test test-full: WORKERS := 6
test: install wasm
	$(BIN)/python -m pytest $(PARALLEL) -m "not real and not soak and not full" tests

# As `make test`, with every value of every matrix (isolation modes, stores, MPIs, seeds).
test-full: install wasm
	$(BIN)/python -m pytest $(PARALLEL) -m "not real and not soak" tests

# Long: SIGKILL at random under load, a thousand pods.
SOAK ?= tests
soak: install
	$(BIN)/python -m pytest -m soak -s $(SOAK)

# The same cases against kube-apiserver, etcd and kube-controller-manager, and the comparisons.
test-real: install wasm
	tests/real/build.sh
	tests/real/kafka.sh
	CORRAL_BACKEND=real $(BIN)/python -m pytest $(PARALLEL) --reruns 2 -m "not soak" tests/cluster tests/security

bench: install
	tests/real/build.sh
	$(BIN)/python bench/apiserver.py
	$(BIN)/python bench/fairness.py
	$(BIN)/python bench/pods.py
	$(BIN)/python bench/checkpoint.py
	$(BIN)/python bench/trainingjob.py
	$(BIN)/python bench/mpijob.py
	tests/real/kafka.sh && $(BIN)/python bench/broker.py
	$(BIN)/python bench/kafka_rounds.py
	$(BIN)/python bench/aggregate.py

# Dependencies: locks with hashes for every platform, known vulnerabilities, a bill of materials.
COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--python-version 3.11 --custom-compile-command "make lock"
PACKAGE = pyproject.toml requirements/build.in
lock: install
	$(PIP) -e '.[release]'
	$(COMPILE) $(PACKAGE) -o requirements/runtime.lock
	$(COMPILE) $(PACKAGE) --extra dev -o requirements/dev.lock
	$(COMPILE) requirements/wasm.in -o requirements/wasm.lock

audit: install
	$(PIP) -e '.[release]'
	$(BIN)/pip-audit --disable-pip --no-deps -r requirements/runtime.lock

sbom: install
	$(PIP) -e '.[release]'
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements requirements/runtime.lock --pyproject pyproject.toml \
		--output-reproducible --of JSON -o dist/corral.cdx.json

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f corral/v1/*_pb2* corral/v1/*.proto corral/v1/.generated.json
