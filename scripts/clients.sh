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
  (cd "$tests/ollama" && go mod download)
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
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -f "$log"' EXIT
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
  node --test --test-reporter=spec "$file" || failed=1
done
(cd "$tests/ollama" && go vet . && go test -count=1 .) || failed=1
if [[ $failed != 0 ]]; then
  echo "what the server has logged:" >&2
  tail -n 20 "$log" >&2
fi
exit $failed
