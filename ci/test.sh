#!/usr/bin/env bash
# All tests: layering, a build with warnings as errors and every header alone, the oracle made anew by real diffusers, CTest,
# the reports' tests, the fuzzer, and the fibers under AddressSanitizer.
#   bash ci/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n[test %4d s] %s\n' "$SECONDS" "$*"; }

step "setup"
bash ci/setup.sh --oracle --fuzz
step "layering"
python3 ci/layering.py

step "build (preset ci)"
cmake --preset ci >build/configure.log 2>&1 || { tail -n 20 build/configure.log >&2; exit 1; }
cmake --build --preset ci >build/build.log 2>&1 || { grep -E 'error|FAILED' build/build.log | head -n 30 >&2; exit 1; }

step "oracle: real diffusers writes the committed checkpoints again, and others of other sizes"
oracle=build/oracle-venv/bin/python
rm -rf build/oracle-suite
for family in flux1 flux2 qwen_image; do
  "$oracle" tests/oracle/check_$family.py
  "$oracle" tests/oracle/make_$family.py --suite build/oracle-suite/$family
done
export SHARDPROOF_ORACLE_SUITE="$PWD/build/oracle-suite"

step "reports"
build/venv/bin/python -m pytest -q -p no:cacheprovider tests/reports

step "fuzzer"
bash ci/fuzz.sh

step "AddressSanitizer and UBSan: fibers and collectives (the reader runs under both in the fuzzer)"
cmake --preset host-asan >build/configure-asan.log 2>&1 || { tail -n 20 build/configure-asan.log >&2; exit 1; }
cmake --build --preset host-asan --target comm_tests >build/build-asan.log 2>&1 ||
  { grep -E 'error|FAILED' build/build-asan.log | head -n 30 >&2; exit 1; }
# LibTorch's own start-up leaks; the project's leaks show as growth of the memory probe in the tests.
ASAN_OPTIONS=detect_leaks=0 ctest --preset asan

step "tests"
ctest --preset ci -j2
step "done"
