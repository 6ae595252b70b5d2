// Fabric files: an operator's, and what another daemon sends of its own.

#include <cstdint>
#include <string>

#include "src/planner/fabric_model.h"
#include "src/topology/fabric/fabric_file.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

/// Beyond this a model of the fabric takes longer than its text is worth.
constexpr size_t kMostModelledNodes = 64;

void Run(std::string_view text) {
  const Result<FabricFile> file = ParseFabricFile(text, "fuzz.toml");
  if (!file.ok()) return RequireClean(file.status().message(), "a clean error");
  RequireOk(ValidateFabric(file->fabric), "a fabric that was read is valid");
  const std::string written = FormatFabricFile(*file);
  const Result<FabricFile> again = ParseFabricFile(written, "again.toml");
  RequireOk(again.status(), "a fabric can be read as it is written");
  Require(FormatFabricFile(*again) == written, "a fabric is the same when it is written again");
  if (file->fabric.nodes.size() > kMostModelledNodes) return;
  const FabricModel model(file->fabric);
  Require(model.hosts() == static_cast<int>(file->fabric.Hosts().size()), "all its hosts");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
