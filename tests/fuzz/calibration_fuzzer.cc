// What a daemon finds in its state directory: what an earlier one measured, or a broken disk left.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "daemon/host/calibration.h"
#include "src/base/json_text.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

std::string Written(const daemon::Calibration& calibration) {
  return JsonText(daemon::ToJson(calibration), 2);
}

void Run(std::string_view text) {
  const Result<daemon::Calibration> calibration = daemon::ParseCalibration(text);
  if (!calibration.ok()) return;
  Require(Plausible(calibration->costs), "costs that can be reckoned with");
  const Result<daemon::Calibration> again = daemon::ParseCalibration(Written(*calibration));
  RequireOk(again.status(), "a calibration can be read as it is written");
  Require(again->fingerprint == calibration->fingerprint, "it is of the same host");
  Require(Written(*again) == Written(*calibration), "and the same");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
