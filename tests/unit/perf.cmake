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
  set_tests_properties(perf_loopback PROPERTIES TIMEOUT 300 COST 10)

  harmonaize_unit_test(perf_peer_work_test SOURCES perf_peer_work_test.cc
                       LINKS harmonaize_perf_peer)

  # The comparison: what it computes, and that it measures every collective and finds all right.
  add_test(NAME perf_compare COMMAND "${CMAKE_CURRENT_LIST_DIR}/perf_compare_test.py"
                                     "${PROJECT_SOURCE_DIR}/perf/compare")
  add_test(NAME perf_compare_fabric COMMAND "${CMAKE_CURRENT_LIST_DIR}/perf_compare_fabric_test.py"
                                            "${PROJECT_SOURCE_DIR}/perf/compare")
  add_test(NAME perf_compare_run
           COMMAND "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/compare" --series registered,heap,bound
                   --collectives all --ranks 1,3 --sizes 64,4000,100K --rounds 1 --iterations 10)
  set_tests_properties(perf_compare_run PROPERTIES TIMEOUT 300 RESOURCE_LOCK compare
                                                   FAIL_REGULAR_EXPRESSION "failed;left out")
endif()
if(HARMONAIZE_BUILD_PERF)
  harmonaize_unit_test(perf_simulator_test SOURCES perf_simulator_test.cc
                       LINKS harmonaize_simulator planner_fabrics)
endif()
