#include "daemon/calibration.h"

#include <errno.h>
#include <time.h>

#include <fstream>
#include <iterator>
#include <optional>

#include <nlohmann/json.hpp>

#include "daemon/state_directory.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

std::string Now() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// nullopt where there is no file; one that cannot be read is an empty, and so a damaged one.
std::optional<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOENT) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The stored calibration, if there is one that holds for this host and no stranger wrote.
std::optional<Calibration> Load(const std::string& folder, const Fingerprint& host) {
  const std::string path = folder + "/" + kCalibrationFile;
  if (!CheckStateFolder(folder).ok()) return std::nullopt;
  const std::optional<std::string> text = ReadFile(path);
  if (!text) return std::nullopt;
  Result<Calibration> stored = ParseCalibration(*text);
  if (!stored.ok()) {
    Log(LogLevel::kWarning, kLogTuning, "{} is damaged ({}): measuring this host anew", path,
        stored.status().message());
    return std::nullopt;
  }
  if (stored->fingerprint != host) {
    Log(LogLevel::kInfo, kLogTuning,
        "{} was made on other hardware, or by another version: measuring this host anew", path);
    return std::nullopt;
  }
  return std::move(*stored);
}

}  // namespace

json ToJson(const Calibration& calibration) {
  json costs = json::object();
  for (const HostCostField& field : kHostCostFields) {
    costs[std::string(field.name)] = calibration.costs.*field.value;
  }
  return {{"measured_at", calibration.measured_at},
          {"fingerprint", ToJson(calibration.fingerprint)},
          {"costs", std::move(costs)}};
}

Result<Calibration> ParseCalibration(std::string_view text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return InvalidArgument("it is no JSON object");
  const json costs = document.value("costs", json());
  const json fingerprint = document.value("fingerprint", json());
  if (!costs.is_object() || !fingerprint.is_object()) {
    return InvalidArgument("it lacks 'costs' or 'fingerprint'");
  }
  Calibration calibration;
  for (const HostCostField& field : kHostCostFields) {
    const auto found = costs.find(std::string(field.name));
    if (found == costs.end() || !found->is_number()) {
      return InvalidArgument("it lacks the number '{}'", field.name);
    }
    calibration.costs.*field.value = found->get<double>();
  }
  if (!Plausible(calibration.costs)) return InvalidArgument("a cost is not above zero");
  calibration.fingerprint = FingerprintFrom(fingerprint);
  const auto measured_at = document.find("measured_at");
  if (measured_at == document.end() || !measured_at->is_string()) {
    return InvalidArgument("it lacks the text 'measured_at'");
  }
  calibration.measured_at = measured_at->get<std::string>();
  return calibration;
}

Result<Calibration> LoadOrMeasure(const std::string& folder, const Fingerprint& host,
                                  const std::function<Result<HostCosts>()>& measure) {
  if (!folder.empty()) {
    if (std::optional<Calibration> stored = Load(folder, host)) return std::move(*stored);
  }
  const uint64_t start_ns = MonotonicNanoseconds();
  const Result<HostCosts> costs = measure();
  if (!costs.ok()) return costs.status();
  Calibration calibration{.costs = *costs, .fingerprint = host, .measured_at = Now()};
  Log(LogLevel::kInfo, kLogTuning, "measured this host in {} ms",
      (MonotonicNanoseconds() - start_ns) / 1'000'000);
  if (folder.empty()) return calibration;
  const Status kept = ReplaceStateFile(
      folder, kCalibrationFile,
      ToJson(calibration).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  if (!kept.ok()) {
    Log(LogLevel::kInfo, kLogTuning,
        "what was measured is not kept, and the next start will measure again: {}; state.path in "
        "the configuration names another folder",
        kept.message());
  }
  return calibration;
}

}  // namespace harmonaize::daemon
