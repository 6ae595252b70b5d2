harmonaize_unit_test(
  memory_test
  SOURCES memory_node_test.cc memory_process_test.cc memory_shared_test.cc
  LINKS harmonaize_memory)
