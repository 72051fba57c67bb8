#!/usr/bin/env bash
# Prints what quantized weights, rounded activations and 8-bit keys and values
# cost in perplexity: the bundled model on the first 2049 tokens of its
# validation text, each way against float32.
#
# usage: scripts/accuracy.sh PATH-TO-LLMRUN
set -euo pipefail
llmrun=$(realpath "${1:?usage: scripts/accuracy.sh PATH-TO-LLMRUN}")
cd "$(dirname "$0")/.."

ids=$(mktemp)
trap 'rm -f "$ids"' EXIT
"$llmrun" tokenize --json < testdata/demo/val_text.txt | tr -d ' ' | sed 's/.*"ids":\[\([^]]*\)\].*/\1/' | cut -d, -f1-2049 > "$ids"

# ppl prints the perplexity with the given flags.
ppl() { "$llmrun" perplexity --ids-file "$ids" --ctx 4096 --json "$@" 2>/dev/null | sed 's/.*"ppl":\([0-9.]*\).*/\1/'; }

base=$(ppl)
printf '| weights | activations | keys and values | perplexity | against float32 |\n|---|---|---|---|---|\n'
printf '| bf16 | float32 | f32 | %.3f | |\n' "$base"
row() { # weights activations kv flags…
  local weights=$1 activations=$2 kv=$3 p
  shift 3
  p=$(ppl "$@")
  printf '| %s | %s | %s | %.3f | %+.2f %% |\n' "$weights" "$activations" "$kv" "$p" "$(awk "BEGIN { print 100 * ($p / $base - 1) }")"
}
row bf16 float32 k8v8 --kv k8v8
row q8 float32 f32 --quant q8
row q8 int8 f32 --quant q8 --rounded --kv f32
row q8 int8 k8v8 --quant q8 --rounded
row "q4 mix" float32 f32 --quant q4
row "q4 mix" int8 f32 --quant q4 --rounded --kv f32
row "q4 mix" int8 k8v8 --quant q4 --rounded
