// What a probe has measured, as a daemon or a file says, and the fabric that is inferred from it.

#include <cstdint>
#include <string>

#include "src/topology/fabric/fabric_file.h"
#include "src/topology/inference/inference.h"
#include "src/topology/inference/measurements.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

/// Inference of more takes longer than an input is worth.
constexpr size_t kMostHosts = 8;

void Infer(const Measurements& measurements) {
  static_cast<void>(NextProbes(measurements));
  const Result<InferredFabric> inferred = InferFabric(measurements, "inferred");
  if (!inferred.ok()) return RequireClean(inferred.status().message(), "a clean error");
  Require(inferred->confidence >= 0 && inferred->confidence <= 1, "a confidence of 0 to 1");
  RequireOk(ValidateFabric(inferred->fabric), "an inferred fabric is valid");
  const std::string written = FormatFabricFile({inferred->fabric, {}});
  RequireOk(ParseFabricFile(written, "inferred.toml").status(), "and can be written and read");
}

void Run(std::string_view text) {
  const Result<Measurements> measurements = ParseMeasurements(text, "fuzz.json");
  if (!measurements.ok()) return RequireClean(measurements.status().message(), "a clean error");
  RequireOk(ValidateMeasurements(*measurements), "what was read is valid");
  const std::string written = FormatMeasurements(*measurements);
  const Result<Measurements> again = ParseMeasurements(written, "again.json");
  RequireOk(again.status(), "measurements can be read as they are written");
  Require(FormatMeasurements(*again) == written, "and are the same then");
  if (measurements->hosts.size() <= kMostHosts) Infer(*measurements);
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
