# Finds Kokkos >= 3.4 with an OpenMP or CUDA device: Kokkos_ROOT, then the system, then build/kokkos
# (made by ci/setup.sh), or with SHARDPROOF_FETCH_KOKKOS=ON the pinned release from its repository.
option(SHARDPROOF_FETCH_KOKKOS "Take Kokkos 5.2.0 by FetchContent (needs the network)" OFF)

if(SHARDPROOF_FETCH_KOKKOS)
  include(FetchContent)
  FetchContent_Declare(Kokkos SYSTEM
    URL https://github.com/kokkos/kokkos/releases/download/5.2.0/kokkos-5.2.0.tar.gz)
  FetchContent_MakeAvailable(Kokkos)
  set(SHARDPROOF_KOKKOS_VERSION "5.2.0 (fetched)")
else()
  # Debian's Trilinos package ships a Serial-only Kokkos whose CMake files are broken; it is never a candidate.
  list(APPEND CMAKE_IGNORE_PATH /usr/lib/x86_64-linux-gnu/cmake/Kokkos /usr/lib/cmake/Kokkos)
  find_package(Kokkos 3.4 QUIET)
  if(Kokkos_FOUND AND NOT "OPENMP" IN_LIST Kokkos_DEVICES AND NOT "CUDA" IN_LIST Kokkos_DEVICES)
    message(STATUS "ignoring ${Kokkos_DIR}: devices ${Kokkos_DEVICES}, OPENMP or CUDA is needed")
    set(Kokkos_FOUND FALSE)
  endif()
  if(NOT Kokkos_FOUND AND EXISTS ${CMAKE_SOURCE_DIR}/build/kokkos/.complete)
    unset(Kokkos_DIR CACHE)
    find_package(Kokkos 3.4 REQUIRED PATHS ${CMAKE_SOURCE_DIR}/build/kokkos NO_DEFAULT_PATH)
  endif()
  if(NOT Kokkos_FOUND)
    message(FATAL_ERROR "No Kokkos >= 3.4 with OpenMP or CUDA found. Run ci/setup.sh, or set Kokkos_ROOT.")
  endif()
  set(SHARDPROOF_KOKKOS_VERSION "${Kokkos_VERSION}")
  message(STATUS "kokkos: ${Kokkos_VERSION} (${Kokkos_DEVICES}) at ${Kokkos_DIR}")
endif()
