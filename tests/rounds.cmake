# What CI runs of each build. release runs every test. The other builds run the tests below, which find
# there what release cannot find: scripts/test.sh builds the target `round` and runs the tests that
# round.txt in the build folder names. scripts/test.sh --all builds and runs everything everywhere.

# Address and undefined behaviour: parsers of foreign bytes, memory, protocols, and real processes that fail or
# are attacked. Not here, although they run the daemon: what counts or times (rest_test, wake_ups_test,
# inline_steering_test, worker_placement_test), since its paths are those of collectives_test and
# streams_test; tests of commands, which one thread carries out: cli_document_fuzzer gives their tables foreign
# documents; and service_test and squatter_test, which need commands: what they add to front_door_test, hosts_test and
# ipc_test is a matter of rights and users, not of memory, and all commands take over a minute of processors to
# compile.
set(HARMONAIZE_ROUND_ASAN
    base_test topology_files_test ipc_test memory_test probing_counters_test checkpoint_test store_test writer_test
    client_device_memory_test client_prepared_memory_test client_region_pages_test client_rendezvous_test
    shim_config_test shim_debug_log_test shim_face_test shim_fallback_test shim_live_test
    shim_no_memory_test shim_version_test
    executor_test executor_allocation_test
    transport_test transport_allocation_test transport_links_test transport_messages_test
    transport_strangers_test transport_fault_test transport_cut_ways_test
    daemon_test daemon_threads_test daemon_no_memory_test daemon_control_test daemon_nats_test daemon_sources_test
    daemon_transfer_test daemon_provider_store_test checkpoints_test provider_store_test hosts_checkpoints_test
    aborts_test closed_descriptors_test collectives_test communicators_test errors_test hosts_test
    hosts_communicators_test
    hosts_failures_test huge_pages_test jobs_test many_operations_test plan_changes_test
    random_operations_test streams_test windows_test
    elastic_test front_door_test hostile_client_test hostile_test huge_page_holes_test hosts_kill_test nccl_profiler_test profile_ring_test
    kill_test log_test missing_pages_test nccl_net_test nccl_tuner_test)

# Threads: whatever has more than one, and shares memory between them. Not here: what does all of its work on one
# thread (daemon_test, daemon_control_test, cli_dashboard_test; of the transport, whose one other thread lets
# strangers in, all but links and strangers); log_test, whose writer daemon_threads_test has; and
# calibration_test, whose threads daemon_threads_test and planner_test have.
set(HARMONAIZE_ROUND_TSAN
    client_device_memory_test client_prepared_memory_test client_region_pages_test client_rendezvous_test
    executor_test
    transport_links_test transport_strangers_test
    daemon_threads_test daemon_nats_test daemon_sources_test daemon_transfer_test daemon_provider_store_test hosts_checkpoints_test
    planner_test front_door_test
    aborts_test collectives_test hosts_test many_operations_test random_operations_test streams_test
    elastic_test hosts_kill_test missing_pages_test nccl_net_test nccl_profiler_events_test nccl_profiler_test nccl_tuner_test profile_ring_test)

# Of which CUDA's headers make other programs: the examples, and the binary interface of the headers; and an
# installation, which others build against. All others are compiled by the commands that release has for them.
set(HARMONAIZE_ROUND_NO_CUDA
    example_all_gather example_all_reduce example_alltoall example_broadcast example_gather
    example_host_stream example_premulsum example_reduce example_reduce_scatter example_scatter
    example_send_recv example_split_communicator example_single_process_threads
    example_single_thread_group
    shim_abi_test install_test)

if(HARMONAIZE_SANITIZER MATCHES "address")
  set(HARMONAIZE_ROUND ${HARMONAIZE_ROUND_ASAN})
elseif(HARMONAIZE_SANITIZER MATCHES "thread")
  set(HARMONAIZE_ROUND ${HARMONAIZE_ROUND_TSAN})
elseif(NOT HARMONAIZE_WITH_CUDA)
  set(HARMONAIZE_ROUND ${HARMONAIZE_ROUND_NO_CUDA})
endif()

if(NOT HARMONAIZE_ROUND)
  return()
endif()

set(known "")
get_property(unit_folders DIRECTORY "${PROJECT_SOURCE_DIR}/tests/unit" PROPERTY SUBDIRECTORIES)
list(TRANSFORM unit_folders REPLACE "^${PROJECT_SOURCE_DIR}/" "")
foreach(folder tests ${unit_folders} tests/integration tests/fault tests/hostile .)
  get_property(tests DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}" PROPERTY TESTS)
  list(APPEND known ${tests})
endforeach()

# What tests need that no program of their name brings along.
add_custom_target(round)
add_dependencies(round harmonaized harmonaize_nccl harmonaize_writer)
# Of the sanitizers' rounds nothing runs commands.
if(NOT HARMONAIZE_SANITIZER)
  add_dependencies(round harmonaize harmonaize_manual harmonaize_nccl_plugins harmonaize_preload)
endif()
set(programs_of_topology_files_test topology_test)
set(programs_of_shim_preload_test shim_preload_probe)
foreach(test IN LISTS HARMONAIZE_ROUND)
  if(NOT test IN_LIST known)
    message(FATAL_ERROR "tests/rounds.cmake names ${test}, and there is no such test")
  endif()
  get_property(program_of_entry GLOBAL PROPERTY HARMONAIZE_PROGRAM_OF_${test})
  foreach(program ${test} ${programs_of_${test}} ${program_of_entry})
    if(TARGET ${program})
      add_dependencies(round ${program})
    endif()
  endforeach()
endforeach()
# scripts/test.sh runs them by their label.
if(TARGET fuzzers)
  add_dependencies(round fuzzers)
endif()
list(JOIN HARMONAIZE_ROUND "|" names)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/round.txt" CONTENT "^(${names})$\n")
