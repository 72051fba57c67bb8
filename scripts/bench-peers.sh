#!/usr/bin/env bash
# Compares llmrun with llama.cpp on models of random weights: reading a prompt,
# generating, time to the first token of a short prompt, and peak memory.
#
# llama.cpp comes prebuilt with the npm package node-llama-cpp, installed into
# .scratch, where the models are written too; nothing outside is touched. Needs
# Node.js and, the first time, the network.
#
# usage: scripts/bench-peers.sh PATH_TO_LLMRUN
# Environment, with defaults:
#   SHAPE=…     shapes, separated by spaces (qwen2.5-0.5b llama-3.2-1b)
#   MODEL=…     GGUF files to compare on instead of shapes
#   QUANT=q4_0  mix of the models that are written
#   PEER=…      another build's llama-bench, measured besides
#   THREADS=2 ROUNDS=5 PP=512 TG=64 DEPTH=0
#   RESULTS=…   append what is printed to this file as well
set -euo pipefail
cd "$(dirname "$0")/.."
llmrun=${1:?usage: scripts/bench-peers.sh PATH_TO_LLMRUN}
SHAPE=${SHAPE:-qwen2.5-0.5b llama-3.2-1b} MODEL=${MODEL:-} QUANT=${QUANT:-q4_0} PEER=${PEER:-}
THREADS=${THREADS:-2} ROUNDS=${ROUNDS:-5} PP=${PP:-512} TG=${TG:-64} DEPTH=${DEPTH:-0} RESULTS=${RESULTS:-}

readonly package=node-llama-cpp@3.22.1
home=$PWD/.scratch/peers

command -v node npm >/dev/null || { echo "bench-peers needs node and npm (Debian, Ubuntu: apt-get install nodejs npm)" >&2; exit 1; }
if [[ -n $PEER && ! -x $PEER ]]; then
  echo "PEER=$PEER is no program; it has to be the llama-bench of another build" >&2
  exit 1
fi
mkdir -p "$home"
if [[ ! -e $home/node_modules/${package%@*}/package.json ]]; then
  echo "installing $package in .scratch/peers" >&2
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$home" "$package" >&2
fi

models=()
if [[ -n $MODEL ]]; then
  for model in $MODEL; do models+=("$(realpath "$model")"); done
else
  for shape in $SHAPE; do
    model=$PWD/.scratch/$shape-$QUANT.gguf
    [[ -e $model ]] || "$llmrun" synth --shape "$shape" --quant "$QUANT" -o "$model" >&2
    models+=("$model")
  done
fi

# What to type to repeat it, without paths of this machine.
command="make bench-peers"
for name in SHAPE MODEL QUANT THREADS ROUNDS PP TG DEPTH PEER; do
  case $name in
    SHAPE | QUANT) [[ -n $MODEL ]] && continue ;;
  esac
  words=()
  for word in ${!name}; do words+=("${word##*/}"); done
  [[ ${#words[@]} == 0 ]] || command+=" $name='${words[*]}'"
done
options=$(node -e '
  const [llmrun, home, cache, peer, threads, rounds, prefill, decode, depth, command, ...models] = process.argv.slice(1);
  console.log(JSON.stringify({llmrun, home, cache, peer, threads: +threads, rounds: +rounds, prefill: +prefill,
    decode: +decode, depth: +depth, command, models}));
' "$(realpath "$llmrun")" "$home" "$home/cache" "$PEER" "$THREADS" "$ROUNDS" "$PP" "$TG" "$DEPTH" "$command" "${models[@]}")

if [[ -n $RESULTS ]]; then
  report=$(node scripts/bench-peers.mjs "$options")
  printf '%s\n' "$report"
  printf '\n%s\n' "$report" >>"$RESULTS"
else
  node scripts/bench-peers.mjs "$options"
fi
