#!/usr/bin/env bash
# Builds and packs this system's program here and in a copy of the tree elsewhere, with a compiler cache of its own, and
# compares every byte. Two to four minutes of processor time.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
system=$(go env GOHOSTOS)/$(go env GOHOSTARCH)

# The copy has no repository, whose commit programs would name.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" VERSION=v0.0.0-check SOURCE_DATE_EPOCH=1700000000
mkdir -p "$work/a rather long name of a directory"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from - --create | tar --extract --directory "$work/a rather long name of a directory"
scripts/release.sh "$work/first" "$system" >/dev/null
(
  cd "$work/a rather long name of a directory"
  TZ=Asia/Tokyo GOCACHE=$work/cache scripts/release.sh "$work/second" "$system" >/dev/null
)
diff -r "$work/first" "$work/second"
echo "the same bytes: $(cd "$work/first/release" && ls | tr '\n' ' ')"
