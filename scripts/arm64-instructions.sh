#!/usr/bin/env bash
# Counts the instructions and the loaded bytes of llmrun and of llama.cpp on emulated arm64, for one token, a prompt and a token behind a long context. No times: an emulator has none.
#
# Both run in the same qemu, on the same GGUF file of random weights, with one thread. The file has a published shape with
# fewer layers and tokens, because qemu is slow and what a layer costs does not depend on how many there are.
# llama.cpp is the prebuilt one of the npm package @node-llama-cpp/linux-arm64, with the library of kernels that it picks
# itself, or the one in LIBRARY.
#
# It needs qemu-aarch64 with plugins (Debian, Ubuntu: apt-get install qemu-user; the package qemu-user-static has none),
# a compiler for plugins (gcc), one for arm64 with its libraries (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross,
# libstdc++6-arm64-cross), npm, Go, and the first time the network. It writes in .scratch only.
#
# usage: scripts/arm64-instructions.sh PATH_TO_LLMRUN   (of this machine: it imports the model)
# Environment, with defaults; lists are separated by spaces:
#   SHAPE=llama-3.2-1b QUANT='q4_0 q4_k_m q6_k q8_0'   lists; llmrun synth --list prints the shapes
#   LAYERS=4 VOCAB=4096   layers and tokens of the model; the last layer computes less of a prompt
#   CPU='cortex-a76 max,sve-max-vq=1'   qemu's processors: with DotProd; with I8MM and SVE of 128 bits, as in phones
#   LIBRARY=auto    llama.cpp's library of kernels, for example libggml-cpu-armv8.6_2.so
#   PP=128 DEPTH=0  tokens of the prompt and before the last token; 0 leaves out either
#   KV=q8_0         llama.cpp's format of keys and values: q8_0, like llmrun, or f16
#   PEER=1          0 counts llmrun only
#   BLOCKS=         write counts of the blocks of llmrun's token to this file
#   QEMU=qemu-aarch64 CC=gcc ARM64_CC=aarch64-linux-gnu-gcc ARM64_LIBS=/usr/aarch64-linux-gnu
#   PLUGIN_API=     version of qemu's plugin interface; by default that of this qemu
set -euo pipefail
cd "$(dirname "$0")/.."
llmrun=${1:?usage: scripts/arm64-instructions.sh PATH_TO_LLMRUN_OF_THIS_MACHINE}
SHAPE=${SHAPE:-llama-3.2-1b} QUANT=${QUANT:-q4_0 q4_k_m q6_k q8_0} LAYERS=${LAYERS:-4} VOCAB=${VOCAB:-4096} CPU=${CPU:-cortex-a76 max,sve-max-vq=1} LIBRARY=${LIBRARY:-auto}
PP=${PP:-128} DEPTH=${DEPTH:-0} KV=${KV:-q8_0} PEER=${PEER:-1} BLOCKS=${BLOCKS:-}
QEMU=${QEMU:-qemu-aarch64} CC=${CC:-gcc} ARM64_CC=${ARM64_CC:-aarch64-linux-gnu-gcc} ARM64_LIBS=${ARM64_LIBS:-/usr/aarch64-linux-gnu}

readonly package=@node-llama-cpp/linux-arm64@3.22.1
home=$PWD/.scratch/arm64

fail() { echo "arm64-instructions: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || fail "$1 not found; $2"; }
need "$QEMU" "install qemu-user (Debian, Ubuntu), or set QEMU"
need "$CC" "install gcc, or set CC"
need go "install Go"
"$QEMU" --help | grep -q -e -plugin || fail "$QEMU has no plugins; install qemu-user (Debian, Ubuntu) instead of qemu-user-static, or set QEMU"

mkdir -p "$home"
# Version 7 of qemu has version 1 of the interface; later ones refuse old versions.
plugin() {
  local version
  for version in ${PLUGIN_API:-1 2 3 4 5 6}; do
    "$CC" -O2 -shared -fPIC -DPLUGIN_API="$version" -o "$home/count.so" scripts/arm64/count.c
    if "$QEMU" -plugin "$home/count.so" "$home/llmrun" version 2>&1 | grep -q '^count end [1-9]\|[^0-9]count end [1-9]'; then
      return
    fi
  done
  fail "$QEMU does not load scripts/arm64/count.c; set PLUGIN_API to the version of its interface"
}
GOARCH=arm64 CGO_ENABLED=0 go build -trimpath -o "$home/llmrun" ./cmd/llmrun
plugin

if [[ $PEER == 1 ]]; then
  need "$ARM64_CC" "install gcc-aarch64-linux-gnu libc6-dev-arm64-cross (Debian, Ubuntu), or set ARM64_CC, or PEER=0"
  need npm "install npm, or set PEER=0"
  [[ -e $ARM64_LIBS/lib/libstdc++.so.6 ]] || fail "$ARM64_LIBS/lib/libstdc++.so.6 is missing; install libstdc++6-arm64-cross, or set ARM64_LIBS"
  libraries=$home/node_modules/${package%@*}/bins/linux-arm64
  if [[ ! -e $libraries ]]; then
    echo "installing $package in .scratch/arm64" >&2
    npm install --silent --no-audit --no-fund --ignore-scripts --force --prefix "$home" "$package" >&2
  fi
  "$ARM64_CC" -O2 -o "$home/peer" scripts/arm64/peer.c -ldl
fi

# counted prints what the plugin counted at a mark, "INSTRUCTIONS BYTES".
counted() { sed -n "s/.*count $1 \([0-9]* [0-9]*\)$/\1/p" "$home/log"; }
# minus prints the differences of two pairs, divided by the third argument.
minus() { awk -v a="$1" -v b="$2" -v n="$3" 'BEGIN { split(a, x, " "); split(b, y, " "); printf "%.0f %.0f", (x[1] - y[1]) / n, (x[2] - y[2]) / n }'; }
plus() { awk -v a="$1" -v b="$2" 'BEGIN { split(a, x, " "); split(b, y, " "); printf "%.0f %.0f", x[1] + y[1], x[2] + y[2] }'; }

# counting runs a program in qemu. qemu 7 crashes now and then in a program of several threads, so it tries again.
counting() {
  local try
  for try in 1 2 3; do
    ! "$QEMU" "$@" >/dev/null 2>"$home/log" || return 0
  done
  cat "$home/log" >&2
  fail "$QEMU failed $try times"
}

# own counts llmrun after a prompt of $1 tokens and $2 tokens of an answer.
own() {
  local ids
  ids=$(seq -s, 0 $(($1 - 1)) | tr , '\n' | awk '{ print $1 * 7919 % 256 }' | paste -sd,)
  counting -cpu "$cpu" -plugin "$home/count.so${3:+,blocks=$3}" "$home/llmrun" run -q -m "$pack" --ids "$ids" -n "$2" \
    --temp 0 --ignore-eos --threads 1 --no-kv-cache
  counted end
}

# row prints a line of the table: llmrun's and llama.cpp's instructions and bytes, in millions.
row() {
  awk -v name="$1" -v a="$2" -v b="${3:-}" 'BEGIN {
    split(a, x, " "); split(b, y, " ")
    printf "| %s | %.1f | %s | %s | %.0f | %s |\n", name, x[1] / 1e6, b == "" ? "–" : sprintf("%.1f", y[1] / 1e6),
      b == "" ? "–" : sprintf("**%.2f**", x[1] / y[1]), x[2] / 1e6, b == "" ? "–" : sprintf("%.0f", y[2] / 1e6)
  }'
}

peer() {
  counting -L "$ARM64_LIBS" -E LD_LIBRARY_PATH="$libraries" -cpu "$cpu" -plugin "$home/count.so" \
    "$home/peer" "$libraries" "$LIBRARY" "$model" "$KV" "$PP" "$DEPTH"
  peer_token=$(minus "$(counted 2)" "$(counted 1)" 2)
  [[ $PP == 0 ]] || peer_prompt=$(minus "$(counted 4)" "$(counted 3)" "$PP")
  [[ $DEPTH == 0 ]] || peer_deep=$(minus "$(counted 6)" "$(counted 5)" 2)
}

"$QEMU" --version | head -1
echo "kernels of llama.cpp: $LIBRARY; its keys and values: $KV; millions of instructions and of bytes"
for shape in $SHAPE; do
  for quant in $QUANT; do
    model=$home/$shape-$quant-$LAYERS-$VOCAB.gguf
    pack=$model.pack
    [[ -e $model ]] || go run ./scripts/arm64/model "$shape" "$quant" "$LAYERS" "$VOCAB" "$model"
    [[ -e $pack ]] || "$llmrun" import "$model" -o "$pack" >&2
    for cpu in $CPU; do
      peer_token='' peer_prompt='' peer_deep=''
      [[ $PEER != 1 ]] || peer
      printf '\n%s\n\n' "$shape with $LAYERS layers and $VOCAB tokens, $quant, $cpu"
      echo "| | llmrun | llama.cpp | llmrun ÷ llama.cpp | bytes, llmrun | llama.cpp |"
      echo "|---|---|---|---|---|---|"
      own 1 1 >/dev/null # the first run checks the pack and remembers that
      first=$(own 1 1) token=$(minus "$(own 1 3 "$BLOCKS")" "$first" 2)
      row "one token" "$token" "$peer_token"
      if [[ $PP != 0 ]]; then
        # A prompt of one token takes what one token takes.
        prompt=$(plus "$(minus "$(own "$PP" 1)" "$first" 1)" "$token")
        row "a token of a prompt of $PP" "$(minus "$prompt" "0 0" "$PP")" "$peer_prompt"
      fi
      if [[ $DEPTH != 0 ]]; then
        row "one token behind $DEPTH" "$(minus "$(own "$DEPTH" 3)" "$(own "$DEPTH" 1)" 2)" "$peer_deep"
      fi
    done
  done
done
