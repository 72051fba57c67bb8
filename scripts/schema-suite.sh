#!/usr/bin/env bash
# Compares the schemas of answers with the public JSON-Schema-Test-Suite (MIT), in the version that is pinned here. It lies in
# .scratch/schema-suite. SCHEMA_SUITE names a clone of it to take it from, where GitHub cannot be reached.
#
# usage: scripts/schema-suite.sh [GO]
set -euo pipefail
cd "$(dirname "$0")/.."

readonly commit=44401e0c046704b476ec9d2e2fccdaee618f259d home=$PWD/.scratch/schema-suite
readonly from=${SCHEMA_SUITE:-https://github.com/json-schema-org/JSON-Schema-Test-Suite}

if [[ $(cat "$home/commit" 2>/dev/null) != "$commit" ]]; then
  rm -rf "$home"
  mkdir -p "$home"
  git -C "$home" init --quiet
  git -C "$home" fetch --quiet --depth 1 "$from" "$commit"
  git -C "$home" checkout --quiet "$commit"
  echo "$commit" >"$home/commit"
fi
LLMRUN_SCHEMA_SUITE=$home/tests/draft2020-12 "${1:-go}" test -count=1 -v -run '^TestSuite$' ./text/constrain | grep -v 'is valid and not written$'
