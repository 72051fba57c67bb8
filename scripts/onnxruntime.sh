#!/usr/bin/env bash
# Prints the path of an ONNX Runtime library. LLMRUN_ONNXRUNTIME can name the
# library; otherwise the script uses the npm package onnxruntime-node, which the
# first run installs into .scratch. It fails where neither is possible, so that
# no test of the library is skipped unseen.
#
# usage: scripts/onnxruntime.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -n ${LLMRUN_ONNXRUNTIME:-} ]]; then
  echo "$LLMRUN_ONNXRUNTIME"
  exit
fi
readonly package=onnxruntime-node@1.30.0
home=$PWD/.scratch/onnxruntime
case $(uname -s)/$(uname -m) in
  Linux/x86_64) library=linux/x64/libonnxruntime.so.1 ;;
  Linux/aarch64) library=linux/arm64/libonnxruntime.so.1 ;;
  Darwin/arm64) library=darwin/arm64/libonnxruntime.1.dylib ;;
  *) echo "$package has no library for $(uname -sm); set LLMRUN_ONNXRUNTIME to the path of one" >&2; exit 1 ;;
esac
library=$home/node_modules/${package%@*}/bin/napi-v6/$library
if [[ ! -e $library ]]; then
  if ! command -v npm >/dev/null; then
    echo "npm is missing (Debian, Ubuntu: apt-get install npm); or set LLMRUN_ONNXRUNTIME to the path of the library" >&2
    exit 1
  fi
  echo "installing $package in .scratch/onnxruntime" >&2
  mkdir -p "$home"
  npm install --loglevel=error --no-audit --no-fund --ignore-scripts --prefix "$home" "$package" >&2
fi
echo "$library"
