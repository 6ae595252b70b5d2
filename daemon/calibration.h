#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "daemon/fingerprint.h"
#include "src/base/status.h"
#include "src/planner/host_costs.h"

namespace harmonaize::daemon {

/// What this host was measured to cost, and when.
struct Calibration {
  HostCosts costs;
  Fingerprint fingerprint;
  std::string measured_at;  ///< "2026-02-03T04:05:06Z".
};

/// The file's name in the state directory.
inline constexpr char kCalibrationFile[] = "calibration.json";

nlohmann::json ToJson(const Calibration& calibration);
/// kInvalidArgument, with what is wrong, when this is no calibration that ToJson wrote.
Result<Calibration> ParseCalibration(std::string_view text);

/// What `folder` holds, if it was made on this very host by this version; otherwise what `measure`
/// finds out, which is then kept there for the next time. `folder` may be "", for no folder.
/// Whatever goes wrong with the file is logged, and no error: `measure` fails, or nothing does.
Result<Calibration> LoadOrMeasure(const std::string& folder, const Fingerprint& host,
                                  const std::function<Result<HostCosts>()>& measure);

}  // namespace harmonaize::daemon
