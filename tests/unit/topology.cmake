harmonaize_unit_test(
  topology_test SINGLE_THREADED
  SOURCES topology_fabric_file_test.cc
          topology_fluid_network.cc
          topology_host_test.cc
          topology_inference_test.cc
          topology_link_estimates_test.cc
          topology_link_shares_test.cc
          topology_link_rate_test.cc
          topology_measurements_test.cc
          topology_routing_test.cc
  LINKS harmonaize_topology)
target_compile_definitions(topology_test
                           PRIVATE FABRICS_FOLDER="${PROJECT_SOURCE_DIR}/perf/fabric/fabrics")
# Its parsers alone, for builds that do not run the rest (tests/rounds.cmake).
if(NOT HARMONAIZE_SANITIZER STREQUAL "thread")
  add_test(NAME topology_files_test COMMAND topology_test
                                            --gtest_filter=FabricFile.*:FabricWriter.*:Measurements.*)
  set_tests_properties(topology_files_test PROPERTIES TIMEOUT 300)
endif()
