# make demo   the whole cycle on your machine: copy, list, read by offset, verify, delete
# make test   everything that CI checks
#
# Go is all that `make demo` and `go test ./...` need. `make test` also wants a JDK (17 or newer) with Maven, Node.js and Python;
# it builds its tools into the user's cache directory (TIERKIT_CACHE to choose another).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# How long `make fuzz` runs each target.
FUZZTIME ?= 60s

.PHONY: help demo demo-kafka build test test-all lint generate bench fuzz clean

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

demo: ## tier real Kafka segments to a directory and read them back
	@go run ./cmd/tierkit demo

demo-kafka: ## a real broker tiers to MinIO through the plug-in (JDK and Maven; builds MinIO once)
	@scripts/tools.sh minio >/dev/null
	@go test -count=1 -v -run '^TestDemo_' ./test/plugin | grep -v -e '^===' -e '^---' -e '^PASS' -e '^ok'

build: ## bin/tierkit
	go build -trimpath -o bin/ ./cmd/tierkit

test: ## lint, generated files, cross-builds, all tests with the race detector, the demo
	@scripts/test.sh

test-all: ## the same with every version of Kafka and the whole conformance suite, then the fuzz targets and the benchmarks
	@TIERKIT_KAFKA=all TIERKIT_CONFORMANCE_SCALE=full TIERKIT_FULL=1 scripts/test.sh
	@scripts/fuzz.sh $(FUZZTIME)
	@scripts/bench.sh

lint: ## the linter alone
	@scripts/test.sh lint

generate: ## make generated files and go.mod current
	@scripts/generate.sh

bench: ## benchmarks, and the long measurements of memory and speed
	@scripts/bench.sh

fuzz: ## each fuzz target for FUZZTIME (60s)
	@scripts/fuzz.sh $(FUZZTIME)

clean: ## remove what was built here; the cache of tools stays
	rm -rf bin dist compat/java/target kafka-plugin/target
