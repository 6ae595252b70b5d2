harmonaize_unit_test(
  daemon_test
  SOURCES daemon_address_seal_test.cc daemon_agreement_test.cc daemon_background_test.cc
          daemon_calibration_test.cc daemon_cluster_messages_test.cc daemon_config_test.cc
          daemon_consent_test.cc daemon_event_loop_test.cc daemon_formation_test.cc daemon_guarded_test.cc daemon_plan_switch_test.cc
          daemon_host_plan_test.cc
          daemon_inline_limits_test.cc daemon_log_test.cc daemon_membership_test.cc daemon_prediction_check_test.cc
          daemon_probe_test.cc daemon_rank_feed_test.cc
          daemon_recalibration_test.cc daemon_state_directory_test.cc daemon_stream_queue_test.cc
          daemon_job_activity_test.cc daemon_tenant_test.cc daemon_worker_places_test.cc
  LINKS harmonaize_daemon)
target_compile_definitions(daemon_test
                           PRIVATE FABRICS_FOLDER="${PROJECT_SOURCE_DIR}/perf/fabric/fabrics")
harmonaize_unit_test(daemon_no_memory_test SOURCES daemon_no_memory_test.cc replaced_new.cc
                     LINKS harmonaize_daemon)
harmonaize_unit_test(
  daemon_control_test
  SOURCES daemon_burst_turns_test.cc
          daemon_congestion_test.cc
          daemon_controller_test.cc
          daemon_link_prober_test.cc
          daemon_link_state_test.cc
          daemon_plan_review_test.cc
          daemon_rhythm_test.cc
          daemon_traffic_meter_test.cc
  LINKS harmonaize_daemon harmonaize_test_transport)
target_compile_definitions(daemon_control_test
                           PRIVATE FABRICS_FOLDER="${PROJECT_SOURCE_DIR}/perf/fabric/fabrics")

# How much work a controller has; without Google Benchmark it is left out.
find_package(benchmark QUIET)
if(benchmark_FOUND)
  add_executable(daemon_control_benchmark daemon_control_benchmark.cc)
  target_compile_options(daemon_control_benchmark PRIVATE $<$<CONFIG:RelWithDebInfo>:-O2>)
  target_link_libraries(daemon_control_benchmark PRIVATE harmonaize_daemon benchmark::benchmark)
  set_target_properties(daemon_control_benchmark PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                            "${PROJECT_BINARY_DIR}/tests")
endif()
