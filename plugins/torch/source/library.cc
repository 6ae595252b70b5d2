#include "plugins/torch/source/library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace harmonaize_torch {
namespace {

// The preload library has all calls, and answers also when it is loaded beside NVIDIA's NCCL.
constexpr const char* kFileName = "libharmonaize-preload.so";

/// Returns the file of the library that is in the process already, as `harmonaize run` brings it,
/// or
/// "". Two copies in one process would be two sessions at the daemon.
std::string PreloadedFile() {
  void* const symbol = dlsym(RTLD_DEFAULT, "hzGetVersion");
  Dl_info found{};
  if (symbol == nullptr || dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return "";
  return found.dli_fname;
}

/// Returns the files to try, the likeliest first.
std::vector<std::string> Candidates() {
  std::vector<std::string> files;
  if (const std::string preloaded = PreloadedFile(); !preloaded.empty()) files.push_back(preloaded);
  if (const char* const home = secure_getenv("HARMONAIZE_HOME"); home != nullptr && *home != 0) {
    // What CMAKE_INSTALL_LIBDIR is on Debian, on other systems, and in a build folder.
    for (const char* const folder : {"/lib/x86_64-linux-gnu/", "/lib64/", "/lib/"}) {
      files.push_back(std::string(home) + folder + kFileName);
    }
  }
#ifdef HARMONAIZE_LIBRARY_FOLDER
  files.push_back(std::string(HARMONAIZE_LIBRARY_FOLDER) + "/" + kFileName);
#endif
  files.emplace_back(kFileName);
  return files;
}

}  // namespace

const Library& Library::Get() {
  static const Library library;
  return library;
}

Library::Library() {
  void* handle = nullptr;
  std::string tried;
  for (const std::string& file : Candidates()) {
    handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      path_ = file;
      break;
    }
    tried += tried.empty() ? file : ", " + file;
  }
  TORCH_CHECK(handle != nullptr, "Harmonaize's library cannot be loaded (tried: ", tried,
              "). Install Harmonaize, or set HARMONAIZE_HOME to the folder where it is installed.");
#define HARMONAIZE_TORCH_RESOLVE(name)                                                    \
  name = reinterpret_cast<decltype(name)>(dlsym(handle, #name));                          \
  TORCH_CHECK(name != nullptr, "Harmonaize's library ", path_, " has no function " #name, \
              ": it is older than the plugin. Install Harmonaize and the plugin together.");
  HARMONAIZE_TORCH_CALLS(HARMONAIZE_TORCH_RESOLVE)
#undef HARMONAIZE_TORCH_RESOLVE
}

}  // namespace harmonaize_torch
