// What AWS' metadata service, or who answers in its place, says of spot actions, rebalancing and
// maintenance, poll by poll: four documents each, of which an empty one is none.

#include <cstdint>

#include "daemon/sources/aws_events.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/notice_checks.h"

namespace harmonaize::fuzz {
namespace {

void Run(std::string_view text) {
  NoticeChecks checks;
  const std::vector<std::string> documents = DocumentsOf(text);
  const auto document = [&](size_t place) -> std::optional<std::string> {
    if (place >= documents.size() || documents[place].empty()) return std::nullopt;
    return documents[place];
  };
  for (size_t place = 0; place < documents.size(); place += 4) {
    checks.Take(daemon::ReadAwsEvents({.spot_action = document(place),
                                       .rebalance = document(place + 1),
                                       .scheduled = document(place + 2),
                                       .history = document(place + 3)}));
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
