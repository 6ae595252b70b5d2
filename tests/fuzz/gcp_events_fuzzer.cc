// What GCP's metadata server, or who answers in its place, says of maintenance and preemption, poll
// by poll: two values each. Each value is also read as a date of every form.

#include <cstdint>

#include "daemon/sources/cloud_dates.h"
#include "daemon/sources/gcp_events.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/notice_checks.h"

namespace harmonaize::fuzz {
namespace {

void CheckDates(const std::string& text) {
  constexpr int64_t kEndOf9999 = 253'402'300'799;
  for (const auto& seconds : {daemon::ParseRfc1123Date(text), daemon::ParseIso8601Date(text),
                              daemon::ParseAwsMaintenanceDate(text)}) {
    Require(seconds.value_or(0) >= 0 && seconds.value_or(0) <= kEndOf9999, "a date is in range");
  }
}

void Take(const Result<daemon::PublishedNotices>& published, NoticeChecks* checks) {
  RequireClean(published.status().message(), "an error can be logged");
  if (published.ok()) checks->Take(*published);
}

void Run(std::string_view text) {
  NoticeChecks maintenance;
  NoticeChecks preempted;
  bool is_preempted = false;
  for (const std::string& value : DocumentsOf(text)) {
    CheckDates(value);
    if (is_preempted) {
      Take(daemon::ReadGcpPreempted(value), &preempted);
    } else {
      Take(daemon::ReadGcpMaintenance(value), &maintenance);
    }
    is_preempted = !is_preempted;
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
