# The binary interface of the headers, the symbols of the libraries, and the parts of shim/.

add_executable(shim_abi_test shim_abi_test.cc shim_header.c)
set_source_files_properties(shim_header.c PROPERTIES COMPILE_DEFINITIONS HARMONAIZE_NO_CUDA)
target_include_directories(shim_abi_test PRIVATE "${PROJECT_SOURCE_DIR}"
                           "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(shim_abi_test PRIVATE GTest::gtest GTest::gtest_main)
# Another version of NVIDIA's header differs by right; only the one that we claim to be is compared.
if(HARMONAIZE_NVIDIA_NCCL_H)
  file(STRINGS "${HARMONAIZE_NVIDIA_NCCL_H}/nccl.h" SHIM_NVIDIA_VERSION
       REGEX "^#define NCCL_VERSION_CODE +22809")
endif()
if(SHIM_NVIDIA_VERSION)
  include(shim_abi_names.cmake)
  set(SHIM_ABI_DIR "${CMAKE_CURRENT_BINARY_DIR}/shim_abi")
  harmonaize_write_abi_names("${HARMONAIZE_NVIDIA_NCCL_H}/nccl.h" "${SHIM_ABI_DIR}")
  target_sources(shim_abi_test PRIVATE shim_abi_nvidia_test.cc)
  target_include_directories(shim_abi_test PRIVATE "${SHIM_ABI_DIR}")
  target_include_directories(shim_abi_test SYSTEM PRIVATE "${HARMONAIZE_NVIDIA_NCCL_H}")
  target_compile_definitions(
    shim_abi_test PRIVATE "HARMONAIZE_NVIDIA_NCCL_HEADER=\"${HARMONAIZE_NVIDIA_NCCL_H}/nccl.h\"")
endif()
set_target_properties(shim_abi_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                               "${PROJECT_BINARY_DIR}/tests")
add_test(NAME shim_abi_test COMMAND shim_abi_test)

# The symbols of both libraries. NVIDIA's own list is compared where its library lies beside its
# header, and ours, recorded from 2.28.9, always.
set(SHIM_LIBRARY_TESTS nccl preload)
if(SHIM_NVIDIA_VERSION)
  find_library(HARMONAIZE_NVIDIA_NCCL_LIBRARY NAMES libnccl.so.2
               HINTS "${HARMONAIZE_NVIDIA_NCCL_H}/../lib64" "${HARMONAIZE_NVIDIA_NCCL_H}/../lib")
endif()
foreach(library IN LISTS SHIM_LIBRARY_TESTS)
  add_test(
    NAME shim_symbols_${library}
    COMMAND
      "${CMAKE_COMMAND}" "-DLIBRARY=$<TARGET_FILE:harmonaize_${library}>"
      "-DEXPORTS=${PROJECT_SOURCE_DIR}/shim/exports" "-DSTOCK=${HARMONAIZE_NVIDIA_NCCL_LIBRARY}"
      "-DLISTS=$<$<STREQUAL:${library},preload>:preload.txt>" "-DNM=${CMAKE_NM}" "-DREADELF=${CMAKE_READELF}" "-DSANITIZER=${HARMONAIZE_SANITIZER}" -P
      "${CMAKE_CURRENT_SOURCE_DIR}/shim_symbols.cmake")
endforeach()

harmonaize_unit_test(shim_config_test SOURCES shim_config_test.cc LINKS harmonaize_shim)
harmonaize_unit_test(shim_debug_log_test SOURCES shim_debug_log_test.cc LINKS harmonaize_shim)
harmonaize_unit_test(shim_no_memory_test SOURCES shim_no_memory_test.cc replaced_new.cc
                     LINKS harmonaize_shim)
harmonaize_unit_test(shim_face_test SOURCES shim_face_test.cc LINKS harmonaize_headers
                     harmonaize_nccl)

# A library that passes for stock NCCL, under the name that stock NCCL has.
add_library(shim_fake_stock SHARED shim_fake_stock.cc)
target_link_libraries(shim_fake_stock PRIVATE harmonaize_headers)
set_target_properties(
  shim_fake_stock PROPERTIES OUTPUT_NAME nccl VERSION 2 SOVERSION 2 CXX_VISIBILITY_PRESET default
                             LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fake_stock")
harmonaize_unit_test(shim_fallback_test SOURCES shim_fallback_test.cc LINKS harmonaize_headers
                     harmonaize_nccl ${CMAKE_DL_LIBS})
add_dependencies(shim_fallback_test shim_fake_stock)
target_compile_definitions(
  shim_fallback_test PRIVATE "FAKE_STOCK=\"$<TARGET_FILE:shim_fake_stock>\""
                             "OURS=\"$<TARGET_FILE:harmonaize_nccl>\"")

# A program linked against (what passes for) stock NCCL, with our library preloaded.
add_executable(shim_preload_probe shim_preload_probe.c)
set_target_properties(shim_preload_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                    "${PROJECT_BINARY_DIR}/tests")
target_link_libraries(shim_preload_probe PRIVATE harmonaize_headers shim_fake_stock
                                                 shim_dlopen_caller ${CMAKE_DL_LIBS})
target_compile_definitions(shim_preload_probe
                           PRIVATE "FAKE_STOCK=\"$<TARGET_FILE:shim_fake_stock>\"")
add_dependencies(shim_preload_probe harmonaize_preload shim_dlopen_found)
# A library that opens another one, which only its own RUNPATH and its own $ORIGIN lead to.
foreach(library caller found)
  add_library(shim_dlopen_${library} SHARED shim_dlopen_${library}.c)
endforeach()
set_target_properties(
  shim_dlopen_caller PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/dlopen_caller"
                                BUILD_RPATH "$ORIGIN/found")
set_target_properties(
  shim_dlopen_found PROPERTIES LIBRARY_OUTPUT_DIRECTORY
                               "${PROJECT_BINARY_DIR}/tests/dlopen_caller/found")
target_link_libraries(shim_dlopen_caller PRIVATE ${CMAKE_DL_LIBS})
target_link_options(shim_dlopen_caller PRIVATE "-Wl,--enable-new-dtags")
if(NOT HARMONAIZE_SANITIZER)
  # A sanitizer's runtime insists on being the first library of the program.
  function(shim_preload_test name mode)
    add_test(NAME ${name} COMMAND shim_preload_probe ${mode})
    set_tests_properties(
      ${name} PROPERTIES ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:harmonaize_preload>;${ARGN}")
  endfunction()
  shim_preload_test(shim_preload_test taken)
  shim_preload_test(shim_preload_off_test off "HARMONAIZE_DLOPEN=off")
  shim_preload_test(shim_preload_fallback_test fallback "HARMONAIZE_FALLBACK=nccl"
                    "HARMONAIZE_SOCKET=/nonexistent/harmonaized.sock"
                    "HARMONAIZE_NCCL_LIBRARY=$<TARGET_FILE:shim_fake_stock>")
endif()

harmonaize_unit_test(shim_live_test SOURCES shim_live_test.cc LINKS harmonaize_test_support)
harmonaize_unit_test(shim_version_test SOURCES shim_version_test.cc LINKS harmonaize_test_support)
target_compile_definitions(shim_version_test PRIVATE HARMONAIZE_VERSION="${PROJECT_VERSION}")
