#!/usr/bin/env bash
# tools.sh: builds the programs of the module tools/ into the cache, once for each version of them and of Go, and prints the
# directory. Nothing is downloaded but Go modules, pinned by tools/go.sum.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tools"

# The same directory as os.UserCacheDir in Go, see internal/need.
if [ -n "${TIERKIT_CACHE:-}" ]; then
	cache=$TIERKIT_CACHE
elif [ "$(uname)" = Darwin ]; then
	cache=$HOME/Library/Caches/tierkit
else
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/tierkit
fi

version=$(go env GOVERSION)-$(cat go.mod go.sum | cksum | tr ' ' -)
dir=$cache/tools/$version
if [ ! -d "$dir" ]; then
	echo "building golangci-lint and benchstat into $dir (a minute or more, once)" >&2
	mkdir -p "$cache/tools"
	partial=$(mktemp -d "$cache/tools/partial.XXXXXX")
	trap 'rm -rf "$partial"' EXIT
	GOBIN=$partial go install tool >"$partial/log" 2>&1 || { cat "$partial/log" >&2; exit 1; }
	rm "$partial/log"
	mv "$partial" "$dir" 2>/dev/null || [ -d "$dir" ] # another run may have been faster
fi
printf '%s\n' "$dir"
