harmonaize_unit_test(
  cli_test
  SOURCES cli_environment_test.cc
          cli_communicator_table_test.cc cli_explain_table_test.cc
          cli_launched.cc
          cli_line_assembler_test.cc
          cli_link_table_test.cc
          cli_output_queue_test.cc
          cli_plan_test.cc
          cli_private_daemon_test.cc
          cli_run_end_test.cc
          cli_run_output_test.cc
          cli_run_test.cc
          cli_status_table_test.cc cli_top_view_test.cc
  LINKS harmonaize_cli nlohmann_json::nlohmann_json)
target_compile_definitions(
  cli_test PRIVATE HARMONAIZE_PROGRAM="$<TARGET_FILE:harmonaize>"
                   FABRICS_FOLDER="${PROJECT_SOURCE_DIR}/perf/fabric/fabrics")
add_dependencies(cli_test harmonaize)

harmonaize_unit_test(cli_daemon_test SOURCES cli_daemon_test.cc cli_launched.cc
                     LINKS harmonaize_cli)
target_compile_definitions(cli_daemon_test PRIVATE HARMONAIZE_PROGRAM="$<TARGET_FILE:harmonaize>")
add_dependencies(cli_daemon_test harmonaize harmonaized)
