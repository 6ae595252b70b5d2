harmonaize_unit_test(
  transport_test
  SOURCES transport_address_test.cc transport_arrival_delay_test.cc transport_board_test.cc transport_channel_bundle_test.cc
          transport_congestion_control_test.cc transport_connection_choice_test.cc transport_handshake_test.cc transport_pace_test.cc
          transport_rail_test.cc
          transport_send_queue_test.cc transport_sending_test.cc transport_stream_moves_test.cc
          transport_wire_test.cc
  LINKS harmonaize_transport harmonaize_test_transport)
# It replaces operator new.
harmonaize_unit_test(
  transport_allocation_test
  SOURCES transport_allocation_test.cc replaced_new.cc
  LINKS harmonaize_test_transport)

# Over loopback and in network namespaces, with links that are cut and strangers who connect.
set(network_tests transport_cut_ways_test.cc transport_fault_test.cc transport_links_test.cc
                  transport_messages_test.cc transport_strangers_test.cc)
add_executable(transport_network_tests ${network_tests})
target_link_libraries(transport_network_tests PRIVATE harmonaize_test_transport GTest::gtest
                                                      GTest::gtest_main)
set_target_properties(transport_network_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                         "${PROJECT_BINARY_DIR}/tests")
harmonaize_test_entries(transport_network_tests ${network_tests})
