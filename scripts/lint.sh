#!/usr/bin/env bash
# Checks the format, vets and lints. It vets every platform and build tag, because
# this machine compiles only some of the files. A pair is missing where it compiles the
# same files as the others: the portable kernels are the same on every processor, and
# the files of npu and of gpu do not depend on each other.
#
# usage: scripts/lint.sh TOOLS_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(realpath "${1:?usage: scripts/lint.sh TOOLS_DIR}")

# The linter allocates much and lives for seconds. Fewer collections save a quarter of
# its time.
export CGO_ENABLED=0 GOGC=${GOGC:-300}

echo "== format"
unformatted=$(find . -path './.?*' -prune -o -name '*.go' -print0 | xargs -0 "$tools/gofumpt" -l)
if [[ -n $unformatted ]]; then
  printf 'not formatted (make fmt repairs it):\n%s\n' "$unformatted" >&2
  exit 1
fi

# A linter that finds nothing looks like clean code. expected.txt has what it must find.
echo "== findings that the linter must report"
(
  cd tools/lint/testdata
  for mode in '' vet; do
    rc=0
    # shellcheck disable=SC2086 # No mode is no argument.
    "$tools/lint" $mode ./... || rc=$?
    [[ $rc == 1 ]] || printf 'lint %s exited with status %d\n' "$mode" "$rc"
  done
) | diff -u tools/lint/testdata/expected.txt - || { echo "the linter reports something else" >&2; exit 1; }

# Loading packages uses one processor for much of the time, so platforms are vetted side by
# side. A platform prints its findings when it has ended.
# arguments: system, architecture, build tags
vet() {
  local rc=0 findings
  findings=$(GOOS=$1 GOARCH=$2 "$tools/lint" vet -tags "${3:-}" ./... 2>&1) || rc=1
  printf '== vet %s/%s %s\n%s' "$1" "$2" "${3:-}" "${findings:+$findings$'\n'}"
  return "$rc"
}
export tools
export -f vet
xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 bash -euo pipefail -c 'vet "$@"' vet <<<'linux amd64
linux amd64 noasm
linux amd64 npu,gpu
windows amd64
windows amd64 npu,gpu
darwin arm64
darwin arm64 gpu
linux arm64
android arm64'

echo "== lint"
GOOS=linux GOARCH=amd64 "$tools/lint" ./...
