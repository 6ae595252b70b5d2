// What a daemon finds in its state directory: what tenants used of an earlier one, or what a broken
// disk left of it.

#include <cstdint>
#include <string>

#include "daemon/metrics/usage_ledger.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

void Run(std::string_view text) {
  const Result<std::vector<daemon::TenantUsage>> usage = daemon::ParseUsageFile(text);
  if (!usage.ok()) return;
  for (const daemon::TenantUsage& one : *usage) {
    Require(one.since_seconds >= 0, "a time since 1970");
    Require(!one.here, "nobody of an earlier daemon's is here");
  }
  const std::string written = daemon::FormatUsageFile(*usage);
  const Result<std::vector<daemon::TenantUsage>> again = daemon::ParseUsageFile(written);
  RequireOk(again.status(), "usage can be read as it is written");
  Require(again->size() == usage->size(), "it is of as many tenants");
  Require(daemon::FormatUsageFile(*again) == written, "and the same");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
