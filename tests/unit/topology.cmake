harmonaize_unit_test(
  topology_test
  SOURCES topology_host_test.cc
  LINKS harmonaize_topology)
