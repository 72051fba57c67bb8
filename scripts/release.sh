#!/usr/bin/env bash
# Builds every supported system, or those named, and packs them for download: archives, Debian packages, an SBOM, install.sh
# and SHA256SUMS. The same commit and time give the same bytes, in any directory. With "pack" it builds nothing, and packs the
# programs that scripts/cross.sh OUTPUT_DIR/programs SYSTEM/ARCHITECTURE has built, perhaps one after the other.
#
# VERSION            default: that of the nearest tag, or the commit; programs that are built already must say the same
# SOURCE_DATE_EPOCH  the time of all files, in seconds since 1970; default: that of the commit
#
# usage: scripts/release.sh OUTPUT_DIR [pack | SYSTEM/ARCHITECTURE...]
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?usage: scripts/release.sh OUTPUT_DIR [pack | SYSTEM/ARCHITECTURE...]}")
shift
time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
rm -rf "$out/release"
if [[ ${1:-} != pack ]]; then
  rm -rf "$out/programs"
  scripts/cross.sh "$out/programs" "$@"
fi

# Completions and manual pages do not depend on the system, so that any program that runs here prints them.
here=$out/programs/llmrun-$(go env GOHOSTOS)-$(go env GOHOSTARCH)
[[ -x $here ]] || { echo "$here is not among the systems: completions and manual pages come from it" >&2; exit 1; }
version=$("$here" version | cut -d ' ' -f 2)
[[ $version == "${VERSION:-$version}" ]] || { echo "$here calls itself $version, not $VERSION: build it again with VERSION=$VERSION" >&2; exit 1; }
[[ $version != "("* ]] || { echo "$here knows no version: build it in a repository, or with VERSION" >&2; exit 1; }
extras=$(mktemp -d)
trap 'rm -rf "$extras"' EXIT
mkdir "$extras/completions"
"$here" completion bash >"$extras/completions/llmrun.bash"
"$here" completion zsh >"$extras/completions/_llmrun"
"$here" completion fish >"$extras/completions/llmrun.fish"
"$here" completion powershell >"$extras/completions/llmrun.ps1"
"$here" man -o "$extras/man" >/dev/null

go run ./internal/release -version "$version" -time "$time" -extras "$extras" -out "$out/release" "$out"/programs/llmrun-*
