# How every target of the project is compiled.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Libraries and programs alike, so that they can share a precompiled header.
add_compile_options(-fPIC)
# What a tenant loads shows nothing but its interface.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

# ccache takes precompiled headers for what they are only if it may overlook the macros and times in them. What
# a source depends on it takes from the compiler: otherwise it has each source that it does not know
# preprocessed first, which is a twentieth of a build.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_DEPEND=1 "${CCACHE_PROGRAM}")
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_DEPEND=1 "CCACHE_SLOPPINESS=pch_defines,time_macros" "${CCACHE_PROGRAM}")
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>)
endif()

# GCC looks for memory that it no longer needs whenever its heap has doubled from 128 MB, which takes up to a
# tenth of the time of a unit of joined sources. From 400 MB it needs a sixth more memory: up to 1 GB.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=400000>)

# A third of the usual linker's time, for each of more than a hundred programs in each build.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=mold HARMONAIZE_LINKER_MOLD)
if(HARMONAIZE_LINKER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wimplicit-fallthrough)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in std::string operator+ (its bug 105329).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(HARMONAIZE_WERROR)
  add_compile_options(-Werror)
endif()
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)

if(HARMONAIZE_SANITIZER)
  add_compile_options(-fsanitize=${HARMONAIZE_SANITIZER} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HARMONAIZE_SANITIZER})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # These two checks compare the types that libraries with hidden symbols keep each for themselves, and the
    # one of pointers to objects needs a runtime that C programs do not link.
    add_compile_options(-fno-sanitize=function,vptr)
    # Sources ask for GCC's macro, which clang 14 does not define.
    if(HARMONAIZE_SANITIZER MATCHES "address")
      add_compile_definitions(__SANITIZE_ADDRESS__=1)
    elseif(HARMONAIZE_SANITIZER MATCHES "thread")
      add_compile_definitions(__SANITIZE_THREAD__=1)
    endif()
  endif()
endif()

# The optimization of code for which nobody waits: tests, and the reading of command lines. GoogleTest's and
# CLI11's templates take the compiler a third longer to optimize than to compile. clang takes no precompiled header that was made with
# another optimization, so its presets choose one for all.
set(HARMONAIZE_QUICK_OPTIMIZATION "")
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(HARMONAIZE_QUICK_OPTIMIZATION -Og)
endif()

# harmonaize_without_pointer_checks(): what is compiled in this folder does not check every pointer before it
# is followed, which takes two fifths of the compiler's time in a build with the undefined behaviour sanitizer
# (a file of the daemon: 46 s with, 28 s without). src/ and shim/, which handle memory that strangers share,
# keep these checks. A null pointer ends a program anyway.
macro(harmonaize_without_pointer_checks)
  if(HARMONAIZE_SANITIZER MATCHES "undefined")
    add_compile_options(-fno-sanitize=null,alignment,object-size,vptr)
  endif()
endmacro()

if(HARMONAIZE_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "fuzz tests need clang, which brings libFuzzer; the presets fuzz and asan choose it")
  endif()
endif()
