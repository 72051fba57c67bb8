#!/usr/bin/env bash
# Compares llmrun with llama.cpp on models of random weights: prefill, decoding, time to the first token of a short prompt, and peak memory.
#
# The npm package node-llama-cpp contains llama.cpp prebuilt. The script installs
# the package and writes the models in .scratch, and changes no other directory. It
# needs Node.js and, the first time, the network.
#
# usage: scripts/bench-peers.sh PATH_TO_LLMRUN
# Environment, with defaults; lists are separated by spaces:
#   SHAPE='qwen2.5-0.5b llama-3.2-1b'  shapes of models; llmrun synth --list prints them
#   QUANT=q4_0     their quantization mixes
#   MODEL=         GGUF files to use instead
#   PEER=          another build's llama-bench, measured too
#   PEER_NAME=peer its name in the tables
#   THREADS=2 DEPTH=0 PP=512 TG=64 ROUNDS=5  THREADS and DEPTH may be lists
#   KV=q8_0        format of keys and values of peers: q8_0, like llmrun, or f16
#   BUSY=0         also measure beside this number of busy processes
#   TIER=          avx2: llmrun without AVX-512 and VNNI, llama.cpp with its library for Haswell
#                  avxvnni: llmrun without AVX-512, llama.cpp with its library for Alder Lake
#   JSON=          write all samples to this file
#   RESULTS=       append the output to this file
set -euo pipefail
cd "$(dirname "$0")/.."
llmrun=${1:?usage: scripts/bench-peers.sh PATH_TO_LLMRUN}
SHAPE=${SHAPE:-qwen2.5-0.5b llama-3.2-1b} QUANT=${QUANT:-q4_0} MODEL=${MODEL:-}
PEER=${PEER:-} PEER_NAME=${PEER_NAME:-peer} KV=${KV:-q8_0} BUSY=${BUSY:-0} TIER=${TIER:-}
THREADS=${THREADS:-2} DEPTH=${DEPTH:-0} PP=${PP:-512} TG=${TG:-64} ROUNDS=${ROUNDS:-5}
JSON=${JSON:-} RESULTS=${RESULTS:-/dev/null}

readonly package=node-llama-cpp@3.22.1
home=$PWD/.scratch/peers

command -v node npm >/dev/null || { echo "bench-peers needs node and npm (Debian, Ubuntu: apt-get install nodejs npm)" >&2; exit 1; }
if [[ -n $PEER && ! -x $PEER ]]; then
  echo "PEER=$PEER is not a program; set PEER to the llama-bench of another build" >&2
  exit 1
fi
mkdir -p "$home"
if [[ ! -e $home/node_modules/${package%@*}/package.json ]]; then
  echo "installing $package in .scratch/peers" >&2
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$home" "$package" >&2
fi

# llama.cpp loads the fastest library that the processor can run: keep those of the tier and below.
keep='x64|sse42|sandybridge|ivybridge|haswell'
case $TIER in
'' | avx2) ;;
avxvnni) keep="$keep|alderlake" ;;
*)
  echo "TIER=$TIER is not known; it can be avx2 or avxvnni" >&2
  exit 1
  ;;
esac
if [[ -n $TIER ]]; then
  rm -rf "$home-$TIER" && cp -al "$home" "$home-$TIER" && home=$home-$TIER
  find "$home" -regextype posix-extended -name 'libggml-cpu-*.so' ! -regex ".*-($keep)\\.so" -delete
  export LLMRUN_CPU=avx2 # with VNNI, if the processor has it
fi
if [[ $TIER == avx2 ]]; then
  export GODEBUG=cpu.avxvnni=off # Go's runtime does not know this feature and says so; golang.org/x/sys/cpu does
fi

models=()
if [[ -n $MODEL ]]; then
  for model in $MODEL; do models+=("$(realpath "$model")"); done
else
  for shape in $SHAPE; do
    for quant in $QUANT; do
      model=$PWD/.scratch/$shape-$quant.gguf
      [[ -e $model ]] || "$llmrun" synth --shape "$shape" --quant "$quant" -o "$model" >&2
      models+=("$model")
    done
  done
fi

# The command that repeats the measurement, without paths of this machine.
command="make bench-peers"
for name in SHAPE QUANT MODEL PEER PEER_NAME THREADS DEPTH PP TG ROUNDS KV BUSY TIER; do
  case $name in
    SHAPE | QUANT) [[ -n $MODEL ]] && continue ;;
    PEER_NAME) [[ -z $PEER ]] && continue ;;
  esac
  words=()
  for word in ${!name}; do words+=("${word##*/}"); done
  [[ ${#words[@]} == 0 ]] || command+=" $name='${words[*]}'"
done
options=$(node -e '
  const [llmrun, home, peer, peerName, kv, threads, depths, prefill, decode, rounds, busy, json, command, ...models] = process.argv.slice(1);
  const list = (text) => text.split(/\s+/).filter(Boolean).map(Number);
  console.log(JSON.stringify({llmrun, home, peer, peerName, kv, threads: list(threads), depths: list(depths), prefill: +prefill,
    decode: +decode, rounds: +rounds, busy: +busy, json, command, models}));
' "$(realpath "$llmrun")" "$home" "$PEER" "$PEER_NAME" "$KV" "$THREADS" "$DEPTH" "$PP" "$TG" "$ROUNDS" "$BUSY" "$JSON" "$command" "${models[@]}")

[[ $RESULTS == /dev/null ]] || echo >>"$RESULTS"
node scripts/bench-peers.mjs "$options" | tee -a "$RESULTS"
