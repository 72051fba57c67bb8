#!/usr/bin/env bash
# Compares the benchmarks of the working tree with those of another commit.
# The two run in turns, so that heat and other load slow both.
#
# usage: scripts/bench-compare.sh BENCHSTAT BASE_COMMIT BENCH_PATTERN [PACKAGES]
set -euo pipefail
cd "$(dirname "$0")/.."
benchstat=${1:?missing benchstat} base=${2:?missing base commit} pattern=${3:?missing pattern} packages=${4:-./...}
readonly rounds=6 # benchstat needs 6 for a confidence interval

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
mkdir "$temp/tree"
git archive "$base" | tar -x -C "$temp/tree"

measure() { # directory, file to append to
  # shellcheck disable=SC2086 # PACKAGES is a list of words
  (cd "$1" && go test -run '^$' -bench "$pattern" -benchmem $packages) >>"$2"
}
for ((round = 1; round <= rounds; round++)); do
  echo "round $round of $rounds" >&2
  measure "$temp/tree" "$temp/base.txt"
  measure . "$temp/new.txt"
done
"$benchstat" "base=$temp/base.txt" "new=$temp/new.txt"
