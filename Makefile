# Targets for everyday development. `make` without a target lists them.
PRESET ?= release
BUILD := build/$(PRESET)
# Compiling a source that includes LibTorch's headers needs about 1.5 GB of memory. The default
# number of jobs is limited accordingly; JOBS=n overrides it.
JOBS ?= $(shell awk -v cpus=$$(nproc) '/MemAvailable/ { jobs = int($$2 / 1572864); if (jobs < 1) jobs = 1; \
                print (jobs < cpus ? jobs : cpus) }' /proc/meminfo 2>/dev/null || echo 2)
PREFIX ?= $(HOME)/.local
DEMO_OUT ?= demo-out
PROMPT ?= /// Returns true if
CONFIGURE = cmake --preset $(PRESET) -DTorch_DIR="$$(cat .cache/setup/torch_dir)" --log-level=NOTICE
BUILD_TARGETS = tools/build $(BUILD) --jobs $(JOBS)
# The documentation site contains the --help output of these programs.
DOCS_TARGETS = anyaccel_program anyaccel_cli anyaccel_cli_conformance
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help setup configure build demo test test-all docs bench hardware-report install uninstall format lint clean jobs

help:  ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  Variables: PRESET=release|dev|asan|tsan, JOBS=n, PREFIX=dir (install), DEMO_OUT=dir, PROMPT=text (demo)"

setup:  ## Install missing dependencies: packages, LibTorch, Python packages for the tests
	@tools/setup

configure: setup
	@$(CONFIGURE) -DANYACCEL_BUILD_TESTS=ON

build: configure  ## Build everything that is installed: libraries, program, ops, Python package (PRESET)
	@$(BUILD_TARGETS) --target anyaccel_product

demo:  ## Detect the accelerator, train a small language model on real text, generate text with it
	@tools/demo $(BUILD) $(DEMO_OUT) "$(PROMPT)" --set-up $(PRESET) $(JOBS)

test: configure  ## Build everything and run the tests
	@$(BUILD_TARGETS)
	@tools/check_layers
	@tools/run_tests $(BUILD) --jobs $(JOBS)

test-all:  ## Run all tests and sanitizers with all optional dependencies (downloads another 2.5 GB); write docs/test-results.md
	@tools/setup --ccl --fuzz --mpi --opencl --ssh
	@tools/test_all --jobs $(JOBS)

docs:  ## Build the documentation site in build/docs, readable without a server; PROGRAM=anyaccel to skip the build
	@tools/setup --docs --no-tests
	@$(if $(PROGRAM),,$(CONFIGURE) && $(BUILD_TARGETS) $(addprefix --target ,$(DOCS_TARGETS)))
	@.venv/bin/python3 tools/docs_pages --program "$(or $(PROGRAM),$(BUILD)/bin/anyaccel)"
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "written: build/docs/index.html"

bench:  ## Build and run the benchmarks; write docs/benchmarks.md
	@tools/setup --bench
	@$(CONFIGURE) -DANYACCEL_BUILD_TESTS=ON -DANYACCEL_BUILD_BENCHMARKS=ON
	@$(BUILD_TARGETS)
	@benchmarks/run --all --build $(BUILD) --out docs/benchmarks.md

hardware-report:  ## Build, test and measure on this machine's accelerator, without network; can be resumed; BACKEND=name
	@tools/hardware_report $(if $(BACKEND),--backend $(BACKEND)) $(if $(OUT),--out "$(OUT)")

install: build  ## Install to PREFIX
	@cmake --install $(BUILD) --prefix "$(PREFIX)"

uninstall:  ## Remove the files that this build last installed
	@cmake --build $(BUILD) --target uninstall

format:  ## Format the C++ sources
	@tools/format

lint:  ## Check layers, documents and formatting; run clang-tidy on changed files
	@tools/presubmit --no-build

clean:  ## Remove the build folders, but not what setup installed
	rm -rf build

jobs:
	@echo $(JOBS)
