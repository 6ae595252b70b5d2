// What Azure's metadata service, or who answers in its place, says of scheduled events, poll by
// poll.

#include <cstdint>

#include "daemon/sources/azure_events.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/notice_checks.h"

namespace harmonaize::fuzz {
namespace {

void Run(std::string_view text) {
  NoticeChecks checks;
  for (const std::string& document : DocumentsOf(text)) {
    const Result<daemon::PublishedNotices> published = daemon::ReadAzureEvents(document, "vm-1");
    RequireClean(published.status().message(), "an error can be logged");
    if (published.ok()) checks.Take(*published);
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
