# The laboratory's parts that need no privileges; tests/integration has the rest.
if(HARMONAIZE_BUILD_PERF)
  harmonaize_unit_test(fabric_test SOURCES fabric_emulation_costs_test.cc fabric_network_plan_test.cc
                              fabric_placement_test.cc
                       LINKS harmonaize_fabric)
  target_compile_definitions(fabric_test
                             PRIVATE FABRICS_FOLDER="${PROJECT_SOURCE_DIR}/perf/fabric/fabrics")
endif()
