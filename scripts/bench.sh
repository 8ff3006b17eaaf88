#!/usr/bin/env bash
# bench.sh [OLD] [PART...]: runs the benchmarks and the long measurements and keeps the figures in dist/bench.txt. With a file of figures
# from before, both are compared. A part is "benchmarks", or a package with tests named TestBench_ (./rsm); without any all run. What each
# of them measures and must reach it prints itself; one that fails keeps no other from running, and the end is red then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

old=
if [ $# -gt 0 ] && [ -f "$1" ]; then
	old=$1
	shift
fi
parts=("$@")
if [ ${#parts[@]} -eq 0 ]; then
	parts=(benchmarks)
	while read -r dir; do parts+=("./$dir"); done < <(git grep -l 'func TestBench_' -- '*_test.go' | xargs -n1 dirname | sort -u)
fi

mkdir -p dist
failed=()
benchmarks() { go test -run '^$' -bench . -benchmem -count "${COUNT:-6}" ./... | tee dist/bench.txt; }
measurements() {
	TIERKIT_BENCH=1 go test -count=1 -timeout 60m -v -run '^TestBench_' "$1" | { grep -v -e '^=== ' -e 'no test files' -e 'no tests to run' -e '^PASS$' || true; }
}
for part in "${parts[@]}"; do
	echo "== $part"
	case $part in
	benchmarks) benchmarks || failed+=("$part") ;;
	*) measurements "$part" || failed+=("$part") ;;
	esac
done
if [ -n "$old" ]; then
	"$(scripts/tools.sh)/benchstat" "$old" dist/bench.txt || failed+=("the comparison with $old")
fi
if [ ${#failed[@]} -gt 0 ]; then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
