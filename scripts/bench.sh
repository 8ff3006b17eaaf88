#!/usr/bin/env bash
# bench.sh [OLD]: runs the benchmarks and the long measurements and keeps the figures in dist/bench.txt. With a file of figures
# from before, both are compared.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p dist
echo "== benchmarks"
go test -run '^$' -bench . -benchmem -count "${COUNT:-6}" ./... | tee dist/bench.txt
echo "== long measurements: the tests named TestBench_"
TIERKIT_BENCH=1 go test -count=1 -timeout 60m -v -run '^TestBench_' ./... | grep -v -e '^=== ' -e 'no test files' -e 'no tests to run' -e '^PASS$'
if [ $# -gt 0 ]; then
	"$(scripts/tools.sh)/benchstat" "$1" dist/bench.txt
fi
