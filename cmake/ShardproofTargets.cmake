# shardproof_library(folder SOURCES ... [LINKS ...]), shardproof_tests(folder SOURCES ... [LINKS ...]):
# one library and one test program a folder, the shared precompiled header, and each header compiled alone.
function(shardproof_common target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${SHARDPROOF_WERROR}>:-Werror>)
  target_compile_options(${target} PRIVATE ${SHARDPROOF_COMMON_FLAGS})
  target_link_libraries(${target} PUBLIC torch_cpu)
  target_precompile_headers(${target} REUSE_FROM shardproof_pch)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # CMake would say -fPIE, which does not fit the -fPIC of the precompiled header.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

function(shardproof_library folder)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(shardproof_${folder} STATIC ${arg_SOURCES})
  add_library(shardproof::${folder} ALIAS shardproof_${folder})
  shardproof_common(shardproof_${folder})
  target_link_libraries(shardproof_${folder} PUBLIC ${arg_LINKS})

  file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.hpp)
  foreach(header IN LISTS headers)
    string(MAKE_C_IDENTIFIER ${header} name)
    set(probe ${PROJECT_BINARY_DIR}/headers/${name}.cpp)
    file(GENERATE OUTPUT ${probe} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
    list(APPEND probes ${probe})
  endforeach()
  if(probes AND SHARDPROOF_HEADER_CHECK)
    add_library(shardproof_${folder}_headers OBJECT ${probes})
    shardproof_common(shardproof_${folder}_headers)
    target_link_libraries(shardproof_${folder}_headers PRIVATE shardproof_${folder})
    # The precompiled header carries ATen and seven standard headers, without which each probe would take ten seconds;
    # that headers include those themselves is checked by ci/layering.py.
  endif()
endfunction()

function(shardproof_tests folder)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${folder}_tests ${arg_SOURCES})
  shardproof_common(${folder}_tests)
  target_link_libraries(${folder}_tests PRIVATE ${arg_LINKS} shardproof_test_support)
  add_test(NAME ${folder} COMMAND ${folder}_tests)
  set_tests_properties(${folder} PROPERTIES TIMEOUT 1200
    ENVIRONMENT "OMP_PROC_BIND=false;OMP_WAIT_POLICY=passive;OMP_NUM_THREADS=1;SHARDPROOF_SOURCE_DIR=${PROJECT_SOURCE_DIR};SHARDPROOF_BINARY=$<IF:$<TARGET_EXISTS:shardproof>,${PROJECT_BINARY_DIR}/harness/shardproof,>")
endfunction()
