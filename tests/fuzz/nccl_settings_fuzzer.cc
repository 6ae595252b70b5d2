// What the env plugin takes from a daemon's answer: settings that a program's NCCL then goes by.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/ipc/nccl_settings.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

void Run(std::string_view text) {
  const Result<std::vector<NcclSetting>> settings = DecodeNcclSettings(text);
  if (!settings.ok()) return;
  Require(settings->size() <= kMostNcclSettings, "there are no more than there may be");
  for (const NcclSetting& setting : *settings) {
    RequireOk(CheckNcclSetting(setting), "a provider may set it");
    Require(
        std::count_if(settings->begin(), settings->end(),
                      [&](const NcclSetting& other) { return other.name == setting.name; }) == 1,
        "each name comes once");
  }
  const Result<std::vector<NcclSetting>> again = DecodeNcclSettings(EncodeNcclSettings(*settings));
  RequireOk(again.status(), "settings can be read as they are written");
  Require(*again == *settings, "and are the same");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
