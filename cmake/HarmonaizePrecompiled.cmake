# Most of what the compiler reads is the standard library, and most of the rest of what a test reads is
# GoogleTest. Both are compiled once a build: one precompiled header for all libraries and programs,
# one more with GoogleTest for what links that. Nothing of the project's own is in them, so that they
# stay when it changes; check_headers goes without, so that a header that lacks an include is noticed.

option(HARMONAIZE_PRECOMPILE "Precompile the standard library's headers" ON)
if(NOT HARMONAIZE_PRECOMPILE)
  return()
endif()

set(headers
    <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <deque> <functional> <map> <memory> <mutex>
    <optional> <set> <span> <string> <string_view> <thread> <tuple> <utility> <variant> <vector>)

# harmonaize_precompiled_header(NAME HEADERS headers... LINKS libraries...): nobody can use it who does
# not link those libraries too, since they bring definitions.
function(harmonaize_precompiled_header name)
  cmake_parse_arguments(PRECOMPILED "" "" "HEADERS;LINKS" ${ARGN})
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled/${name}.cc" CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/precompiled/${name}.cc")
  target_link_libraries(${name} PRIVATE ${PRECOMPILED_LINKS})
  target_precompile_headers(${name} PRIVATE ${PRECOMPILED_HEADERS})
endfunction()

harmonaize_precompiled_header(harmonaize_precompiled HEADERS ${headers} <fmt/core.h> LINKS Threads::Threads)
if(HARMONAIZE_BUILD_TESTS)
  harmonaize_precompiled_header(harmonaize_precompiled_tests HEADERS ${headers} <fmt/core.h> <gtest/gtest.h>
                                LINKS Threads::Threads GTest::gtest)
endif()

# Every target below a folder that is all C++. CMake would want a header for C as well. clang takes no header
# that was made with another visibility, which stand-ins for foreign libraries have.
function(harmonaize_precompile_below folder header)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(sources ${target} SOURCES)
    get_target_property(visibility ${target} CXX_VISIBILITY_PRESET)
    if(type MATCHES "EXECUTABLE|LIBRARY$" AND NOT type STREQUAL "INTERFACE_LIBRARY"
       AND sources MATCHES "\\.cc" AND NOT sources MATCHES "\\.c(;|$)" AND NOT visibility STREQUAL "default")
      target_precompile_headers(${target} REUSE_FROM ${header})
    endif()
  endforeach()
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    harmonaize_precompile_below("${below}" ${header})
  endforeach()
endfunction()

set(folders src shim plugins daemon cli writer)
if(HARMONAIZE_BUILD_PERF)
  list(APPEND folders perf)
endif()
if(HARMONAIZE_BUILD_FUZZERS)
  list(APPEND folders tests/fuzz)
endif()
foreach(folder IN LISTS folders)
  harmonaize_precompile_below("${PROJECT_SOURCE_DIR}/${folder}" harmonaize_precompiled)
endforeach()
if(HARMONAIZE_BUILD_TESTS)
  harmonaize_precompile_below("${PROJECT_SOURCE_DIR}/tests" harmonaize_precompiled_tests)
endif()
