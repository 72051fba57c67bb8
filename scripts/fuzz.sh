#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other: `go test` fuzzes
# one target of one package at a time.
#
# usage: scripts/fuzz.sh TIME_EACH     (for example 10s)
set -euo pipefail
cd "$(dirname "$0")/.."
each=${1:?usage: scripts/fuzz.sh TIME_EACH}

testreport=$(mktemp)
trap 'rm -f "$testreport"' EXIT
go build -o "$testreport" ./internal/testreport

found=0
while IFS=: read -r file target; do
  found=$((found + 1))
  echo "== $target in $(dirname "$file") for $each"
  "$testreport" -timeout 10m -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$each" -fuzzminimizetime 10x "$(dirname "$file")"
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort)

if [[ $found == 0 ]]; then
  echo "no fuzz target found" >&2
  exit 1
fi
echo "$found fuzz targets passed"
