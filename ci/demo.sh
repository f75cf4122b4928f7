#!/usr/bin/env bash
# The main job: verifies every strategy on the committed diffusers checkpoint, on 4 and on 3 virtual ranks, and writes a
# report. Ends with a table and build/demo/report/report.html.
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
for ranks in 4 3; do
  echo
  echo "\$ shardproof verify --model tests/data/flux1-oracle --strategies all --ranks $ranks"
  "$shardproof" verify --model tests/data/flux1-oracle --strategies all --ranks $ranks \
    --out "$out/rows$ranks.jsonl" --junit "$out/junit$ranks.xml"
done
build/venv/bin/python -m reports "$out/rows4.jsonl" "$out/rows3.jsonl" --out "$out/report" \
  --title "FLUX.1 (diffusers checkpoint): every strategy on 4 and 3 ranks against one device"
echo
echo "[demo] records: $out/rows4.jsonl, $out/rows3.jsonl; report: $out/report/report.html"
