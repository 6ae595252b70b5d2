harmonaize_unit_test(ipc_test SOURCES ipc_test.cc LINKS harmonaize_ipc)
