#include "shim/stock_library.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "shim/cuda_context.h"
#include "shim/loader.h"
#include "src/base/log.h"
#include "src/base/settings.h"

namespace harmonaize::shim {
namespace {

constexpr const char* kFileName = "/libnccl.so.2";

void AddLoadersPath(std::vector<std::string>* files) {
  const char* const path = secure_getenv("LD_LIBRARY_PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const size_t end = rest.find_first_of(":;");
    const std::string_view directory = rest.substr(0, end);
    if (!directory.empty()) files->push_back(std::string(directory) + kFileName);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
}

int AddPackageFolder(dl_phdr_info* library, size_t /*size*/, void* to) {
  auto& folders = *static_cast<std::vector<std::string>*>(to);
  const std::string_view folder = PackageFolderOf(library->dlpi_name);
  if (folder.empty()) return 0;
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
    folders.emplace_back(folder);
  }
  return 0;
}

void AddPythonEnvironments(std::vector<std::string>* files) {
  // Who starts a setuid program must not choose what it loads.
  if (getauxval(AT_SECURE) != 0) return;
  std::vector<std::string> folders;
  dl_iterate_phdr(&AddPackageFolder, &folders);
  for (const std::string& folder : folders)
    files->push_back(folder + "/nvidia/nccl/lib" + kFileName);
}

// Local, so that its symbols do not replace ours for libraries that are loaded later. Deep, because
// stock NCCL calls functions of its own interface by name, and would get ours.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers end a program that asks for RTLD_DEEPBIND.
constexpr int kOpenMode = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kOpenMode = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

/// Opens `file` unless it is one of our own libraries, under any name.
Result<void*> OpenUnlessOurs(const std::string& file) {
  // Bypasses a dlopen of our own, which would return this library.
  void* library = LoadersDlopen()(file.c_str(), kOpenMode);
  if (library == nullptr) return SystemError("{}", dlerror());
  if (dlsym(library, "hzGetVersion") != nullptr) {
    dlclose(library);
    return InvalidUsage("{} is Harmonaize itself", file);
  }
  if (dlsym(library, "ncclCommInitRank") == nullptr) {
    dlclose(library);
    return InvalidUsage("{} is not NCCL", file);
  }
  return library;
}

Result<void*> OpenStock() {
  std::string reasons;
  for (const std::string& file : StockCandidates()) {
    const Result<void*> library = OpenUnlessOurs(file);
    if (library.ok()) {
      Log(LogLevel::kInfo, kLogInit, "stock NCCL is {}", file);
      return *library;
    }
    reasons += (reasons.empty() ? "" : "; ") + library.status().message();
  }
  return Unavailable("stock NCCL was not found: {}", reasons);
}

}  // namespace

std::string_view PackageFolderOf(std::string_view path) {
  for (const std::string_view name : {"/site-packages/", "/dist-packages/"}) {
    const size_t place = path.find(name);
    if (place != std::string_view::npos) return path.substr(0, place + name.size() - 1);
  }
  return "";
}

std::vector<std::string> StockCandidates() {
  const char* const named = Setting("HARMONAIZE_NCCL_LIBRARY");
  if (named != nullptr && *named != '\0') return {std::string(named)};
  std::vector<std::string> files;
  AddLoadersPath(&files);
  AddPythonEnvironments(&files);
  for (const char* directory :
       {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64", "/usr/lib", "/usr/local/lib"}) {
    files.push_back(std::string(directory) + kFileName);
  }
  return files;
}

const Result<void*>& StockLibrary() {
  // Never destroyed: threads may call NCCL while the process ends.
  static const auto* const library = new Result<void*>(OpenStock());
  return *library;
}

bool StockCouldCarry() {
  if (!CudaContext::OfThisThread().usable()) return false;
  const Result<void*>& library = StockLibrary();
  static std::once_flag told;
  if (!library.ok()) {
    std::call_once(told, [&] {
      Log(LogLevel::kWarning, kLogInit, "the process uses a GPU, but {}",
          library.status().message());
    });
  }
  return library.ok();
}

}  // namespace harmonaize::shim
