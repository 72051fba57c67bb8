#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other: `go test` fuzzes
# one target of one package at a time.
#
# usage: scripts/fuzz.sh TIME_EACH     (for example 10s)
set -euo pipefail
cd "$(dirname "$0")/.."
each=${1:?usage: scripts/fuzz.sh TIME_EACH}

# fuzz runs one target. If the time limit reaches a worker first, the fuzzing tool
# sometimes reports a failure with no message but "context deadline exceeded". The
# script ignores that report: a real failure names the input file that it wrote.
fuzz() {
  local package=$1 target=$2 log=$3
  go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$each" -fuzzminimizetime 10x 2>&1 | tee "$log" && return
  grep -q '^    context deadline exceeded$' "$log" && ! grep -qE 'Failing input|panic:|_test\.go:[0-9]+:' "$log"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
found=0
while IFS=: read -r file target; do
  found=$((found + 1))
  echo "== $target in $(dirname "$file") for $each"
  fuzz "$(dirname "$file")" "$target" "$log"
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort)

if [[ $found == 0 ]]; then
  echo "no fuzz target found" >&2
  exit 1
fi
echo "$found fuzz targets passed"
