# A CUDA driver that knows one range of "device" memory, for machines without a GPU.
add_library(fake_cuda_driver SHARED client_fake_cuda_driver.c)
set_target_properties(
  fake_cuda_driver PROPERTIES OUTPUT_NAME cuda VERSION 1 SOVERSION 1 C_VISIBILITY_PRESET default
                              LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fake_cuda")
harmonaize_unit_test(client_device_memory_test SOURCES client_device_memory_test.cc
                     LINKS harmonaize_client)
target_compile_definitions(client_device_memory_test
                           PRIVATE FAKE_CUDA_DRIVER="$<TARGET_FILE:fake_cuda_driver>")
add_dependencies(client_device_memory_test fake_cuda_driver)

harmonaize_unit_test(client_region_pages_test SOURCES client_region_pages_test.cc
                     LINKS harmonaize_client harmonaize_test_pages)
# It takes all huge pages of the host for a moment.
set_tests_properties(client_region_pages_test PROPERTIES RUN_SERIAL TRUE)

harmonaize_unit_test(client_rendezvous_test SOURCES client_rendezvous_test.cc
                     LINKS harmonaize_client)

harmonaize_unit_test(client_slice_copy_test SOURCES client_slice_copy_test.cc
                     LINKS harmonaize_client)

harmonaize_unit_test(client_turns_test SOURCES client_turns_test.cc
                     LINKS harmonaize_client)
