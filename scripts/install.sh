#!/bin/sh
# Installs llmrun for the user who runs it, without root. It downloads the archive for this system,
# compares its SHA-256 with the published one, and puts the program into place in one step, so that
# an interrupted run leaves the old program, or none.
#
#   LLMRUN_URL=https://…/v1.2.3 sh install.sh
#
# LLMRUN_URL  where the files of a release are, SHA256SUMS among them: https://, http:// or file://
# LLMRUN_BIN  directory of the program; default: $PREFIX/bin in Termux, otherwise ~/.local/bin
#
# It needs a POSIX shell, tar, gzip, one of sha256sum, shasum and openssl, and, unless the files are
# local, curl or wget.
set -eu

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

# The program of a release is named by Go's names of systems and architectures.
system() {
  case $(uname -s) in
  Linux)
    # In Termux the program for Linux runs too, but only that for Android finds Android's certificates.
    case $(uname -o 2>/dev/null || true)/$(uname -m) in
    Android/aarch64) echo android ;;
    *) echo linux ;;
    esac
    ;;
  Darwin) echo darwin ;;
  *) fail "there is no llmrun for $(uname -s) that this script installs: see docs/guide/installing.md" ;;
  esac
}

architecture() {
  case $(uname -m) in
  x86_64 | amd64) echo amd64 ;;
  aarch64 | arm64)
    # A 32-bit system may run on a 64-bit kernel, as on older Raspberry Pi OS.
    [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 64 ] || fail "this system has 32 bits, and llmrun needs 64: install a 64-bit system"
    echo arm64
    ;;
  *) fail "there is no llmrun for $(uname -m): it needs a 64-bit processor of x86 or Arm" ;;
  esac
}

# fetch URL FILE
fetch() {
  case $1 in
  file://*) cp "${1#file://}" "$2" ;;
  https://* | http://*)
    if command -v curl >/dev/null 2>&1; then
      curl --fail --silent --show-error --location --output "$2" "$1"
    elif command -v wget >/dev/null 2>&1; then
      wget -q -O "$2" "$1"
    else
      fail "neither curl nor wget is installed"
    fi
    ;;
  *) fail "LLMRUN_URL must begin with https://, http:// or file://, not $1" ;;
  esac || fail "cannot get $1"
}

# sum FILE prints the SHA-256.
sum() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif command -v shasum >/dev/null 2>&1; then
    shasum -a 256 "$1" | cut -d ' ' -f 1
  elif command -v openssl >/dev/null 2>&1; then
    openssl dgst -sha256 -r "$1" | cut -d ' ' -f 1
  else
    fail "none of sha256sum, shasum and openssl is installed, so that the download cannot be checked"
  fi
}

# Everything is in a function, so that a script that was cut short while it was piped to sh does nothing.
main() {
  [ -n "${LLMRUN_URL:-}" ] || fail "set LLMRUN_URL to where the files of a release are"
  url=${LLMRUN_URL%/}
  case ${PREFIX:-} in
  */com.termux/*) default=$PREFIX/bin ;;
  *) default=${HOME:?install.sh: HOME is not set}/.local/bin ;;
  esac
  bin=${LLMRUN_BIN:-$default}
  name=llmrun-$(system)-$(architecture) || exit 1
  archive=$name.tar.gz

  mkdir -p "$bin" || fail "cannot make $bin; LLMRUN_BIN names another directory"
  # The directory of the program has room for it and is on the file system where it is renamed.
  work=$(mktemp -d "$bin/.llmrun-install.XXXXXX") || fail "cannot write to $bin; LLMRUN_BIN names another directory"
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  fetch "$url/SHA256SUMS" "$work/SHA256SUMS"
  want=$(awk -v name="$archive" '$2 == name { print $1 }' "$work/SHA256SUMS")
  [ -n "$want" ] || fail "$url/SHA256SUMS does not list $archive: this release has no program for this system"
  echo "downloading $url/$archive"
  fetch "$url/$archive" "$work/$archive"
  got=$(sum "$work/$archive") || exit 1
  [ "$got" = "$want" ] || fail "$archive has the SHA-256 $got, and the release says $want: nothing was installed; try again"

  gzip -dc "$work/$archive" >"$work/unpacked.tar" || fail "cannot unpack $archive"
  (cd "$work" && tar -xf unpacked.tar "$name/llmrun") || fail "cannot unpack $archive"
  chmod 755 "$work/$name/llmrun"
  version=$("$work/$name/llmrun" version) || fail "the program does not run on this system; nothing was installed"
  mv -f "$work/$name/llmrun" "$bin/llmrun"
  echo "installed $version as $bin/llmrun"

  case ":$PATH:" in
  *":$bin:"*) ;;
  *)
    echo "$bin is not in PATH. For this shell, and in ~/.profile for later ones:"
    echo "  export PATH=\"$bin:\$PATH\""
    ;;
  esac
  echo "try: llmrun chat"
}

main
