harmonaize_unit_test(
  executor_test
  SOURCES executor_board_test.cc executor_cluster.cc executor_collectives_test.cc executor_concurrency_test.cc
          executor_cut_test.cc executor_errors_test.cc executor_network_test.cc executor_programs_test.cc
          executor_rails_test.cc executor_tenants_test.cc executor_testing.cc
          executor_transport_port_test.cc schedule_fabrics.cc
  LINKS harmonaize_executor harmonaize_topology)
target_compile_definitions(executor_test
                           PRIVATE FABRICS_FOLDER="${PROJECT_SOURCE_DIR}/perf/fabric/fabrics")

set_tests_properties(executor_test PROPERTIES COST 15)

# A program of its own, because it replaces operator new.
harmonaize_unit_test(
  executor_allocation_test
  SOURCES executor_allocation_test.cc executor_testing.cc replaced_new.cc
  LINKS harmonaize_executor)

# Prints numbers and proves nothing: run by hand.
add_executable(executor_benchmark executor_benchmark.cc executor_testing.cc)
target_compile_options(executor_benchmark PRIVATE $<$<CONFIG:RelWithDebInfo>:-O2>)
target_link_libraries(executor_benchmark PRIVATE harmonaize_executor GTest::gtest)
set_target_properties(executor_benchmark PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                    "${PROJECT_BINARY_DIR}/tests")
