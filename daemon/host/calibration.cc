#include "daemon/host/calibration.h"

#include <errno.h>
#include <fmt/ranges.h>
#include <time.h>

#include <fstream>
#include <iterator>
#include <optional>

#include <nlohmann/json.hpp>

#include "daemon/config/state_directory.h"
#include "src/base/clock.h"
#include "src/base/json_text.h"
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

/// Returns the text of a file; nullopt if there is no file. A file that cannot be read counts as
/// empty, and so as damaged.
std::optional<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOENT) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Returns the fingerprint in a stored calibration; nullopt if there is none.
std::optional<Fingerprint> MadeOn(std::string_view text) {
  const json document = ReadJson(text);
  if (!document.is_object()) return std::nullopt;
  const json fingerprint = document.value("fingerprint", json());
  if (!fingerprint.is_object()) return std::nullopt;
  return FingerprintFrom(fingerprint);
}

/// Returns the stored calibration, if there is one that holds for this host and that no stranger
/// wrote.
std::optional<Calibration> Load(const std::string& folder, const Fingerprint& host) {
  const std::string path = folder + "/" + kCalibrationFile;
  if (!CheckStateFolder(folder).ok()) return std::nullopt;
  const std::optional<std::string> text = ReadFile(path);
  if (!text) return std::nullopt;
  // The fingerprint comes first, because other versions write other files, which are not damaged.
  if (const std::optional<Fingerprint> made_on = MadeOn(*text); made_on && *made_on != host) {
    Log(LogLevel::kInfo, kLogTuning,
        "{} was made on other hardware, or by another version: measuring this host anew", path);
    return std::nullopt;
  }
  Result<Calibration> stored = ParseCalibration(*text);
  if (!stored.ok()) {
    Log(LogLevel::kWarning, kLogTuning, "{} is damaged ({}): measuring this host anew", path,
        stored.status().message());
    return std::nullopt;
  }
  return std::move(*stored);
}

Status ParseCosts(const json& document, HostCosts* costs) {
  if (!document.is_object()) return InvalidArgument("it lacks 'costs'");
  for (const HostCostField& field : kHostCostFields) {
    const auto found = document.find(std::string(field.name));
    if (found == document.end() || !found->is_number()) {
      return InvalidArgument("it lacks the number '{}'", field.name);
    }
    costs->*field.value = found->get<double>();
    if (Plausible(field, costs->*field.value)) continue;
    return InvalidArgument("{} is {:.3g}, possible are {:.3g} to {:.3g}", field.name,
                           costs->*field.value, field.least, field.most);
  }
  return Status::Ok();
}

Status ParseEvidence(const json& document, CostEvidence* evidence) {
  const json load = document.value("load", json());
  const json doubts = document.value("doubts", json());
  const auto count = [&](const json& object, const char* key, int* value) {
    const json number = object.is_object() ? object.value(key, json()) : json();
    *value = number.is_number_unsigned() ? static_cast<int>(number.get<uint32_t>()) : -1;
    return *value >= 0;
  };
  const json lost = load.is_object() ? load.value("lost_fraction", json()) : json();
  if (!count(document, "rounds", &evidence->rounds) ||
      !count(document, "rounds_agreed", &evidence->agreed) ||
      !count(load, "running_threads", &evidence->load.running) || !lost.is_number() ||
      !doubts.is_array()) {
    return InvalidArgument("it does not say how the costs were measured");
  }
  evidence->load.lost = lost.get<double>();
  for (const json& doubt : doubts) {
    if (!doubt.is_string()) return InvalidArgument("a doubt is no text");
    evidence->doubts.push_back(doubt.get<std::string>());
  }
  // A file that says "unsure" is never taken for a sure one, whatever happened to its doubts.
  if (document.value("sure", json()) != evidence->sure()) {
    return InvalidArgument("'sure' and 'doubts' contradict each other");
  }
  return Status::Ok();
}

}  // namespace

json ToJson(const Calibration& calibration) {
  json costs = json::object();
  for (const HostCostField& field : kHostCostFields) {
    costs[std::string(field.name)] = calibration.costs.*field.value;
  }
  const CostEvidence& evidence = calibration.evidence;
  return {{"measured_at", calibration.measured_at},
          {"fingerprint", ToJson(calibration.fingerprint)},
          {"costs", std::move(costs)},
          {"sure", evidence.sure()},
          {"doubts", evidence.doubts},
          {"rounds", evidence.rounds},
          {"rounds_agreed", evidence.agreed},
          {"load",
           {{"heavy", evidence.load.heavy()},
            {"lost_fraction", evidence.load.lost},
            {"running_threads", evidence.load.running}}}};
}

Result<Calibration> ParseCalibration(std::string_view text) {
  const json document = ReadJson(text);
  if (!document.is_object()) return InvalidArgument("it is no JSON object");
  const json fingerprint = document.value("fingerprint", json());
  if (!fingerprint.is_object()) return InvalidArgument("it lacks 'fingerprint'");
  Calibration calibration;
  calibration.fingerprint = FingerprintFrom(fingerprint);
  HZ_RETURN_IF_ERROR(ParseCosts(document.value("costs", json()), &calibration.costs));
  HZ_RETURN_IF_ERROR(ParseEvidence(document, &calibration.evidence));
  const auto measured_at = document.find("measured_at");
  if (measured_at == document.end() || !measured_at->is_string()) {
    return InvalidArgument("it lacks the text 'measured_at'");
  }
  calibration.measured_at = measured_at->get<std::string>();
  return calibration;
}

Result<Calibration> MeasureNow(const Fingerprint& host, const Measurer& measure,
                               const GoOn& go_on) {
  const uint64_t start_ns = MonotonicNanoseconds();
  HZ_ASSIGN_OR_RETURN(MeasuredCosts measured, measure(go_on));
  Calibration calibration{.costs = measured.costs,
                          .evidence = std::move(measured.evidence),
                          .fingerprint = host,
                          .measured_at = Now()};
  Log(LogLevel::kInfo, kLogTuning, "measured this host in {} ms; {}",
      (MonotonicNanoseconds() - start_ns) / 1'000'000, DescribeEvidence(calibration.evidence));
  return calibration;
}

void KeepCalibration(const std::string& folder, const Calibration& calibration) {
  if (folder.empty()) return;
  const Status kept =
      ReplaceStateFile(folder, kCalibrationFile, JsonText(ToJson(calibration), 2) + "\n");
  if (kept.ok()) return;
  Log(LogLevel::kInfo, kLogTuning,
      "what was measured is not kept, and the next start will measure again: {}; state.path in the "
      "configuration names another folder",
      kept.message());
}

Result<Calibration> LoadOrMeasure(const std::string& folder, const Fingerprint& host,
                                  const Measurer& measure) {
  if (!folder.empty()) {
    if (std::optional<Calibration> stored = Load(folder, host)) {
      Log(LogLevel::kInfo, kLogTuning, "this host was measured {}; {}", stored->measured_at,
          DescribeEvidence(stored->evidence));
      return std::move(*stored);
    }
  }
  // The costs are needed now, whatever else runs.
  Result<Calibration> measured = MeasureNow(host, measure, [](const HostLoad&) { return true; });
  if (measured.ok()) KeepCalibration(folder, *measured);
  return measured;
}

std::string DescribeEvidence(const CostEvidence& evidence) {
  const std::string confidence =
      evidence.sure() ? fmt::format("sure: {} of {} rounds agree", evidence.agreed, evidence.rounds)
                      : fmt::format("unsure: {}", fmt::join(evidence.doubts, "; "));
  return fmt::format("{} (other programs had {:.0f}% of the time, with {} threads)", confidence,
                     100 * evidence.load.lost, evidence.load.running);
}

}  // namespace harmonaize::daemon
