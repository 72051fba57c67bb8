#!/usr/bin/env bash
# Runs the bundled 15M-parameter model: it writes a story, answers in a chat, and
# answers a question about a note, also with less memory than the whole program
# and its weights take. The model is small enough to fit into the binary; -m
# selects a larger one.
#
# usage: scripts/demo.sh PATH_TO_LLMRUN
set -euo pipefail
cd "$(dirname "$0")/.."
llmrun=${1:?usage: scripts/demo.sh PATH_TO_LLMRUN}
note=cmd/llmrun/testdata/notes/note-01.md

bold='' dim='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
  bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
fi
heading() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
command_line() { printf '%s$ %s%s\n\n' "$dim" "$1" "$plain"; }

heading "1. A story"
prompt="Tell me a story about a brave fox named Ruby."
command_line "llmrun run -p \"$prompt\" --seed 1"
"$llmrun" run -p "$prompt" --seed 1

heading "2. A chat turn"
message="Hello! How are you today?"
command_line "echo \"$message\" | llmrun chat --seed 1"
echo "$message" | "$llmrun" chat --seed 1

heading "3. A question answered from a note ($note)"
sed 's/^/  | /' "$note"
echo
question="When will Jonas check the yearly samples?"
command_line "llmrun run -f $note -p \"$question\" --temp 0"
"$llmrun" run -f "$note" -p "$question" --temp 0

heading "4. The same question within 45 MiB of memory: weights that do not fit are read from flash"
command_line "llmrun run -f $note -p \"$question\" --temp 0 --ram 45MiB"
"$llmrun" run -f "$note" -p "$question" --temp 0 --ram 45MiB

heading "With a model of your own"
cat <<EOF
  $llmrun chat -m MODEL.gguf          a GGUF file
  $llmrun chat -m DIRECTORY           a Hugging Face directory with safetensors
  $llmrun help                        everything else
EOF
