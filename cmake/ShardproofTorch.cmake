# LibTorch from the torch wheel as hand-made IMPORTED targets: find_package(Torch) fails to configure
# where a CUDA toolkit is installed, and CPU builds need only libtorch_cpu and libc10.
set(SHARDPROOF_TORCH "${CMAKE_SOURCE_DIR}/build/venv" CACHE PATH "A venv that holds the torch wheel, or a torch folder")
file(GLOB torch_candidates ${SHARDPROOF_TORCH}/lib/python3.*/site-packages/torch)
list(PREPEND torch_candidates ${SHARDPROOF_TORCH})
foreach(candidate IN LISTS torch_candidates)
  if(EXISTS ${candidate}/lib/libtorch_cpu.so)
    set(torch_root ${candidate})
    break()
  endif()
endforeach()
if(NOT torch_root)
  message(FATAL_ERROR "No LibTorch under ${SHARDPROOF_TORCH}. Run ci/setup.sh, or set SHARDPROOF_TORCH.")
endif()
file(STRINGS ${torch_root}/version.py torch_version REGEX "^__version__")
string(REGEX REPLACE ".*'(.*)'.*" "\\1" SHARDPROOF_TORCH_VERSION "${torch_version}")
message(STATUS "torch: ${SHARDPROOF_TORCH_VERSION} at ${torch_root}")

foreach(library IN ITEMS c10 torch_cpu)
  add_library(${library} SHARED IMPORTED)
  set_target_properties(${library} PROPERTIES IMPORTED_LOCATION ${torch_root}/lib/lib${library}.so)
endforeach()
# The wheel's own libgomp must be the only one loaded: its folder is on every executable's run path.
target_link_options(torch_cpu INTERFACE -Wl,--no-as-needed)
target_link_libraries(torch_cpu INTERFACE c10)
# The wheel also carries headers of other projects (fmt 12, oneDNN, pybind11, …) that would win over the
# system's and then link against the wrong library: only LibTorch's own folders are put on the include path.
foreach(folder IN ITEMS ATen c10 caffe2 torch)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/torch_include)
  file(CREATE_LINK ${torch_root}/include/${folder} ${PROJECT_BINARY_DIR}/torch_include/${folder} SYMBOLIC)
endforeach()
target_include_directories(torch_cpu SYSTEM INTERFACE
  ${PROJECT_BINARY_DIR}/torch_include ${PROJECT_BINARY_DIR}/torch_include/torch/csrc/api/include)
file(GLOB torch_cuda_libs ${torch_root}/../nvidia/cu13/lib)
list(APPEND CMAKE_BUILD_RPATH ${torch_root}/lib ${torch_cuda_libs})
target_link_options(torch_cpu INTERFACE -Wl,-rpath-link,${torch_root}/lib -Wl,-rpath-link,${torch_cuda_libs})
