#!/usr/bin/env bash
# Runs every fuzz target of the module. `go test` fuzzes one target of one package at a
# time, and compiles the package for it. So as many targets run side by side as there are
# processors, each with one worker.
#
# usage: scripts/fuzz.sh TIME_EACH     (for example 10s)
set -euo pipefail
cd "$(dirname "$0")/.."
each=${1:?usage: scripts/fuzz.sh TIME_EACH}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/testreport" ./internal/testreport

# fuzz runs one target, and prints what it printed when it has ended. xargs stops after a
# target that exits with status 255. arguments: file:target, time
fuzz() {
  local target=${1#*:} log=$work/$$ directory rc=0
  directory=$(dirname "${1%%:*}")
  "$work/testreport" -timeout 10m -vet=off -parallel 1 -run '^$' -fuzz "^$target\$" -fuzztime "$2" -fuzzminimizetime 10x "$directory" \
    >"$log" 2>&1 || rc=255
  printf '== %s in %s for %s\n%s\n' "$target" "$directory" "$2" "$(cat "$log")"
  return "$rc"
}
export work
export -f fuzz

targets=$(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort)
[[ -n $targets ]] || { echo "no fuzz target found" >&2; exit 1; }
# shellcheck disable=SC2016 # The shells of xargs expand the arguments.
xargs -P "$(getconf _NPROCESSORS_ONLN)" -I '{}' bash -euo pipefail -c 'fuzz "$@"' fuzz '{}' "$each" <<<"$targets" || exit 1
echo "$(wc -l <<<"$targets") fuzz targets passed"
