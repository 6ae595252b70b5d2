harmonaize_unit_test(
  memory_test
  SOURCES memory_fault_guard_test.cc memory_missing_pages_test.cc memory_node_test.cc memory_shared_test.cc
  LINKS harmonaize_memory harmonaize_test_pages)
# It takes all huge pages of the host for a moment.
set_tests_properties(memory_test PROPERTIES RUN_SERIAL TRUE)
