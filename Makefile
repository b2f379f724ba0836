# Every target does its own set-up (system packages, .venv, build); a second run reuses all of it.
SAN ?=
BUILD := $(if $(SAN),build-$(SAN),build)

.PHONY: build test test-all demo wheel bench format lint setup site clean

setup:
	@scripts/setup

build: setup
	@scripts/build $(BUILD) "$(SAN)"

test: build
	@scripts/test $(BUILD) "$(SAN)"

test-all: build
	@scripts/test $(BUILD) "$(SAN)" all

demo:
	@scripts/setup demo
	@scripts/build build "" demo
	@scripts/heartbeat demo .venv/bin/python examples/demo.py $(ARGS)

# A wheel with LLVM inside, in dist/.
wheel:
	@scripts/setup wheel
	@scripts/wheel

bench: build
	@scripts/bench

# The documentation as web pages, in build/site.
site:
	@scripts/site

format: setup
	@scripts/lint --fix

lint: setup
	@scripts/lint

clean:
	rm -rf build build-wheel build-address build-thread build-undefined
