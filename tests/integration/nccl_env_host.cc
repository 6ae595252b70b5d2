// Stands in for a program that uses stock NCCL, for users who run it:
//
//     nccl_env_host PLUGIN NAME...    loads the plugin as NCCL does, and prints what it gives
//     nccl_env_host --stock LIBRARY   has stock NCCL make a unique id, and prints whose address it
//                                     holds: "VERSION ADDRESS"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "plugins/nccl-abi/env.h"

namespace {

using harmonaize::nccl_abi::EnvV2;

void* Open(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  return library;
}

int Ask(const char* path, char** names) {
  void* const library = Open(path);
  const auto* const plugin =
      library == nullptr ? nullptr : static_cast<EnvV2*>(dlsym(library, "ncclEnvPlugin_v2"));
  if (plugin == nullptr || plugin->init(2, 30, 7, "", nullptr) != ncclSuccess) return 1;
  for (; *names != nullptr; ++names) {
    const char* const value = plugin->get_env(*names);
    std::printf("%s%s%s\n", *names, value == nullptr ? " is not set" : "=",
                value == nullptr ? "" : value);
  }
  plugin->finalize();
  return 0;
}

/// What NCCL's unique id begins with: 8 secret bytes, and where rank 0 listens.
int RunStock(const char* path) {
  void* const library = Open(path);
  if (library == nullptr) return 1;
  const auto get_version =
      reinterpret_cast<decltype(&ncclGetVersion)>(dlsym(library, "ncclGetVersion"));
  const auto get_id =
      reinterpret_cast<decltype(&ncclGetUniqueId)>(dlsym(library, "ncclGetUniqueId"));
  int version = 0;
  ncclUniqueId id;
  if (get_version == nullptr || get_version(&version) != ncclSuccess) return 1;
  if (get_id == nullptr || get_id(&id) != ncclSuccess) return 1;
  sockaddr_storage address{};
  std::memcpy(&address, id.internal + sizeof(uint64_t), sizeof(sockaddr_in6));
  char text[INET6_ADDRSTRLEN] = "none";
  const void* host = &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr;
  if (address.ss_family == AF_INET6) {
    host = &reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
  }
  inet_ntop(address.ss_family, host, text, sizeof text);
  std::printf("%d %s\n", version, text);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--stock") == 0) return RunStock(argv[2]);
  if (argc < 2) return 2;
  return Ask(argv[1], argv + 2);
}
