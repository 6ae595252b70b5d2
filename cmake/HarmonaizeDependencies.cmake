# What the project is built from; scripts/install-dependencies.sh installs all of it on Debian.

find_package(Threads REQUIRED)
if(HARMONAIZE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
find_package(fmt 9 REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
# For what reads the counters of network cards (src/probing) alone.
pkg_check_modules(NETLINK REQUIRED IMPORTED_TARGET libnl-route-3.0)
# Boost.Graph, Asio and Beast through their headers alone.
find_package(Boost 1.74 REQUIRED)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
# For files of PyTorch, which are ZIP archives.
find_package(ZLIB REQUIRED)
# The same as archives, for what is brought into containers whose images may have neither.
find_library(CRYPTO_ARCHIVE libcrypto.a HINTS ${CRYPTO_LIBRARY_DIRS})
find_library(ZLIB_ARCHIVE libz.a)
# For the daemon's logs of events.
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
# For the daemon's HTTP server, and the sources that it polls.
pkg_check_modules(TLS REQUIRED IMPORTED_TARGET libssl libcrypto)
# For the text of the daemon's metrics: the data model and the serializer, without the HTTP server.
pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
# For publishing events; without it the daemon refuses to be told of servers.
pkg_check_modules(NATS IMPORTED_TARGET libnats>=3.4)
option(HARMONAIZE_WITH_NATS "Publish events by libnats" ${NATS_FOUND})
if(HARMONAIZE_WITH_NATS AND NOT NATS_FOUND)
  message(FATAL_ERROR "HARMONAIZE_WITH_NATS is on, and there is no libnats; install libnats-dev")
endif()
# UCX through its headers; the daemon loads the library when an RDMA rail needs it.
find_path(UCX_HEADERS ucp/api/ucp.h REQUIRED)
# Highway is used through its headers alone: what a tenant loads must not bring a shared libhwy.
find_path(HIGHWAY_INCLUDE_DIR hwy/highway.h REQUIRED)
# For checksums of checkpoints, through its header alone, for the same reason.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

# CUDA gives types to the public header and nothing else; no target links it.
set(HARMONAIZE_CUDA_INCLUDE_DIR "")
if(HARMONAIZE_WITH_CUDA)
  find_path(HARMONAIZE_CUDA_RUNTIME_H cuda_runtime.h
            HINTS ENV CUDA_HOME /usr/local/cuda /usr/local/cuda-13.0 PATH_SUFFIXES include)
  if(HARMONAIZE_CUDA_RUNTIME_H)
    set(HARMONAIZE_CUDA_INCLUDE_DIR "${HARMONAIZE_CUDA_RUNTIME_H}")
  endif()
  find_path(HARMONAIZE_NVIDIA_NCCL_H nccl.h HINTS ENV NCCL_HOME ENV CUDA_HOME /usr/local/cuda
            /usr/local/cuda-13.0 PATH_SUFFIXES include)
endif()
message(STATUS "CUDA headers: ${HARMONAIZE_CUDA_INCLUDE_DIR}; NVIDIA's nccl.h: ${HARMONAIZE_NVIDIA_NCCL_H}")

# toml++ through its headers alone, for the same reason.
add_library(tomlplusplus_headers INTERFACE)
target_compile_definitions(tomlplusplus_headers INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)
