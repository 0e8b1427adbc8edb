# Everything a machine needs is made here; Python >= 3.11 and make are enough for all but test-real.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# files in the order of tests/order.py; a case that fails is tried twice more, and reported as RERUN
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder --reruns 2 -rfEsR

.PHONY: install wasm demo test test-real soak lint bench clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml setup.py $(wildcard corral/federated/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "corral needs Python >= 3.11 (set PYTHON=…)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
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

test: WORKERS := 3
test: install wasm
	$(BIN)/python -m pytest $(PARALLEL) -m "not real and not soak" tests

# Long: SIGKILL at random under load, a thousand pods.
SOAK ?= tests
soak: install
	$(BIN)/python -m pytest -o faulthandler_timeout=0 -m soak -s $(SOAK)

# The same cases against kube-apiserver, etcd and kube-controller-manager, and the comparisons.
test-real: install wasm
	tests/real/build.sh
	tests/real/kafka.sh
	CORRAL_BACKEND=real $(BIN)/python -m pytest $(PARALLEL) -m "not soak" tests/cluster

bench: install
	tests/real/build.sh
	$(BIN)/python bench/apiserver.py
	$(BIN)/python bench/pods.py
	$(BIN)/python bench/checkpoint.py
	$(BIN)/python bench/trainingjob.py
	$(BIN)/python bench/mpijob.py
	tests/real/kafka.sh && $(BIN)/python bench/broker.py
	$(BIN)/python bench/kafka_rounds.py
	$(BIN)/python bench/aggregate.py

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
