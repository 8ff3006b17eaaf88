#!/usr/bin/env bash
# test.sh [STAGE...]: runs the stages of `make test`, or those named, and prints the seconds of each. A stage that fails does not
# keep the next ones from running; the exit code tells.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What a test needs must be there: a skip is a failure (internal/need).
export TIERKIT_REQUIRE=${TIERKIT_REQUIRE:-all}
export NO_COLOR=1

stages=(tools lint generated build unit conformance brokers demo)

# tools installs the linter, the servers that tests talk to and whatever else the later stages need, at the same time.
stage_tools() {
	local pids=() pid bad=0
	local set
	for set in linters minio seaweedfs versitygw azurite fakegcs; do scripts/tools.sh "$set" >/dev/null & pids+=($!); done
	go test -count=1 -run '^TestReader_Builds$' ./compat & pids+=($!)
	go test -count=1 -run '^TestKafka_Installs$' ./internal/testbed & pids+=($!)
	go test -count=1 -run '^TestJar_FitsEveryBroker$' ./kafka-plugin & pids+=($!)
	go mod download & pids+=($!)
	for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
	return $bad
}

stage_lint() {
	local lint
	lint=$(scripts/tools.sh)/golangci-lint
	"$lint" run --color never ./...
	(cd examples/driver-acme && "$lint" run --color never ./...)
}

stage_generated() {
	scripts/generate.sh --check
}

# build type-checks everything, tests included, for each system that is supported but the one that the other stages run on.
stage_build() {
	local target
	for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
		[ "$target" != "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" ] || continue
		echo "$target"
		GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go build ./...
		GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go vet ./...
	done
}

# unit is every package but those below test/, which have stages of their own. The linter and build vet: go test need not do it again, with the
# race detector, for all packages that ours import.
# The packages that take longest come first, so that none of them is left to run alone at the end; and one more at a time than there are
# processors, because these wait for servers, for other programs and for timeouts about half of their time.
stage_unit() {
	local slow all
	slow=$(go list ./conformance/mutants ./rsm ./backends/s3 ./cli ./kafka-plugin ./compat ./rlmm/...)
	all=$(go list ./... | grep -v '/tierkit/test/')
	{ echo "$slow"; grep -vxF -e "$slow" <<<"$all"; } | xargs go test -race -vet=off -shuffle=on -count=1 -timeout 20m -p $((1 + $(getconf _NPROCESSORS_ONLN)))
}

# conformance runs the conformance suite on each of our drivers, against real servers, and on the example of a vendor's, which is a module of its own.
# TIERKIT_CONFORMANCE_SCALE=full makes it the thorough one. At the end it says how long each driver took.
stage_conformance() {
	local seconds failed=0
	seconds=$(mktemp)
	go test -count=1 ./test/example
	(cd examples/driver-acme && go test -race -count=1 -timeout 20m ./...)
	TIERKIT_CONFORMANCE_SECONDS=$seconds go test -race -count=1 -timeout 90m ./test/drivers/... || failed=1
	cat "$seconds"
	rm -f "$seconds"
	return $failed
}

# brokers runs what needs real Kafka brokers: the metadata topic beside them, and tiering through the plug-in.
stage_brokers() {
	go test -race -count=1 -p 1 -timeout 40m ./test/brokers/... ./test/plugin/...
}

stage_demo() {
	make --no-print-directory demo
}

if [ "${1:-}" = --stage ]; then
	"stage_$2"
	exit
fi

if [ $# -gt 0 ]; then
	stages=("$@")
fi
summary=()
failed=()
began=$SECONDS
for stage in "${stages[@]}"; do
	echo "== $stage"
	start=$SECONDS
	# A process of its own: bash ignores errexit inside a function that an if calls.
	if "$BASH" "${BASH_SOURCE[0]}" --stage "$stage"; then
		result=ok
	else
		result=FAILED
		failed+=("$stage")
	fi
	summary+=("$(printf '%-10s %-6s %4d s' "$stage" "$result" $((SECONDS - start)))")
	echo "== ${summary[${#summary[@]} - 1]}"
done

echo "== all stages"
printf '   %s\n' "${summary[@]}"
printf '   %-10s %-6s %4d s\n' total '' $((SECONDS - began))
if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
