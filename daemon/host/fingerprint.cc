#include "daemon/host/fingerprint.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "daemon/version.h"
#include "src/topology/host/host.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Version of what a calibration measures. A stored calibration of another version is measured
/// anew. Version 3 says how the costs were measured, and under what load; before, a busy host could
/// not be told from a slow one.
constexpr int kCostsVersion = 3;

/// Returns the processor's model, such as "AMD EPYC 9654 96-Core Processor", or the machine's
/// architecture if the kernel names no model.
std::string ProcessorModel(const utsname& system) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return system.machine;
}

std::string TextAt(const json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

uint64_t NumberAt(const json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

}  // namespace

Fingerprint FingerprintOfHost() {
  constexpr uint64_t kGibibyte = uint64_t{1} << 30;
  utsname system{};
  uname(&system);
  const Host& host = ThisHost();
  const auto memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return {.processor = ProcessorModel(system),
          .processors = host.processors.size(),
          .cache_bytes = host.core_cache_bytes,
          .last_level_bytes = host.last_level_cache_bytes,
          .memory_gib = (memory + kGibibyte / 2) / kGibibyte,
          .kernel = system.release,
          .version = fmt::format("{}, costs {}", kVersion, kCostsVersion)};
}

json ToJson(const Fingerprint& fingerprint) {
  return {
      {"processor", fingerprint.processor},     {"processors", fingerprint.processors},
      {"cache_bytes", fingerprint.cache_bytes}, {"last_level_bytes", fingerprint.last_level_bytes},
      {"memory_gib", fingerprint.memory_gib},   {"kernel", fingerprint.kernel},
      {"version", fingerprint.version}};
}

Fingerprint FingerprintFrom(const json& document) {
  return {.processor = TextAt(document, "processor"),
          .processors = NumberAt(document, "processors"),
          .cache_bytes = NumberAt(document, "cache_bytes"),
          .last_level_bytes = NumberAt(document, "last_level_bytes"),
          .memory_gib = NumberAt(document, "memory_gib"),
          .kernel = TextAt(document, "kernel"),
          .version = TextAt(document, "version")};
}

}  // namespace harmonaize::daemon
