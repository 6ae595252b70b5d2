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
