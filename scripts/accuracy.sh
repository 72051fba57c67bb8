#!/usr/bin/env bash
# Prints what quantized weights, rounded activations and keys and values in codes
# cost in perplexity: the bundled model on the first 2049 tokens of its
# validation text, each way against float32. Every mix that import knows is there,
# as it is and calibrated.
#
# usage: scripts/accuracy.sh PATH-TO-LLMRUN
set -euo pipefail
llmrun=$(realpath "${1:?usage: scripts/accuracy.sh PATH-TO-LLMRUN}")
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ids=$work/ids.txt
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
for kv in f16 k8v8 k8f8 k4v8; do row bf16 float32 "$kv" --kv "$kv"; done
mixes=(q8 q4 nf4 q4s q4all)
for mix in "${mixes[@]}"; do
  row "$mix" float32 f32 --quant "$mix"
  row "$mix" int8 f32 --quant "$mix" --rounded --kv f32
  row "$mix" int8 k8v8 --quant "$mix" --rounded
  [ "$mix" = q8 ] || continue
  for kv in f16 k8f8 k4v8; do row q8 int8 "$kv" --quant q8 --rounded --kv "$kv"; done
done

# Calibrated with stories that the model makes up itself: it has not seen the
# validation text, and neither has what it writes.
for opening in "Chapter 1 - The Old House" "The king said to his daughter" "In the morning the children"; do
  "$llmrun" run -q --raw --temp 0.9 --seed 7 -n 900 --ignore-eos -p "$opening" 2>/dev/null
  echo
done > "$work/stories.txt"
for mix in "${mixes[@]:1}"; do
  "$llmrun" import cmd/llmrun/bundled/model --quant "$mix" --calibrate "$work/stories.txt" --force -o "$work/model.pack" > /dev/null
  row "$mix, calibrated" float32 f32 -m "$work/model.pack"
  row "$mix, calibrated" int8 k8v8 -m "$work/model.pack" --rounded
done
