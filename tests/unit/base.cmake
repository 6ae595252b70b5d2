add_executable(base_setting_probe base_setting_probe.cc)
target_link_libraries(base_setting_probe PRIVATE harmonaize_base)
set_target_properties(base_setting_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                    "${PROJECT_BINARY_DIR}/tests")
harmonaize_unit_test(
  base_test
  SOURCES base_test.cc base_clean_text_test.cc base_own_descriptor_test.cc base_settings_test.cc
          base_toml_defaults_test.cc base_user_numbers_test.cc base_wait_estimate_test.cc
  LINKS harmonaize_base)
target_compile_definitions(base_test
                           PRIVATE BASE_SETTING_PROBE="$<TARGET_FILE:base_setting_probe>")
add_dependencies(base_test base_setting_probe)
