#!/usr/bin/env bash
# generate.sh: makes generated files, go.mod and the formatting current. With --check it fails where they were not, and says what.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# state describes the tree as it is now, committed or not.
state() {
	git status --porcelain
	git diff --no-color --no-ext-diff
	git ls-files --others --exclude-standard -z | xargs -0 cksum 2>/dev/null || true
}

if [ "${1:-}" != --check ]; then
	go generate ./...
	go mod tidy
	(cd examples/driver-acme && go mod tidy)
	gofmt -l -w $(git ls-files '*.go')
	exit
fi

before=$(state)
go generate ./...
after=$(state)
if [ "$before" != "$after" ]; then
	diff <(printf '%s\n' "$before") <(printf '%s\n' "$after") || true
	echo "generated files were not current; they are now: commit them" >&2
	exit 1
fi
# Not that of tools/: tidy would fetch what the tests of every linter need, and building them says if a sum is missing.
go mod tidy -diff
(cd examples/driver-acme && go mod tidy -diff)
unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	printf 'not formatted, run make generate:\n%s\n' "$unformatted" >&2
	exit 1
fi
