# Every target sets itself up: Python >= 3.11 with pip is all it needs.
#
#   make demo          train the digit classifier of examples/digits.py
#   make test          run the tests and doctests; ARGS="-k softmax" passes options
#   make lint          check style, types, import layers, dependencies, prose
#   make docs          build the documentation as a web site in site/
#   make bench         compare speed with JAX, side by side
#   make fuzz          run random programs against `eval`, for MINUTES=10
#   make test-hosts    run programs of several processes, by MPI and over TCP
#   make test-pythons  run the tests on every Python from 3.11 on that can be found
#   make dist          build the wheel and the sdist in dist/, and try them
#   make lock          lock the versions of the development environments
#   make clean         remove the environments and everything generated
#
# CONTRIBUTING.md lists the other targets. PYTHON=/path/to/python picks the interpreter.

.DEFAULT_GOAL := help
.PHONY: help demo demo-hosts test test-pythons test-fresh test-hosts \
	test-multiprocess \
	test-simulated-hosts test-shrunk test-libraries test-accelerators test-browser \
	test-gpu lint lock types dist docs gallery coverage signatures bench \
	bench-programs bench-foreign fuzz test-aarch64 test-ship test-cpus pythons clean

VENV := .venv
TESTS := test
HASH := $(shell cat pyproject.toml locks/*.txt | cksum | cut -d' ' -f1)

help:
	@sed -n '/^#   make/s/^# *//p' Makefile

# The environment NAME is installed from locks/NAME.txt into the folder $(call in,NAME):
# .venv for the tests, .venv-NAME for others. A target that needs it names its stamp,
# $(call ready,NAME), which is up to date when it carries the checksum of pyproject.toml
# and the locks.
in = $(if $(filter $(TESTS),$1),$(VENV),.venv-$1)
ready = $(call in,$1)/.stamp-$1-$(HASH)
python = $(call in,$1)/bin/python

%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(@D) $(patsubst .stamp-%,%,$(notdir $*))
	@rm -f $(@D)/.stamp-*
	@touch $@

demo: $(call ready,examples)
	$(call python,examples) examples/digits.py

demo-hosts: $(call ready,examples)
	$(call python,examples) -m curta.run -n 4 examples/hosts/classifier.py --compare $(ARGS)

# Two workers; NumPy's own BLAS stays on one thread in each. TESTS names the environment:
# free-threaded is the one without packages that have no wheels for such a Python.
test: $(call ready,$(TESTS))
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(call python,$(TESTS)) -m pytest -n 2 $(ARGS)

# Those that compare values: others look at how large arrays are treated.
SHRUNK := tests/conformance tests/functions tests/test_random_programs.py \
	tests/compiler/test_random_programs.py tests/compiler/test_random_arrays.py
test-shrunk: $(call ready,test)
	@echo "under CURTA_TUNING=shrunk: $(SHRUNK)"
	CURTA_TUNING=shrunk OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(call python,test) -m pytest -n 2 $(SHRUNK) $(ARGS)

# All tests that place arrays on devices; those of hosts bring hosts of their own.
HOSTS ?= 2 4 8
PLACED = $(shell grep -rlE "eight_devices|make_mesh|Mesh|pmap|shard_map|psum" \
	--include="test_*.py" tests | grep -v "^tests/hosts/" | sort)
test-simulated-hosts: $(call ready,test)
	failed=""; for hosts in $(HOSTS); do \
	    echo "== devices on $$hosts simulated hosts"; \
	    CURTA_SIMULATE_HOSTS=$$hosts CURTA_HOSTS_TIMEOUT=60 \
	    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	    $(call python,test) -m pytest -n 2 $(PLACED) $(ARGS) || failed="$$failed $$hosts"; \
	done; echo "failed:$${failed:- none}"; test -z "$$failed"

lint: $(call ready,lint)
	$(call in,lint)/bin/ruff check .
	$(call in,lint)/bin/mypy
	$(call in,lint)/bin/lint-imports --no-cache
	$(call python,lint) tools/prose_lint.py
	$(call python,lint) -m tools.imports
	$(call python,lint) -m tools.locks --check

# Keeps locked versions where they fit; ARGS=--upgrade takes the newest ones, and
# ARGS="docs test" locks these environments alone.
lock: $(call ready,lock)
	$(call python,lock) -m tools.locks $(ARGS)

# The last lines say what was checked; ARGS=--unknown lists names without a known type.
types: $(call ready,types)
	$(call python,types) tools/check_types.py $(ARGS)

# Built twice, to be the same bytes; tried by every Python that this machine has.
dist: $(call ready,dist)
	$(call python,dist) tools/dist.py $(ARGS)

# Runs the changed programs of the gallery and the examples of all pages, then checks
# links and anchors. Every step prints its time.
docs: $(call ready,docs)
	$(call python,docs) tools/gallery.py --changed
	OPENBLAS_NUM_THREADS=1 $(call python,docs) -m tools.docsite $(ARGS)
	$(call python,docs) tools/check_links.py

gallery: $(call ready,gallery)
	$(call python,gallery) tools/gallery.py --times $(ARGS)

coverage: $(call ready,test)
	$(call python,test) tools/coverage.py

signatures: $(call ready,test)
	$(call python,test) tools/signatures.py

bench: $(call ready,bench)
	$(call python,bench) -m benchmarks $(ARGS)

bench-programs: $(call ready,libraries)
	$(call python,libraries) -m benchmarks.programs $(ARGS)

# Fetched by git, or ARGS="--from FOLDER" with clones; --cpu x86-64-v3 holds both
# libraries to AVX2, --jax names other Pythons with JAX.
bench-foreign: $(call ready,libraries)
	$(call python,libraries) -m benchmarks.foreign $(ARGS)

# VERSIONS="3.12 3.14t" picks versions, PYTHONS=/path/to/python adds interpreters.
test-pythons:
	@./.ci/test-pythons $(ARGS)

# Pythons of Debian's unstable suite, for test-pythons: VERSIONS="3.14 3.15".
pythons:
	@./.ci/get-python $(VERSIONS)

# ARGS="test docs" builds these environments alone.
test-fresh: $(call ready,lint)
	$(call python,lint) -m tools.fresh $(ARGS)

test-aarch64: $(call ready,test)
	@./.ci/test-aarch64 $(ARGS)

# C compilers and emulators come from Debian; what is missing is named at the end.
test-ship: $(call ready,test)
	@./.ci/test-ship $(ARGS)

CPUS ?= x86-64-v2 x86-64-v3
COMPILED := tests/conformance/test_compiled.py tests/compiler tests/test_random_programs.py
test-cpus: $(call ready,test)
	failed=""; for cpu in $(CPUS); do \
	    echo "== code for $$cpu"; \
	    CURTA_CPU=$$cpu OPENBLAS_NUM_THREADS=1 \
	    $(call python,test) -m pytest -n 2 $(COMPILED) $(ARGS) || failed="$$failed $$cpu"; \
	done; echo "failed:$${failed:- none}"; test -z "$$failed"

MINUTES ?= 10
fuzz: $(call ready,test)
	$(call python,test) -m tests.stress.fuzz --minutes $(MINUTES) --keep $(ARGS)

# A module of tests/stress/ each; it has options (ARGS) for its time and seed.
stress-hosts: $(call ready,test)
	$(call python,test) -m tests.stress.hosts --minutes $(MINUTES) $(ARGS)

stress-%: $(call ready,test)
	$(call python,test) -m tests.stress.$(subst -,_,$*) $(ARGS)

# Fits by Optimistix over Curta and over JAX, two environments.
stress-fits: $(call ready,libraries) $(call ready,libraries-jax)
	$(call python,libraries) -m tests.stress.fits --jax $(call python,libraries-jax) \
	    $(ARGS)

test-libraries: $(call ready,libraries) $(call ready,libraries-jax)
	$(call python,libraries) -m tests.stress.libraries $(ARGS)

# The tables at the end say which tiers ran, in half an hour: ARGS="--minutes 120" for
# more, ARGS="--tier A -- -k Sin]" for one test. The wheel is what tier C's plugin for
# CPUs is built over; CURTA_TENSORFLOW names one that is unpacked.
test-accelerators: $(call ready,accelerators)
	@test -n "$$CURTA_TENSORFLOW" || $(call python,accelerators) -m pip install --quiet \
	    --disable-pip-version-check --no-deps --require-hashes -r locks/xla-client.txt \
	    || echo "no tensorflow-cpu: tiers C and D will not run as wholes"
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(call python,accelerators) -m tests.accelerators $(ARGS)

# With a browser of the system (apt install chromium); the site is that of `make docs`.
test-browser: $(call ready,browser)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(call python,browser) -m pytest tests/browser -rs $(ARGS)
	@test -d site || echo "not run: pages of the site (make docs makes it)"

# The environment brings the plugin: cuda13, cuda12, rocm7, tpu; `test` brings none, for
# one that PJRT_NAMES_AND_LIBRARY_PATHS names. Exits with 3 if there is no device.
PLATFORM ?= cuda
PLUGIN ?= cuda13
test-gpu: $(call ready,$(PLUGIN))
	$(call python,$(PLUGIN)) -m tests.accelerators.on_gpu --platform $(PLATFORM) $(ARGS)

# Samples of all ops, random programs and others on 2, 3 and 4 ranks, by MPI, over TCP
# and on simulated hosts: hours. ARGS="--every 10" runs a tenth, --engines and --ranks
# choose. The table at the end says what ran.
test-multiprocess: $(call ready,hosts)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(call python,hosts) -m tests.multiprocess.net $(ARGS)

# Processes are started: one test at a time. The last line says by what.
test-hosts: $(call ready,hosts)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(call python,hosts) -m pytest tests/multiprocess $(ARGS)
	@if [ "$$(id -u)" = 0 ] && ip netns list >/dev/null 2>&1; then \
	    $(call python,hosts) -m tests.hosts.netns; \
	else echo "not run: hosts in network namespaces (needs root and ip)"; fi

clean:
	rm -rf $(VENV) .venv-*
	rm -rf build dist site examples/out benchmarks/out
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
