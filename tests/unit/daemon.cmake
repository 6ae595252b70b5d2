harmonaize_unit_test(daemon_test SOURCES daemon_stream_queue_test.cc daemon_config_test.cc
                             daemon_event_loop_test.cc
                     LINKS harmonaize_daemon)
