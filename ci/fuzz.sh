#!/usr/bin/env bash
# Fuzzes the safetensors header parser and the slice arithmetic with libFuzzer, ASan and UBSan:
#   bash ci/fuzz.sh [RUNS]     200000 runs by default, well under a minute; a crash is written to build/fuzz/ and fails
# Needs clang-14 with its runtime (bash ci/setup.sh --fuzz). Neither LibTorch nor Kokkos is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-200000}
out=build/fuzz
rm -rf "$out/seeds" "$out/corpus"  # a fresh corpus: the same runs every time
mkdir -p "$out/seeds" "$out/corpus"

clang++-14 -std=c++20 -O1 -g -Wall -Wextra -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
  -I. -DFMT_HEADER_ONLY tests/models/safetensors_fuzz.cpp models/safetensors_header.cpp core/error.cpp -o "$out/safetensors_fuzz"

# Seeds: mode byte, two bytes of data size, header (see safetensors_fuzz.cpp); two whole files.
seed() { printf "$2" >"$out/seeds/$1"; }
seed scalar     '\001\004\000{"t":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}'
seed two        '\001\011\000{"z":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
seed matrix     '\001\200\000{"w":{"dtype":"F32","shape":[8,4],"data_offsets":[0,128]}}'
seed cube       '\001\360\000{"w":{"dtype":"BF16","shape":[4,6,5],"data_offsets":[0,240]}}'
seed wide       '\001\000\010{"w":{"dtype":"F64","shape":[2,16,8],"data_offsets":[0,2048]}}'
seed empty      '\001\000\000{"w":{"dtype":"F16","shape":[3,0],"data_offsets":[0,0]}}   '
seed overflow   '\001\000\000{"w":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,0]}}'
seed metadata   '\001\004\000{"__metadata__":{"format":"pt"},"w":{"dtype":"I32","x":[[1.5,{"a":null}]],"shape":[1],"data_offsets":[0,4]}}'
seed narrow     '\001\001\000{"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}'
seed file       '\000\072\000\000\000\000\000\000\000{"t":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}    abcd'
seed long       '\000\377\377\377\377\377\377\377\377{}'

cat >"$out/tokens.dict" <<'DICT'
"\"dtype\":" "\"shape\":" "\"data_offsets\":" "\"__metadata__\":" "\"F32\"" "\"BF16\"" "\"U8\"" "\"F6_E2M3\"" "[0,4]" "[1]" "[]" "{}" "null"
DICT
tr ' ' '\n' <"$out/tokens.dict" >"$out/tokens.tmp" && mv "$out/tokens.tmp" "$out/tokens.dict"

"$out/safetensors_fuzz" -runs="$runs" -seed=1 -max_len=4096 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=256 -print_final_stats=1 \
  -dict="$out/tokens.dict" -artifact_prefix="$out/crash-" "$out/corpus" "$out/seeds" >"$out/log" 2>&1 ||
  { tail -n 40 "$out/log" >&2; echo "[fuzz] failed; the input is in $out/" >&2; exit 1; }
sed -n 's/^stat::number_of_executed_units: */[fuzz] safetensors header and slices, no fault; runs: /p' "$out/log"
