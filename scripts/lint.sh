#!/usr/bin/env bash
# Checks the format, vets and lints. It vets every platform and build tag, because
# this machine compiles only some of the files.
#
# usage: scripts/lint.sh TOOLS_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
tools=${1:?usage: scripts/lint.sh TOOLS_DIR}

echo "== format"
unformatted=$(find . -path './.?*' -prune -o -name '*.go' -print0 | xargs -0 "$tools/gofumpt" -l)
if [[ -n $unformatted ]]; then
  printf 'not formatted (make fmt repairs it):\n%s\n' "$unformatted" >&2
  exit 1
fi

# arguments: system, architecture, build tags
vet() {
  echo "== vet $1/$2 ${3:-}"
  GOOS=$1 GOARCH=$2 CGO_ENABLED=0 "$tools/lint" vet -tags "${3:-}" ./...
}
vet linux amd64
vet linux amd64 noasm
vet linux amd64 npu
vet windows amd64 npu
vet linux amd64 gpu
vet windows amd64 gpu
vet darwin arm64 gpu
vet linux arm64
vet linux arm64 noasm
vet android arm64
vet darwin arm64
vet windows amd64

echo "== staticcheck, errcheck, errorlint, ineffassign, nilerr, unconvert"
"$tools/lint" ./...
