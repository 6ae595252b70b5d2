harmonaize_unit_test(ipc_test SOURCES ipc_stream_slot_test.cc ipc_test.cc LINKS harmonaize_ipc)
