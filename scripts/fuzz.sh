#!/usr/bin/env bash
# fuzz.sh TIME: runs every fuzz target of the module for TIME each. A finding is written below testdata/fuzz of its package: fix
# the cause and commit the file as a seed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=()
found=0
while IFS=: read -r file target; do
	found=$((found + 1))
	echo "== $target in $(dirname "$file") for $1"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "./$(dirname "$file")" || failed+=("$(dirname "$file") $target")
done < <(git ls-files -co --exclude-standard '*_test.go' | xargs grep -HoE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')

echo "== the simulation of the memory budget with new seeds"
first=$(date +%s)
go test -run '^TestSimulation$' -count=1 -v ./membudget -args -sim.seeds=5000 -sim.first="${first}0000" || failed+=("membudget TestSimulation")

echo "== $found fuzz targets and the simulation, ${#failed[@]} failed"
if [ ${#failed[@]} -gt 0 ]; then
	printf '   %s\n' "${failed[@]}"
	exit 1
fi
