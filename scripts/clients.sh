#!/usr/bin/env bash
# Tries the server with clients that others have written, in the versions that
# internal/clienttests pins: npm packages, and ollama's own tests; and the page with
# Chromium, if it is installed. The npm packages lie in .scratch/clients. answers
# generates LLMRUN_ANSWERS answers within schemas, 1000 without it; test generates one
# for each schema.
#
# usage: scripts/clients.sh download | test LLMRUN | answers LLMRUN
set -euo pipefail
cd "$(dirname "$0")/.."

readonly tests=$PWD/internal/clienttests home=$PWD/.scratch/clients

# download installs what the tests need, unless it is there already.
download() {
  if ! command -v npm >/dev/null; then
    echo "npm is missing (Debian, Ubuntu: apt-get install npm)" >&2
    exit 1
  fi
  mkdir -p "$home"
  if ! cmp -s "$tests/npm/package-lock.json" "$home/installed.json"; then
    cp "$tests"/npm/package*.json "$home"
    (cd "$home" && npm ci --loglevel=error --no-audit --no-fund --ignore-scripts >&2)
    cp "$tests/npm/package-lock.json" "$home/installed.json"
  fi
  # Compiled here, the limit of a client's time below is that of its questions alone.
  (cd "$tests/ollama" && go mod download && go vet . && go test -c -o /dev/null . &&
    go test -c -tags integration -vet=off -o /dev/null github.com/ollama/ollama/integration)
}

# client runs a command in a folder for at most some seconds; the signal of the limit
# makes Go programs print their goroutines. arguments: seconds, folder, command
client() {
  local limit=$1 dir=$2 started=$SECONDS rc=0
  shift 2
  (cd "$dir" && exec timeout -s QUIT -k 10 "$limit" "$@") || rc=$?
  [[ $rc == 0 ]] && return
  failed=1
  echo "exit status $rc after $((SECONDS - started)) s: $*" >&2
  # A client that hangs asks for where the server is, and ends the test.
  if [[ $rc == 124 || $rc == 137 ]]; then
    tail -n 5 "$log" >&2
    kill -QUIT "$server" 2>/dev/null || true
    wait "$server" || true
    echo "where its goroutines were, the most frequent first:" >&2
    grep -oE '^github.com/llmrun/llmrun[^(]*(\(\*[A-Za-z]+\))?[^(]*' "$log" | sort | uniq -c | sort -rn | head -n 20 >&2 || true
    exit 1
  fi
}

if [[ ${1:-} == download ]]; then
  download
  exit
fi
program=$(realpath "$2")
readonly program
export LLMRUN_PROGRAM=$program LLMRUN_SCHEMAS=$PWD/text/constrain/testdata/schemas.json
download
rm -f "$home"/*.mjs
cp "$tests"/npm/*.mjs "$home"
if [[ $1 == answers ]]; then
  LLMRUN_ANSWERS=${LLMRUN_ANSWERS:-1000} node --test --test-reporter=spec "$home/schemas.test.mjs"
  exit
fi

log=$(mktemp)
"$program" serve --listen 127.0.0.1:0 --no-kv-cache 2>"$log" &
server=$!
trap 'kill "$server" 2>/dev/null; timeout 30 tail -f --pid="$server" /dev/null || kill -KILL "$server"; rm -f "$log"' EXIT
for _ in {1..100}; do
  LLMRUN_URL=$(sed -n 's/^llmrun: serving on //p' "$log")
  [[ -n $LLMRUN_URL ]] && break
  kill -0 "$server" || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
export LLMRUN_URL
# Some of ollama's tests name the model that they ask.
for name in llama3.2 qwen3:0.6b; do
  node -e 'fetch(process.env.LLMRUN_URL + "/api/copy", { method: "POST", body: JSON.stringify({ source: "llmrun", destination: process.argv[1] }) }).then((r) => process.exit(r.ok ? 0 : 1))' "$name"
done

failed=0
export LLMRUN_PAGE=$PWD/serve/page
for file in "$home"/*.test.mjs; do # one after the other: some ask which models are open
  client 150 "$home" node --test --test-reporter=spec "$file"
done
client 330 "$tests/ollama" go test -count=1 .
if [[ $failed != 0 ]]; then
  echo "what the server has logged:" >&2
  tail -n 20 "$log" >&2
fi
exit $failed
