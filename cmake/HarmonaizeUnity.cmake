# Builds that join sources (CMAKE_UNITY_BUILD in the presets) compile in half the time. Sources of one
# target then see each other's unnamed namespaces; those below have names there that a neighbour has too,
# and are compiled by themselves, whichever neighbours they get. The presets debug and alone join nothing:
# in the one a changed source is compiled soonest, and the other shows what lives on its neighbour's
# includes.

function(harmonaize_compile_alone target)
  if(TARGET ${target})
    get_target_property(folder ${target} SOURCE_DIR)
    list(TRANSFORM ARGN PREPEND "${folder}/")
    foreach(source IN LISTS ARGN)
      if(NOT EXISTS "${source}")
        message(FATAL_ERROR "cmake/HarmonaizeUnity.cmake names ${source}, and there is no such file")
      endif()
    endforeach()
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target}
                                PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Programs that use some of its objects and do not link NCCL take only these from the archive.
if(TARGET harmonaize_perf_harness)
  set_target_properties(harmonaize_perf_harness PROPERTIES UNITY_BUILD OFF)
endif()

# What replaces operator new must not be inlined into what calls it.
foreach(test executor_allocation_test shim_no_memory_test transport_allocation_test)
  harmonaize_compile_alone(${test} ../replaced_new.cc)
endforeach()

# Compilers spend much of their time on the templates that the sources of a unit share: GCC needs a fifth less of it
# for units of 36 sources than for units of 12. Without optimization it is most of clang's time, which therefore gets
# 80 of the daemon's sources at once. The daemon's messages are a unit of their own: their namespace daemon::fields
# would hide the fields of events.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(HARMONAIZE_DAEMON_UNIT 80)
else()
  set(HARMONAIZE_DAEMON_UNIT 40)
endif()
if(CMAKE_UNITY_BUILD)
  get_target_property(sources harmonaize_daemon SOURCES)
  set(place 0)
  foreach(source IN LISTS sources)
    set(group messages)
    if(NOT source MATCHES "^cluster/messages/")
      math(EXPR group "${place} / ${HARMONAIZE_DAEMON_UNIT}")
      math(EXPR place "${place} + 1")
    endif()
    set_source_files_properties("${PROJECT_SOURCE_DIR}/daemon/${source}" TARGET_DIRECTORY harmonaize_daemon
                                PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(harmonaize_daemon PROPERTIES UNITY_BUILD_MODE GROUP)
  set_target_properties(harmonaize_daemon_http PROPERTIES UNITY_BUILD_BATCH_SIZE 48)
  # The sources of these share names: each command has a List, a Show and a kDescription.
  set_target_properties(harmonaize_cli harmonaize_cli_tables harmonaize_client harmonaize_shim harmonaize_topology
                        harmonaize_transport PROPERTIES UNITY_BUILD_BATCH_SIZE 12)
endif()

# Each version of NCCL's plugins has functions of its own under the names of the others.
file(GLOB plugin_versions RELATIVE "${PROJECT_SOURCE_DIR}/plugins" "${PROJECT_SOURCE_DIR}/plugins/*/v[0-9]*.cc")
harmonaize_compile_alone(harmonaize_nccl_plugin_code ${plugin_versions})
harmonaize_compile_alone(harmonaize_schedule algorithms/forest.cc algorithms/halving_doubling.cc algorithms/packed_trees.cc)
harmonaize_compile_alone(harmonaize_client session/session.cc)
# Boost.Beast's templates take as long as all their neighbours.
harmonaize_compile_alone(harmonaize_daemon_sources sources/http_fetch.cc)
harmonaize_compile_alone(harmonaize_ipc http_client.cc)
harmonaize_compile_alone(harmonaize_daemon probing/probe_nics.cc probing/probe_work.cc sharing/controller.cc links/link_state.cc)
harmonaize_compile_alone(perf_loopback_nccl loopback_nccl.cc)
harmonaize_compile_alone(topology_test routing_test.cc)
harmonaize_compile_alone(memory_test shared_test.cc)
harmonaize_compile_alone(transport_test send_queue_test.cc sending_test.cc)
harmonaize_compile_alone(executor_test concurrency_test.cc cut_test.cc errors_test.cc tenants_test.cc)
harmonaize_compile_alone(one_host_tests wake_ups_test.cc)
harmonaize_compile_alone(fault_tests kill_test.cc)
harmonaize_compile_alone(several_hosts_tests plan_changes_test.cc)
harmonaize_compile_alone(daemon_control_test links/link_state_test.cc)
harmonaize_compile_alone(daemon_sources_test sources/cloud_stories_test.cc sources/hostile_servers_test.cc)
