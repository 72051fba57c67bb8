#!/bin/sh
# Checks and measures llmrun on a phone, or any machine with a POSIX shell, and prints a table to paste.
#
# In Termux on Android (https://termux.dev):
#   1. On a computer: GOOS=android GOARCH=arm64 CGO_ENABLED=0 go build -trimpath ./cmd/llmrun
#   2. Copy llmrun and this script to the phone, into Termux's home directory: programs on /sdcard cannot be started.
#   3. chmod +x llmrun; sh phone-bench.sh ./llmrun
#
# It first compares the logits of small models of random weights, in each format, with those of other processors: they
# must be the same to the bit. Then it measures prompts and decoding with a model of random weights, which it writes,
# imports and removes. It needs no network, and about 1 GB of storage at a time.
#
# usage: sh phone-bench.sh [--check] [PATH_TO_LLMRUN]
#   --check only compares
# Environment, with defaults; lists are separated by spaces:
#   SHAPE=qwen2.5-0.5b       the shape to measure; llmrun synth --list prints them
#   QUANT='q4_0 q4_k_m q8_0' formats
#   THREADS=                 numbers of threads; default: 1, 2, 4, 6 and 8, as far as there are processors
#   PP=128 TG=32 ROUNDS=3    tokens of a prompt and of an answer, and how often
#   DEPTH=0                  tokens before them; may be a list
#   MINUTES=                 decode the first format for so long, to see heat and power
#   RUN=                     a program that runs llmrun, such as an emulator
set -eu

readonly ids=1,5,9,13,17,21,25,29,33,37,41,45,49

# What tiny models answer: the format, and the SHA-256 of the logits of one token and of 13.
golden() {
  cat <<'END'
q4_0 482e1749659e85bdaa8e27797add0fc963188774c9a60d44ffe509eff90790ab d3722af5f8dc0b73904dc040fac437f05ea7041f30ffe03d015f7767521f7635
q4_k_m dca4470546597a94dca5e209314118198986d3410f43fcdf35e424e40756b302 c44e9fed362f24eae08be34a8b3b3777125ef9c134812ce2e3222e3ea50f9284
q5_k_m c452f1f25de2e705ec76762b12ea95d38fc9ed15f91cfbcef675d267357fdd7d dc79d669a6379c5e2246fd6c5453046a4a1741d4d65ef3e257a0394b736fb61e
q6_k b18e39f7b880feb59a14d461c72aa8634eb69943a6fb56f7d2cb0dba2691357c 3e0d1182fbc8f9e388029f900c134ca850b8709e46fb8e45f9e768f11ea0c44c
q8_0 6a0ec1cafbfe62a4348d262e8c213500c9ee1ffb96da931dbf40282559e36543 1a9ef5fe27d22146d429ba74f8b86d7b4631ec5003e21b4338b02a744faef6d3
f16 5ae2766862dfbafdcbd9a5ec8082d50fb98cbccb9e6276e2c890fc7d9a5763ee 982a11834448360040fe5cb7f07b7f4121978e7f4b5026603019de77663b6844
bf16 450904e02d2da010233fe446ca38b58e9e6de3301908c4f9e158de8ca7087dcd 6d0766da01b5dde671432b9dfdf5ed732620742c0f3cf3863b33ca401317429c
END
}

fail() { echo "phone-bench: $*" >&2; exit 1; }

check=
if [ "${1:-}" = --check ]; then check=1; shift; fi
llmrun=${1:-}
if [ -z "$llmrun" ]; then
  if [ -x ./llmrun ]; then llmrun=./llmrun; else llmrun=$(command -v llmrun) || fail "name the program: sh phone-bench.sh PATH_TO_LLMRUN"; fi
fi
[ -f "$llmrun" ] || fail "$llmrun does not exist"
RUN=${RUN:-}
run() { $RUN "$llmrun" "$@"; }

dir=$(mktemp -d "${TMPDIR:-.}/phone-bench.XXXXXX") || fail "cannot write in ${TMPDIR:-.}; set TMPDIR"
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
XDG_CACHE_HOME=$dir/cache
export XDG_CACHE_HOME

run version >"$dir/version" 2>"$dir/error" ||
  fail "$llmrun does not start here ($(head -n 1 "$dir/error")); copy it to the home directory, chmod +x, and build it for this system"

sha256() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum; elif command -v shasum >/dev/null 2>&1; then shasum -a 256; else openssl dgst -sha256 -r; fi | cut -d' ' -f1
}

logits() {
  run logits -m "$dir/tiny.gguf" --ids "$1" --at all --json >"$dir/logits" || fail "llmrun logits failed with $quant"
  sha256 <"$dir/logits"
}

# compare prints a line for each format and remembers whether one differs.
compare() {
  wrong=
  golden >"$dir/golden"
  while read -r quant one many; do
    run synth --shape tiny --quant "$quant" -o "$dir/tiny.gguf" --force >/dev/null || fail "llmrun synth failed with $quant"
    bits=same
    if [ "$(logits 7)" != "$one" ]; then bits="one token DIFFERS"; fi
    if [ "$(logits $ids)" != "$many" ]; then bits="$bits, a prompt DIFFERS"; fi
    case $bits in *DIFFERS*) wrong=1 ;; esac
    echo "| $quant | $bits |"
  done <"$dir/golden"
}

first_of() { sed -n "s/^$1[[:space:]]*: *//p" /proc/cpuinfo 2>/dev/null | head -n 1; }
property() { if command -v getprop >/dev/null 2>&1; then getprop "$1"; fi; }

# about prints what machine this is.
about() {
  echo "- $(cat "$dir/version"); $(date -u '+%Y-%m-%d %H:%M UTC')${RUN:+; run by $RUN: an emulator, so speeds mean nothing}"
  phone=$(echo "$(property ro.product.manufacturer) $(property ro.product.model), $(property ro.soc.manufacturer) $(property ro.soc.model), Android $(property ro.build.version.release)")
  if [ -n "$(property ro.product.model)" ]; then echo "- $phone"; fi
  echo "- $(uname -sm), $(getconf _NPROCESSORS_ONLN 2>/dev/null || grep -c '^processor' /proc/cpuinfo) processors, $(awk '/^MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)"
  parts=$(sed -n 's/^CPU part[[:space:]]*: *//p; s/^model name[[:space:]]*: *//p' /proc/cpuinfo | sort | uniq -c | awk '{ n = $1; $1 = ""; printf "%s%d ×%s", sep, n, $0; sep = ", " }')
  clocks=$(cat /sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq 2>/dev/null | sort -n | uniq -c | awk '{ printf "%s%d × %.2f GHz", sep, $1, $2 / 1e6; sep = ", " }')
  echo "- cores: $parts${clocks:+; $clocks}"
  features=
  for feature in asimddp i8mm sve sve2 sme avx2 avx_vnni avx512_vnni; do
    case " $(first_of Features) $(first_of flags) " in *" $feature "*) features="$features $feature" ;; esac
  done
  echo "- features:${features:- none of those that kernels use}"
}

# list_threads prints the numbers of threads as bench wants them.
list_threads() {
  if [ -n "${THREADS:-}" ]; then echo "$THREADS" | tr -s ' ' ','; return; fi
  processors=$(getconf _NPROCESSORS_ONLN 2>/dev/null || grep -c '^processor' /proc/cpuinfo)
  list=1
  for n in 2 4 6 8; do if [ "$n" -le "$processors" ]; then list=$list,$n; fi; done
  echo "$list"
}

# measure prints the rows of one format.
measure() {
  free=$(df -Pk "$dir" | awk 'NR == 2 { print int($4 / 1024) }')
  if [ "$free" -lt 800 ]; then fail "$dir has $free MB left; 800 are needed, more for a larger SHAPE. Set TMPDIR to another directory"; fi
  run synth --shape "$SHAPE" --quant "$quant" -o "$dir/model.gguf" --force >/dev/null 2>"$dir/error" || fail "$(cat "$dir/error")"
  run import "$dir/model.gguf" -o "$dir/model.pack" --force >/dev/null 2>"$dir/error" || fail "$(cat "$dir/error")"
  rm -f "$dir/model.gguf"
  run bench -m "$dir/model.pack" --pp "$PP" --tg "$TG" -r "$ROUNDS" --threads "$(list_threads)" --depth "$(echo "$DEPTH" | tr -s ' ' ',')" \
    ${1:+--minutes "$1"} >"$dir/bench" 2>"$dir/error" || fail "$(cat "$dir/error")"
  sed -n 's/^limits, /  /p' "$dir/bench" >>"$dir/limits"
  sed -n 's/.*\(peak memory.*\)/\1/p' "$dir/bench" | sed "s/^/  $quant: /" >>"$dir/limits"
  awk -v quant="$quant" '$1 ~ /^(pp|tg)[0-9]+$/ { printf "| %s | %s | %s | %s | %s | %s | %s %s |\n", quant, $1, $2, $3, $4, $5, $(NF - 1), $NF }' "$dir/bench"
  for part in sustained "fastest core" energy; do sed -n "s/^$part/  $quant, $part/p" "$dir/bench" >>"$dir/limits"; done
}

SHAPE=${SHAPE:-qwen2.5-0.5b} QUANT=${QUANT:-q4_0 q4_k_m q8_0} PP=${PP:-128} TG=${TG:-32} ROUNDS=${ROUNDS:-3} DEPTH=${DEPTH:-0} MINUTES=${MINUTES:-}

echo "### llmrun on $(property ro.product.model || true) $(uname -m)"
echo
about
echo
echo "| format | bits of logits, compared with other processors |"
echo "|---|---|"
compare
if [ -n "$wrong" ]; then
  echo
  echo "Some bits differ: please report this with the lines above. Nothing was measured."
  exit 1
fi
if [ -n "$check" ]; then exit; fi
echo
echo "$SHAPE, random weights, tok/s:"
echo
echo "| format | test | threads | depth | median | lowest–highest | of limit |"
echo "|---|---|---|---|---|---|---|"
minutes=$MINUTES
for quant in $QUANT; do
  measure "$minutes"
  minutes=
done
echo
echo "Limits that bench measured, and memory:"
echo
sort -u "$dir/limits" | sed 's/^ */- /'
