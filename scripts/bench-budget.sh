#!/usr/bin/env bash
# Compares llmrun with llama.cpp under a memory limit: the same model, in a memory
# cgroup of the budget plus 5 %, with a cold page cache, in turns.
# The script prints a Markdown table. It needs Linux, root, and python3 for the arithmetic.
#
# usage: scripts/bench-budget.sh PATH_TO_LLMRUN
# Environment, with defaults; lists are separated by spaces:
#   SHAPE=llama-3.1-8b QUANT=q4_0   the shape and format of a model of random weights
#   MODEL=                          a GGUF file to use instead
#   SHARES='75 50 25'               budgets, in percent of the file
#   TG=4 ROUNDS=2 THREADS=2         tokens, repeats, threads
#   PEER= PEER_NAME=peer            another build's llama-bench, measured too
#   MAIN=1                          measure mainline llama.cpp, which bench-peers installs
#   RESULTS=                        append the output to this file
set -euo pipefail
cd "$(dirname "$0")/.."
llmrun=$(realpath "${1:?usage: scripts/bench-budget.sh PATH_TO_LLMRUN}")
SHAPE=${SHAPE:-llama-3.1-8b} QUANT=${QUANT:-q4_0} MODEL=${MODEL:-} SHARES=${SHARES:-75 50 25}
TG=${TG:-4} ROUNDS=${ROUNDS:-2} THREADS=${THREADS:-2} PEER=${PEER:-} PEER_NAME=${PEER_NAME:-peer} MAIN=${MAIN:-1}
RESULTS=${RESULTS:-/dev/null}

[[ $(id -u) == 0 ]] || { echo "bench-budget needs root, for cgroups and the page cache" >&2; exit 1; }
model=${MODEL:-$PWD/.scratch/$SHAPE-$QUANT.gguf}
[[ -e $model ]] || "$llmrun" synth --shape "$SHAPE" --quant "$QUANT" -o "$model" >&2
pack=${model%.gguf}.pack
[[ -e $pack ]] || "$llmrun" import "$model" -o "$pack" >&2
bytes=$(stat -Lc %s "$model")

# limited runs a command in a memory cgroup (version 1 or 2) with a limit in bytes.
limited() {
  local limit=$1 group
  shift
  if [[ -d /sys/fs/cgroup/memory ]]; then
    group=/sys/fs/cgroup/memory/llmrun-bench-$$
    mkdir -p "$group"
    echo "$limit" >"$group/memory.limit_in_bytes"
  else
    group=/sys/fs/cgroup/llmrun-bench-$$
    mkdir -p "$group"
    echo "$limit" >"$group/memory.max"
  fi
  sync
  echo 3 >/proc/sys/vm/drop_caches
  (echo $BASHPID >"$group/cgroup.procs" && exec "$@") || echo '{}'
  for _ in 1 2 3 4 5; do rmdir "$group" 2>/dev/null && break || sleep 0.2; done
}

ids=1,2,3,4,5,6,7,8
ours() { limited $(($1 * 105 / 100)) "$llmrun" run -m "$pack" --ram "$1" --threads "$THREADS" --ids $ids -n $((TG + 1)) --ignore-eos --temp 0 --json -q |
  python3 -c 'import json,sys; print(json.load(sys.stdin).get("decode_tok_per_s",0))'; }
main_() { limited $(($1 * 105 / 100)) node scripts/peer-bench.mjs "$PWD/.scratch/peers" \
  "{\"model\":\"$model\",\"threads\":[$THREADS],\"depths\":[0],\"prefill\":0,\"decode\":$TG,\"kv\":\"q8_0\"}" 2>/dev/null |
  python3 -c 'import json,sys; t=json.load(sys.stdin).get("tests",[]); print(t[0]["tok_per_s"]["median"] if t else 0)'; }
peer() { limited $(($1 * 105 / 100)) "$PEER" -m "$model" -t "$THREADS" -p 0 -n "$TG" -r 1 -o json 2>/dev/null |
  python3 -c 'import json,sys; t=json.load(sys.stdin); print(t[0]["avg_ts"] if t else 0)'; }

engines=(ours)
[[ $MAIN == 1 ]] && engines+=(main_)
[[ -n $PEER ]] && engines+=(peer)
{
  echo
  echo "\`${MODEL:+MODEL=$(basename "$MODEL") }SHAPE=$SHAPE QUANT=$QUANT SHARES='$SHARES' TG=$TG ROUNDS=$ROUNDS THREADS=$THREADS make bench-budget\`, $(date -u +%F), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) processors: $(basename "$model"), decode in tok/s, medians of $ROUNDS"
  echo
  echo "| share of the file | budget MB | llmrun | mainline | ${PEER_NAME} | best peer |"
  echo "|---|---|---|---|---|---|"
  for share in $SHARES; do
    budget=$((bytes * share / 100))
    declare -A samples=([ours]="" [main_]="" [peer]="")
    for _ in $(seq "$ROUNDS"); do
      for engine in "${engines[@]}"; do samples[$engine]+=" $("$engine" "$budget")"; done
    done
    python3 - "$share" "$budget" "${samples[ours]}" "${samples[main_]}" "${samples[peer]}" <<'PY'
import statistics, sys
share, budget, *lists = sys.argv[1:]
medians = [statistics.median(map(float, l.split())) if l.split() else None for l in lists]
best = max((m for m in medians[1:] if m), default=None)
show = lambda m: "not measured" if m is None else "failed" if m == 0 else f"{m:.2f}"
ratio = f"{medians[0] / best:.2f}x" if best and medians[0] else "–"
print(f"| {share} % | {int(budget) // 10**6} | {show(medians[0])} | {show(medians[1])} | {show(medians[2])} | {ratio} |")
PY
  done
} | tee -a "$RESULTS"
