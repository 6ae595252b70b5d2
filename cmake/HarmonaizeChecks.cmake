# Checks of the tree as a whole: the order of the layers, how tenants' side reads the environment,
# headers that stand alone, and an installation that others can build against.

find_package(Python3 COMPONENTS Interpreter REQUIRED)

# check_headers compiles each header by itself: whoever includes one needs nothing before it. A source
# of the same name does so too: it includes its header first (scripts/check-includes.py).
file(GLOB_RECURSE HARMONAIZE_HEADERS CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
     "${PROJECT_SOURCE_DIR}/src/*.h" "${PROJECT_SOURCE_DIR}/daemon/*.h"
     "${PROJECT_SOURCE_DIR}/cli/*.h" "${PROJECT_SOURCE_DIR}/shim/*.h"
     "${PROJECT_SOURCE_DIR}/writer/*.h"
     "${PROJECT_SOURCE_DIR}/perf/*.h" "${PROJECT_SOURCE_DIR}/include/*.h")
# Highway includes an -inl.h once for each target, from a source that says which.
list(FILTER HARMONAIZE_HEADERS EXCLUDE REGEX "-inl\\.h$")
set(HARMONAIZE_HEADER_SOURCES "")
foreach(header IN LISTS HARMONAIZE_HEADERS)
  cmake_path(REPLACE_EXTENSION header LAST_ONLY cc OUTPUT_VARIABLE own_source)
  if(EXISTS "${PROJECT_SOURCE_DIR}/${own_source}")
    continue()
  endif()
  set(source "${PROJECT_BINARY_DIR}/check_headers/${header}.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${header}\"\n")
  list(APPEND HARMONAIZE_HEADER_SOURCES "${source}")
endforeach()
add_library(check_headers OBJECT EXCLUDE_FROM_ALL ${HARMONAIZE_HEADER_SOURCES})
target_include_directories(check_headers PRIVATE "${PROJECT_SOURCE_DIR}"
                                                 "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(check_headers PRIVATE harmonaize_base tomlplusplus_headers)
set_target_properties(check_headers PROPERTIES UNITY_BUILD OFF)

if(HARMONAIZE_BUILD_TESTS)
  add_test(NAME check_includes_self_test
           COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/check-includes.py"
                   --self-test)
  add_test(NAME check_includes
           COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/check-includes.py")
  add_test(NAME check_docs_self_test
           COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/check-docs.py" --self-test)
  add_test(NAME check_docs
           COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/check-docs.py")
  add_test(NAME check_environment_self_test
           COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/check-environment.py"
                   --self-test)
  add_test(NAME check_environment
           COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/check-environment.py")
  add_test(NAME check_libc_self_test
           COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/check-libc.py" --self-test)
  # A consumer of a sanitizer build would have to be built with the sanitizer as well, and a sanitizer
  # wants a C library of its own time.
  if(NOT HARMONAIZE_SANITIZER)
    add_test(NAME check_libc
             COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/check-libc.py"
                     $<TARGET_FILE:harmonaize_nccl> $<TARGET_FILE:harmonaize_preload>
                     $<$<BOOL:$<TARGET_PROPERTY:harmonaize_writer,HARMONAIZE_SELF_CONTAINED>>:$<TARGET_FILE:harmonaize_writer>>
             COMMAND_EXPAND_LISTS)
    add_test(NAME install_test
             COMMAND "${PROJECT_SOURCE_DIR}/tests/install/run.sh" "${PROJECT_BINARY_DIR}")
    set_tests_properties(install_test PROPERTIES TIMEOUT 120)
  endif()
endif()
