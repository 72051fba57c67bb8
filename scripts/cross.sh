#!/usr/bin/env bash
# Builds the command for every supported system without a C compiler, and
# checks that the Linux binaries load no shared library.
#
# usage: scripts/cross.sh OUTPUT_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/cross.sh OUTPUT_DIR}
mkdir -p "$out"

for target in linux/amd64 linux/arm64 android/arm64 darwin/arm64 windows/amd64; do
  os=${target%/*} arch=${target#*/}
  binary=$out/llmrun-$os-$arch
  [[ $os == windows ]] && binary+=.exe
  CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -ldflags "-s -w" -o "$binary" ./cmd/llmrun
  note=
  if [[ $os == linux ]]; then
    # A dynamically linked program names its loader in an INTERP header.
    headers=$(readelf -lW "$binary")
    if [[ $headers == *INTERP* ]]; then
      echo "$binary is not static: it names a dynamic loader" >&2
      exit 1
    fi
    note=", static"
  fi
  printf '%-32s %5.1f MB%s\n' "$binary" "$(($(wc -c <"$binary") / 100000))e-1" "$note"
done
