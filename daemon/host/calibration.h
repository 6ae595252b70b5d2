#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "daemon/host/fingerprint.h"
#include "src/base/status.h"
#include "src/planner/cost_rounds.h"

namespace harmonaize::daemon {

/// What this host was measured to cost, when, and how far that can be trusted.
struct Calibration {
  HostCosts costs = {};
  CostEvidence evidence = {};
  Fingerprint fingerprint = {};
  std::string measured_at = {};  ///< "2026-02-03T04:05:06Z".

  bool sure() const { return evidence.sure(); }
};

/// The file's name in the state directory.
inline constexpr char kCalibrationFile[] = "calibration.json";

/// How a host is measured: MeasureHost, but for tests.
using Measurer = std::function<Result<MeasuredCosts>(const GoOn& go_on)>;

nlohmann::json ToJson(const Calibration& calibration);
/// Errors: kInvalidArgument, with what is wrong, if this is no calibration that ToJson wrote, or
/// one with a cost that no host has.
Result<Calibration> ParseCalibration(std::string_view text);

/// Measures, and notes when and on which host.
Result<Calibration> MeasureNow(const Fingerprint& host, const Measurer& measure, const GoOn& go_on);

/// Writes the calibration to the file in `folder`, which may be "", for no folder. A failure is
/// logged, and no error: the next start measures again.
void KeepCalibration(const std::string& folder, const Calibration& calibration);

/// Returns what the file in `folder` holds, if it was made on this host by this version, sure or
/// not. Otherwise measures, and keeps the result. `folder` may be "", for no folder. Whatever goes
/// wrong with the file is logged, and no error. Errors are those of `measure`.
Result<Calibration> LoadOrMeasure(const std::string& folder, const Fingerprint& host,
                                  const Measurer& measure);

/// "sure: 3 of 3 rounds agree", or "unsure: " and the doubts; with the load meanwhile.
std::string DescribeEvidence(const CostEvidence& evidence);

}  // namespace harmonaize::daemon
