# Everything a machine needs is made here; Python >= 3.11 and make are enough for all but test-real.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
WORKERS ?= 2
# More workers than processors: most cases wait for processes. The longest files begin
# (tests/durations.json; PYTEST_OPTIONS=--record-durations records them).
PARALLEL = --workers $(WORKERS) -rfEs $(PYTEST_OPTIONS)

# LOCKED=1 installs exactly what requirements/*.lock name, by hash: CI and releases do. Nothing is
# resolved (--no-deps), so that releases of others change nothing; what is missing ends it (pip check).
LOCKED ?=

# Bytecode of the tests is kept: every worker and many processes of theirs load it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install wasm components demo test test-full test-real soak lint bench lock audit sbom clean

# The product alone. The stubs of corral/v1 are made by the installation, and again when what they are
# made of changed.
install: $(VENV)/.installed
	@$(BIN)/python -m tools.protos

$(VENV)/.installed: pyproject.toml setup.py $(wildcard corral/learning/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "corral needs Python >= 3.11 (set PYTHON=…)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(LOCKED),--no-deps --require-hashes -r requirements/runtime.lock,-r requirements/build.in -e .)
	$(if $(LOCKED),$(PIP) --no-deps --no-build-isolation -e . && $(BIN)/python -m pip check)
	@$(BIN)/python -m compileall -q corral
	@$(BIN)/python -m corral.api.stored
	@touch $@

# What a target needs beside the product: the extra of that name. Releases have their tools unlocked.
$(VENV)/.test $(VENV)/.lint: $(VENV)/.%: pyproject.toml requirements/%.lock $(VENV)/.installed
	$(PIP) $(if $(LOCKED),--no-deps --require-hashes -r requirements/$*.lock,--no-build-isolation -e '.[$*]')
	$(if $(LOCKED),$(BIN)/python -m pip check)
	@touch $@

$(VENV)/.release: pyproject.toml $(VENV)/.installed
	$(PIP) --no-build-isolation -e '.[release]'
	@touch $@

# The federated client as a WebAssembly module; the demo does without where there is no compiler and
# none can be had.
wasm: install
	@PYTHON=$(PYTHON) examples/federated/build.sh || echo "no WebAssembly client: what needs it is left out"

# What the tests need that pip's extra cannot give: from PyPI, npm, Debian and the Go module proxy.
components:
	@PYTHON=$(PYTHON) tests/components.sh

demo: install wasm
	$(BIN)/corral demo

lint: install $(VENV)/.test $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/security_table.py --check
	$(BIN)/python tools/house.py

test test-full: WORKERS := 6
test: install $(VENV)/.test components
	$(BIN)/python -m pytest $(PARALLEL) -m "not real and not soak and not full" tests

# As `make test`, with every value of every matrix (isolation modes, stores, MPIs, kubectls, seeds).
test-full: install $(VENV)/.test
	@PYTHON=$(PYTHON) tests/components.sh all
	$(BIN)/python -m pytest $(PARALLEL) -m "not real and not soak" tests

# Long: SIGKILL at random under load, a thousand pods.
SOAK ?= tests
soak: install $(VENV)/.test
	$(BIN)/python -m pytest -m soak -s $(SOAK)

# The same cases against kube-apiserver, etcd and kube-controller-manager, and the comparisons.
test-real: install $(VENV)/.test components
	tests/real/build.sh
	tests/real/kafka.sh
	CORRAL_BACKEND=real $(BIN)/python -m pytest $(PARALLEL) --reruns 2 -m "not soak and not full" tests/cluster tests/security

bench: install $(VENV)/.test
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
# What the locks have in common is the same: all follow that of the tests.
COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--python-version 3.11 --custom-compile-command "make lock"
PACKAGE = pyproject.toml requirements/build.in
lock: $(VENV)/.release
	$(COMPILE) $(PACKAGE) --extra test -o requirements/test.lock
	$(COMPILE) $(PACKAGE) -c requirements/test.lock -o requirements/runtime.lock
	$(COMPILE) $(PACKAGE) -c requirements/test.lock --extra lint -o requirements/lint.lock
	$(COMPILE) requirements/wasm.in -o requirements/wasm.lock

audit: $(VENV)/.release
	$(BIN)/pip-audit --disable-pip --no-deps -r requirements/runtime.lock

sbom: $(VENV)/.release
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements requirements/runtime.lock --pyproject pyproject.toml \
		--output-reproducible --of JSON -o dist/corral.cdx.json

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f corral/v1/*_pb2* corral/v1/*.proto corral/v1/.generated.json
