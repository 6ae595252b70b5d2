#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "daemon/host/fingerprint.h"
#include "src/base/status.h"
#include "src/planner/cost_rounds.h"

namespace harmonaize::daemon {

/// The measured costs of this host, when they were measured, and how far they can be trusted.
struct Calibration {
  HostCosts costs = {};
  CostEvidence evidence = {};
  Fingerprint fingerprint = {};
  std::string measured_at = {};  ///< "2026-02-03T04:05:06Z".

  bool sure() const { return evidence.sure(); }
};

/// The file's name in the state directory.
inline constexpr char kCalibrationFile[] = "calibration.json";

/// Measures a host: MeasureHost, except in tests.
using Measurer = std::function<Result<MeasuredCosts>(const GoOn& go_on)>;

nlohmann::json ToJson(const Calibration& calibration);
/// Parses a calibration. Returns kInvalidArgument, with what is wrong, if the text is no
/// calibration that ToJson wrote, or has a cost that no host has.
Result<Calibration> ParseCalibration(std::string_view text);

/// Measures a host, and notes when, and which host it was.
Result<Calibration> MeasureNow(const Fingerprint& host, const Measurer& measure, const GoOn& go_on);

/// Writes the calibration to the file in `folder`, which may be "", for no folder. A failure is
/// logged and is no error: the next start measures again.
void KeepCalibration(const std::string& folder, const Calibration& calibration);

/// Returns the calibration in the file in `folder`, sure or not, if it was made on this host by
/// this version. Otherwise measures, and keeps the result. `folder` may be "", for no folder.
/// Problems with the file are logged and are no error. Returns the errors of `measure`.
Result<Calibration> LoadOrMeasure(const std::string& folder, const Fingerprint& host,
                                  const Measurer& measure);

/// Returns "sure: 3 of 3 rounds agree", or "unsure: " and the doubts, with the load meanwhile.
std::string DescribeEvidence(const CostEvidence& evidence);

}  // namespace harmonaize::daemon
