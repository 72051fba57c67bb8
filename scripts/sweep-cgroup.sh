#!/usr/bin/env bash
# Runs models in memory cgroups of their budget plus 5 %. The system must not kill a
# process, the tokens must not depend on the budget, and llmrun must refuse a budget
# that is too small. The script prints a table in Markdown and fails otherwise. It
# needs Linux and root.
#
# usage: scripts/sweep-cgroup.sh PATH_TO_LLMRUN PACK…
# Environment, with defaults; lists are separated by spaces:
#   SHARES='120 90 60 35 20 15 12'  budgets, in percent of the file
#   CTX='512 8192'                  tokens of context
#   PROMPT=300 TG=4                 tokens of the prompt and of the answer
set -euo pipefail
llmrun=$(realpath "${1:?usage: scripts/sweep-cgroup.sh PATH_TO_LLMRUN PACK…}")
shift
[[ $# -gt 0 ]] || { echo "sweep-cgroup: name at least one pack" >&2; exit 2; }
SHARES=${SHARES:-120 90 60 35 20 15 12} CTX=${CTX:-512 8192} PROMPT=${PROMPT:-300} TG=${TG:-4}
[[ $(id -u) == 0 ]] || { echo "sweep-cgroup needs root, for cgroups" >&2; exit 1; }

# Cgroups of version 1 or 2. Swap is off, because it would hide an exceeded limit.
if [[ -d /sys/fs/cgroup/memory ]]; then
  group=/sys/fs/cgroup/memory/llmrun-sweep-$$ limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes events=memory.oom_control noswap=memory.swappiness
else
  group=/sys/fs/cgroup/llmrun-sweep-$$ limit=memory.max peak=memory.peak events=memory.events noswap=memory.swap.max
fi
# leave removes the group. The kernel may need several attempts.
leave() { for _ in {1..50}; do rmdir "$group" 2>/dev/null && return; [[ -d $group ]] || return 0; sleep 0.1; done; }
trap leave EXIT
ids=$(awk -v n="$PROMPT" 'BEGIN { for (i = 0; i < n; i++) printf "%s%d", i ? "," : "", (i * 7919 + 5) % 30000 }')

printf '| model | budget | context | peak of the limit | killed | tokens |\n|---|---|---|---|---|---|\n'
failed=0
for pack in "$@"; do
  bytes=$(stat -Lc %s "$pack") want=
  for share in $SHARES; do
    for ctx in $CTX; do
      ram=$((bytes * share / 100)) status=0
      mkdir "$group"
      echo $((ram * 105 / 100)) >"$group/$limit"
      if [[ -e $group/$noswap ]]; then echo 0 >"$group/$noswap"; fi
      dd if="$pack" iflag=nocache count=0 status=none # drop its cached pages, which are charged to another cgroup
      out=$(echo $BASHPID >"$group/cgroup.procs" && exec "$llmrun" run -m "$pack" --ram "$ram" --ctx "$ctx" --ids "$ids" -n "$TG" \
        --ignore-eos --temp 0 --json -q --no-kv-cache 2>&1) || status=$?
      kills=$(awk '$1 == "oom_kill" { print $2 }' "$group/$events") used=$(cat "$group/$peak" 2>/dev/null || echo 0)
      leave
      got=$(sed -n 's/.*"ids":\(\[[^]]*\]\).*/\1/p' <<<"$out")
      want=${want:-$got}
      if [[ $kills == 0 && $status == 0 && -n $got && $got == "$want" ]]; then
        verdict='the same'
      elif [[ $kills == 0 && $status != 0 && $out == *'the least for'* ]]; then
        verdict=refused
      else
        verdict="**status $status: $(head -c 120 <<<"$out" | tr '\n|' '  ')**" failed=1
      fi
      printf '| %s | %d %% | %d | %d %% | %d | %s |\n' "$(basename "$pack")" "$share" "$ctx" $((used * 100 / (ram * 105 / 100))) "$kills" "$verdict"
    done
  done
done
exit "$failed"
