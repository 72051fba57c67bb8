#!/usr/bin/env bash
# Builds the command for every supported system without a C compiler, and
# checks that the Linux binaries load no shared library. As many builds run side by side as
# there are processors, because a linker uses one.
#
# VERSION  what programs call themselves; default: the nearest tag, or the commit
#
# usage: scripts/cross.sh OUTPUT_DIR [SYSTEM/ARCHITECTURE...]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/cross.sh OUTPUT_DIR [SYSTEM/ARCHITECTURE...]}
shift
[[ $# -gt 0 ]] || set -- linux/amd64 linux/arm64 android/arm64 darwin/amd64 darwin/arm64 windows/amd64
mkdir -p "$out"

# Without a repository and VERSION, programs say what Go knows.
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || true)}
flags="-s -w${version:+ -X github.com/llmrun/llmrun/internal/build.release=$version}"

# build builds and checks one binary. argument: system/architecture
build() {
  local os=${1%/*} arch=${1#*/} binary note='' headers
  binary=$out/llmrun-$os-$arch
  [[ $os == windows ]] && binary+=.exe
  CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -ldflags "$flags" -o "$binary" ./cmd/llmrun
  if [[ $os == linux ]]; then
    # A dynamically linked program names its loader in an INTERP header.
    headers=$(readelf -lW "$binary")
    if [[ $headers == *INTERP* ]]; then
      echo "$binary is not static: it names a dynamic loader" >&2
      return 1
    fi
    note=", static"
  fi
  printf '%-32s %5.1f MB%s\n' "$binary" "$(($(wc -c <"$binary") / 100000))e-1" "$note"
}
export out flags
export -f build

xargs -P "$(getconf _NPROCESSORS_ONLN)" -I '{}' bash -euo pipefail -c 'build {}' < <(printf '%s\n' "$@")
