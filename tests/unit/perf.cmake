# The benchmark harness, against a NCCL of a few scalar loops in this process.
if(HARMONAIZE_BUILD_PERF)
  add_library(perf_loopback_nccl STATIC "${CMAKE_CURRENT_LIST_DIR}/perf_loopback_nccl.cc")
  target_link_libraries(perf_loopback_nccl PUBLIC harmonaize_perf_harness)
  harmonaize_unit_test(perf_harness_test SOURCES perf_harness_test.cc
                       LINKS harmonaize_perf_harness perf_loopback_nccl)

  set(programs)
  foreach(program IN LISTS HARMONAIZE_PERF_PROGRAMS)
    add_executable(${program}_loopback "${PROJECT_SOURCE_DIR}/perf/${program}.cc")
    # Each needs the other: the harness calls NCCL, and this NCCL uses the harness's conversions.
    target_link_libraries(${program}_loopback PRIVATE harmonaize_perf_harness perf_loopback_nccl
                                                      harmonaize_perf_harness)
    set_target_properties(${program}_loopback PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                         "${PROJECT_BINARY_DIR}/tests")
    list(APPEND programs $<TARGET_FILE:${program}_loopback>)
  endforeach()
  add_test(NAME perf_loopback COMMAND "${CMAKE_CURRENT_LIST_DIR}/perf_loopback_test.py" ${programs})
  set_tests_properties(perf_loopback PROPERTIES TIMEOUT 300)
endif()
