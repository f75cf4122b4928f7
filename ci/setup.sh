#!/usr/bin/env bash
# Installs what a build needs and is missing: Debian packages, build/venv (LibTorch and the report
# libraries) and Kokkos. Safe to run again; the second time it only prints the versions.
#   bash ci/setup.sh            what build and reports need
#   bash ci/setup.sh --oracle   also build/oracle-venv: real diffusers, for the oracle tests
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

packages=(cmake ninja-build g++ ccache libboost-context-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev libgtest-dev libbenchmark-dev python3-venv)
if [[ " $* " == *" --fuzz "* ]]; then packages+=(clang-14 libclang-rt-14-dev); fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  if [[ $(id -u) != 0 ]]; then
    echo "[setup] packages are missing. Run:  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 3
  fi
  echo "[setup] installing ${missing[*]}"
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
    >build/setup-apt.log 2>&1 || { tail -n 5 build/setup-apt.log >&2; exit 3; }
fi

# A virtual environment is complete when it holds a stamp with the same list; a half-made one is made anew.
make_venv() { # folder, requirements file, then groups of pip arguments separated by "--"
  local folder=$1 stamp="$1/.complete" requirements=$2; shift 2
  local wanted="$* $(cat "${requirements}" | sha256sum)"
  if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then return; fi
  echo "[setup] making $folder (downloads; a few minutes)"
  rm -rf "$folder"
  python3 -m venv "$folder"
  local arguments=()
  for word in "$@" "--"; do
    if [[ $word == "--" ]]; then
      "$folder/bin/pip" install --quiet --disable-pip-version-check "${arguments[@]}"
      arguments=()
    else
      arguments+=("$word")
    fi
  done
  printf '%s' "$wanted" >"$stamp"
}

# Only libtorch_cpu and libc10 are linked: of the CUDA libraries the wheel names they need these two.
# Last, so that pip has no later chance to complain about the dependencies left out on purpose.
make_venv build/venv reports/requirements.txt -r reports/requirements.txt pytest -- \
  --no-deps torch==2.11.0 nvidia-cuda-runtime nvidia-cuda-cupti
if [[ " $* " == *" --oracle "* ]]; then
  make_venv build/oracle-venv tests/oracle/requirements.txt -r tests/oracle/requirements.txt
fi

# Kokkos: an installed one with OpenMP or CUDA first, else the 3.4.01 source inside a PyPI sdist.
kokkos=build/kokkos
if [[ ! -f $kokkos/.complete ]] && ! cmake -S cmake/probe_kokkos -B build/probe_kokkos >build/probe_kokkos.log 2>&1; then
  echo "[setup] building Kokkos 3.4.01 from the pykokkos-base 0.0.7 source package"
  work=build/kokkos-source
  rm -rf "$work" "$kokkos"
  mkdir -p "$work"
  build/venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary pykokkos-base \
    -d "$work" pykokkos-base==0.0.7
  tar -xzf "$work"/pykokkos-base-0.0.7.tar.gz -C "$work"
  cmake -S "$work"/pykokkos-base-0.0.7/external/kokkos -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_SERIAL=ON -DCMAKE_CXX_STANDARD=20 -DKokkos_CXX_STANDARD=20 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$PWD/$kokkos" -DCMAKE_CXX_FLAGS=-w \
    >build/kokkos-build.log 2>&1 &&
    cmake --build "$work/build" --target install >>build/kokkos-build.log 2>&1 ||
    { tail -n 20 build/kokkos-build.log >&2; exit 1; }
  touch "$kokkos/.complete"
  rm -rf "$work"
fi

if [[ -f $kokkos/.complete ]]; then
  kokkos_version="$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' $kokkos/lib*/cmake/Kokkos/KokkosConfigVersion.cmake) (build/kokkos)"
else
  kokkos_version=$(sed -n 's/^-- kokkos: //p' build/probe_kokkos.log)
fi
echo "[setup] $(c++ --version | head -n 1); cmake $(cmake --version | sed -n '1s/.* //p');" \
  "torch $(build/venv/bin/pip show torch 2>/dev/null | sed -n 's/^Version: //p'); kokkos $kokkos_version;" \
  "$(build/venv/bin/python --version)"
