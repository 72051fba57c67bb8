#!/usr/bin/env bash
# Asks two questions about a long text in two processes, and the second question also
# in a process that prefills the whole text. It prints the time to the first token,
# with all keys and values in memory and with most of them on flash, and fails if the
# two answers to the second question differ. The text is generated.
#
# usage: scripts/second-question.sh PATH-TO-LLMRUN [FLAGS OF RUN, such as -m MODEL]
# Environment, with defaults:
#   TOKENS=16384   length of the text
#   ANSWER=32      length of an answer in tokens
#   KV_RAM=8MiB    memory for keys and values in the runs with most of them on flash
set -euo pipefail
llmrun=$(realpath "${1:?usage: scripts/second-question.sh PATH-TO-LLMRUN [FLAGS]}")
shift
TOKENS=${TOKENS:-16384} ANSWER=${ANSWER:-32} KV_RAM=${KV_RAM:-8MiB}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
document=$(awk -v n="$TOKENS" 'BEGIN { for (i = 0; i < n; i++) printf "%s%d", i ? "," : "", 20 + (i * 7919 + i * i * 31) % 1000 }')

# ask runs llmrun on a question of token ids and prints the JSON object of the answer.
ask() { # ids flags…
  local question=$1
  shift
  "$llmrun" run --ids - -n "$ANSWER" --ignore-eos --temp 0 --json -q --ctx $((TOKENS + 2 * ANSWER)) "$@" <<<"$document,$question"
}
# field prints a number, or a list of numbers, of such an object.
field() { sed 's/.*"'"$1"'":\(\[[^]]*\]\|[0-9.e-]*\).*/\1/' <<<"$2"; }

printf '| keys and values | first question | read again | second question | of the first | answer |\n|---|---|---|---|---|---|\n'
whole=$(ask 40,41,42 --no-kv-cache "$@")
failed=0
row() { # name flags…
  local name=$1 first second same='the same'
  shift
  first=$(ask 30,31 --cache-dir "$work/$name" "$@")
  second=$(ask 40,41,42 --cache-dir "$work/$name" "$@")
  [[ $(field ids "$second") == "$(field ids "$whole")" ]] || same=different failed=1
  awk -v name="$name" -v a="$(field first_token_seconds "$first")" -v b="$(field first_token_seconds "$second")" \
    -v again=$(($(field prompt_tokens "$second") - $(field recalled_tokens "$second"))) -v same="$same" \
    'BEGIN { printf "| %s | %.2f s | %d tokens | %.3f s | %.1f %% | %s |\n", name, a, again, b, 100 * b / a, same }'
}
row memory "$@"
row flash --kv-ram "$KV_RAM" "$@"
exit "$failed"
