# Every target does its own set-up: Python >= 3.11 with pip is all it needs.
#
#   make demo       train the digit classifier of examples/digits.py
#   make demo-hosts  the same in four processes: examples/hosts/classifier.py
#   make test       tests and doctests
#   make lint       style, types (strict), import layers, prose
#   make types      what pyright says of examples, pages and the interface
#   make dist       wheel and sdist in dist/, tried in fresh environments (own one)
#   make docs       the documentation as a web site in site/
#   make gallery  run all of examples/, over JAX too: pictures and times in examples/out
#   make coverage   JAX's public names, present or not: docs/coverage.md
#   make signatures  where public functions differ from those of JAX's releases
#   make bench      side by side with JAX (in .venv-bench)
#   make bench-programs  whole programs with libraries, over Curta and over JAX
#   make test-simulated-hosts  tests of shardings with the devices on 2, 4 and 8 hosts
#   make test-shrunk  tests of values with the limits of large arrays at a few elements
#   make test-all   the tests on every Python that this machine has
#   make test-cpus  tests of compiled code, made for older processors of this kind
#   make test-aarch64  a sample of them on an emulated 64-bit ARM processor
#   make stress-aarch64  code for 64-bit ARM of all ops, made and assembled, not run
#   make fuzz       random programs against `eval`, for MINUTES=10
#   make stress-accuracy  errors of the elementwise functions against mpmath
#   make stress-derivatives  two orders at zeros, ties and ends against differences
#   make stress-compile-time  programs of thousands of eqns: steps for each must not grow
#   make stress-files     damaged and crafted files: an exception, never a crash
#   make stress-limits ARGS=tests/...  which way tests decide by each limit
#   make stress-hosts     random programs in parts, on hosts, for MINUTES=10
#   make stress-threads   64 threads that compile, call, donate and drop arrays at once
#   make stress-memory    resident memory over 1e6 calls; arrays of 2^31 elements
#   make stress-faults    failing allocations, a failing kernel cache, processes killed
#   make stress-state     programs that save state, killed at any time
#   make stress-host-memory  an array of 8 GB over 8 simulated hosts, which no host has
#   make test-libraries  test suites of libraries for JAX, over Curta and over JAX
#   make test-hosts  programs of several processes, by MPI and over TCP (own environment)
#   make test-accelerators  programs as StableHLO, by XLA:CPU and plugins (own environment)
#   make test-browser  pages in Chromium, notebooks in IPython (own environment)
#   make test-gpu   tests, examples and the demo on a GPU (PLATFORM=, own environment)
#   make clean      remove the environments and everything generated
#
# PYTHON=/path/to/python picks the interpreter for the environments.

.DEFAULT_GOAL := help
.PHONY: help demo demo-hosts test test-all test-hosts test-simulated-hosts test-shrunk test-libraries test-accelerators test-browser test-gpu lint types dist docs gallery coverage signatures bench bench-programs fuzz test-aarch64 test-cpus clean

VENV  := .venv
BENCH := .venv-bench
GALLERY := .venv-gallery
LIBRARIES := .venv-libraries
ACCELERATORS := .venv-accelerators
MULTIPROCESS := .venv-hosts
GPU := .venv-gpu
BROWSER := .venv-browser
TYPES := .venv-types
DIST := .venv-dist
HASH  := $(shell cksum < pyproject.toml | cut -d' ' -f1)

help:
	@sed -n '/^#   make/s/^# *//p' $(MAKEFILE_LIST)

# An environment is up to date when its stamp carries pyproject.toml's checksum.
$(VENV)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(VENV) $*
	@rm -f $(VENV)/.stamp-$*-*
	@touch $@

$(BENCH)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(BENCH) $*
	@rm -f $(BENCH)/.stamp-$*-*
	@touch $@

$(GALLERY)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(GALLERY) $*
	@rm -f $(GALLERY)/.stamp-$*-*
	@touch $@

$(LIBRARIES)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(LIBRARIES) $*
	@rm -f $(LIBRARIES)/.stamp-$*-*
	@touch $@

$(ACCELERATORS)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(ACCELERATORS) $*
	@rm -f $(ACCELERATORS)/.stamp-$*-*
	@touch $@

$(GPU)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(GPU) $*
	@rm -f $(GPU)/.stamp-$*-*
	@touch $@

$(BROWSER)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(BROWSER) $*
	@rm -f $(BROWSER)/.stamp-$*-*
	@touch $@

$(DIST)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(DIST) $*
	@rm -f $(DIST)/.stamp-$*-*
	@touch $@

$(TYPES)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(TYPES) $*
	@rm -f $(TYPES)/.stamp-$*-*
	@touch $@

$(MULTIPROCESS)/.stamp-%-$(HASH):
	@PYTHON="$(PYTHON)" ./.ci/environment $(MULTIPROCESS) $*
	@rm -f $(MULTIPROCESS)/.stamp-$*-*
	@touch $@

demo: $(VENV)/.stamp-examples-$(HASH)
	$(VENV)/bin/python examples/digits.py

demo-hosts: $(VENV)/.stamp-examples-$(HASH)
	$(VENV)/bin/python -m curta.run -n 4 examples/hosts/classifier.py --compare $(ARGS)

# Two workers; NumPy's own BLAS stays on one thread in each.
test: $(VENV)/.stamp-test-$(HASH)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(VENV)/bin/python -m pytest -n 2 $(ARGS)

# Those that compare values: others look at how large arrays are treated.
SHRUNK := tests/conformance tests/functions tests/test_random_programs.py \
	tests/compiler/test_random_programs.py tests/compiler/test_random_arrays.py
test-shrunk: $(VENV)/.stamp-test-$(HASH)
	@echo "under CURTA_TUNING=shrunk: $(SHRUNK)"
	CURTA_TUNING=shrunk OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(VENV)/bin/python -m pytest -n 2 $(SHRUNK) $(ARGS)

# All tests that place arrays on devices; those of hosts bring hosts of their own.
HOSTS ?= 2 4 8
PLACED = $(shell grep -rlE "eight_devices|make_mesh|Mesh|pmap|shard_map|psum" \
	--include="test_*.py" tests | grep -v "^tests/hosts/" | sort)
test-simulated-hosts: $(VENV)/.stamp-test-$(HASH)
	failed=""; for hosts in $(HOSTS); do \
	    echo "== devices on $$hosts simulated hosts"; \
	    CURTA_SIMULATE_HOSTS=$$hosts CURTA_HOSTS_TIMEOUT=60 \
	    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	    $(VENV)/bin/python -m pytest -n 2 $(PLACED) $(ARGS) || failed="$$failed $$hosts"; \
	done; echo "failed:$${failed:- none}"; test -z "$$failed"

lint: $(VENV)/.stamp-lint-$(HASH)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/python tools/prose_lint.py

# The last lines say what was checked; ARGS=--unknown lists names without a known type.
types: $(TYPES)/.stamp-types-$(HASH)
	$(TYPES)/bin/python tools/check_types.py $(ARGS)

# Built twice, to be the same bytes; tried by every Python that this machine has.
dist: $(DIST)/.stamp-dist-$(HASH)
	$(DIST)/bin/python tools/dist.py $(ARGS)

# Its pages run their examples; programs of the gallery that never ran are run. Then
# links are followed.
docs: $(VENV)/.stamp-docs-$(HASH)
	$(VENV)/bin/python tools/gallery.py --missing
	$(VENV)/bin/mkdocs build
	$(VENV)/bin/python tools/check_links.py

gallery: $(GALLERY)/.stamp-gallery-$(HASH)
	$(GALLERY)/bin/python tools/gallery.py $(ARGS)

coverage: $(VENV)/.stamp-test-$(HASH)
	$(VENV)/bin/python tools/coverage.py

signatures: $(VENV)/.stamp-test-$(HASH)
	$(VENV)/bin/python tools/signatures.py

bench: $(BENCH)/.stamp-bench-$(HASH)
	$(BENCH)/bin/python -m benchmarks $(ARGS)

bench-programs: $(LIBRARIES)/.stamp-libraries-$(HASH)
	$(LIBRARIES)/bin/python -m benchmarks.programs $(ARGS)

test-all:
	@./.ci/test-all

test-aarch64: $(VENV)/.stamp-test-$(HASH)
	@./.ci/test-aarch64 $(ARGS)

CPUS ?= x86-64-v2 x86-64-v3
COMPILED := tests/conformance/test_compiled.py tests/compiler tests/test_random_programs.py
test-cpus: $(VENV)/.stamp-test-$(HASH)
	failed=""; for cpu in $(CPUS); do \
	    echo "== code for $$cpu"; \
	    CURTA_CPU=$$cpu OPENBLAS_NUM_THREADS=1 \
	    $(VENV)/bin/python -m pytest -n 2 $(COMPILED) $(ARGS) || failed="$$failed $$cpu"; \
	done; echo "failed:$${failed:- none}"; test -z "$$failed"

MINUTES ?= 10
fuzz: $(VENV)/.stamp-test-$(HASH)
	$(VENV)/bin/python -m stress.fuzz --minutes $(MINUTES) --keep $(ARGS)

# A module of stress/ each; it has options (ARGS) for its time and seed.
stress-hosts: $(VENV)/.stamp-test-$(HASH)
	$(VENV)/bin/python -m stress.hosts --minutes $(MINUTES) $(ARGS)

stress-%: $(VENV)/.stamp-test-$(HASH)
	$(VENV)/bin/python -m stress.$(subst -,_,$*) $(ARGS)

test-libraries: $(LIBRARIES)/.stamp-libraries-$(HASH)
	$(LIBRARIES)/bin/python -m stress.libraries $(ARGS)

# The tables at the end say which tiers ran, in half an hour: ARGS="--minutes 120" for
# more, ARGS="--tier A -- -k Sin]" for one test. The wheel is what tier C's plugin for
# CPUs is built over; CURTA_TENSORFLOW names one that is unpacked.
test-accelerators: $(ACCELERATORS)/.stamp-accelerators-$(HASH)
	@test -n "$$CURTA_TENSORFLOW" || $(ACCELERATORS)/bin/python -m pip install --quiet \
	    --disable-pip-version-check --no-deps tensorflow-cpu==2.21.0 \
	    || echo "no tensorflow-cpu: tiers C and D will not run as wholes"
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(ACCELERATORS)/bin/python -m accelerators $(ARGS)

# With a browser of the system (apt install chromium); the site is that of `make docs`.
test-browser: $(BROWSER)/.stamp-browser-$(HASH)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(BROWSER)/bin/python -m pytest browser -rs $(ARGS)
	@test -d site || echo "not run: pages of the site (make docs makes it)"

# The extra brings the plugin: cuda13, cuda12, rocm7, tpu; none for one that is named by
# PJRT_NAMES_AND_LIBRARY_PATHS. Without a device it says so, and exits with 3.
PLATFORM ?= cuda
PLUGIN ?= cuda13
test-gpu: $(GPU)/.stamp-test,$(PLUGIN)-$(HASH)
	$(GPU)/bin/python -m accelerators.on_gpu --platform $(PLATFORM) $(ARGS)

# Processes are started: one test at a time. The last line says by what.
test-hosts: $(MULTIPROCESS)/.stamp-hosts-$(HASH)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(MULTIPROCESS)/bin/python -m pytest multiprocess $(ARGS)
	@if [ "$$(id -u)" = 0 ] && ip netns list >/dev/null 2>&1; then \
	    $(MULTIPROCESS)/bin/python -m tests.hosts.netns; \
	else echo "not run: hosts in network namespaces (needs root and ip)"; fi

clean:
	rm -rf $(VENV) $(VENV)-* $(BENCH) $(GALLERY) $(LIBRARIES) $(ACCELERATORS) $(MULTIPROCESS) $(GPU) $(BROWSER) $(TYPES) $(DIST)
	rm -rf build dist site examples/out benchmarks/out
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
