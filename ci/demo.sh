#!/usr/bin/env bash
# The main job: every strategy on the committed FLUX.1 checkpoint, on 4 virtual ranks, at the two shapes of the diffusers guide
# (1024 × 1024, and 1008 × 1008, whose 3969 image tokens do not divide by 4) in fp64, and in all dtypes on a small image. Ends
# with tables and build/demo/report/report.html.
#   bash ci/demo.sh
set -euo pipefail
cd "$(dirname "$0")/.."
bash ci/setup.sh
cmake --preset ci >build/configure.log 2>&1 || { tail -n 20 build/configure.log >&2; exit 1; }
echo "[demo] building (the first time takes some minutes)"
cmake --build --preset ci --target shardproof >build/build.log 2>&1 || { tail -n 30 build/build.log >&2; exit 1; }

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"  # the demo's matrices are too small to share out
shardproof=build/ci/harness/shardproof
out=build/demo
mkdir -p "$out"
run() {  # run NAME ARGUMENTS...
  local name=$1
  shift
  echo
  echo "\$ shardproof verify --model tests/data/flux1-oracle $*"
  "$shardproof" verify --model tests/data/flux1-oracle "$@" --out "$out/$name.jsonl" --junit "$out/$name.xml"
}
modes=ulysses,ring,ring_p2p,unified,ulysses_anything,ring_anything,unified_anything
guide=(--strategies "single,$modes,tp" --ranks 4 --text 512 --dtype fp64 --inputs negative_logits)
run small --strategies all,tp+ulysses,tp+ring --ranks 4 --inputs negative_logits
run 1024 "${guide[@]}" --shape 1024x1024 --require "$modes"
run 1008 "${guide[@]}" --shape 1008x1008 --expect-failed ulysses,ring,ring_p2p,unified \
  --require ulysses_anything,ring_anything,unified_anything
build/venv/bin/python -m reports "$out/small.jsonl" "$out/1024.jsonl" "$out/1008.jsonl" --out "$out/report" \
  --title "FLUX.1 (diffusers checkpoint): every strategy on 4 ranks against one device"
echo
echo "[demo] records: $out/{small,1024,1008}.jsonl; report: $out/report/report.html"
