harmonaize_unit_test(
  ipc_test
  SOURCES ipc_daemon_trust_test.cc ipc_slice_count_test.cc ipc_stream_slot_test.cc ipc_test.cc
  LINKS harmonaize_ipc harmonaize_test_users)
