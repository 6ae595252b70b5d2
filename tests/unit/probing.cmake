harmonaize_unit_test(
  probing_counters_test
  SOURCES probing_nic_counters_test.cc probing_rdma_counters_test.cc
  LINKS harmonaize_probing_counters)
