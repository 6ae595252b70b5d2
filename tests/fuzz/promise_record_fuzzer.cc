// What a daemon finds in its state directory of promises, announcements and answers: an earlier
// daemon's, or what a broken disk left of them. The first line of the input is the record's key.

#include <cmath>
#include <cstdint>
#include <string>

#include "daemon/promises/promise.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

void Run(std::string_view text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string key(text.substr(0, end));
  const std::string object(text.substr(std::min(end + 1, text.size())));
  if (const auto promise = daemon::PromiseIn({daemon::kPromiseRecord, key, object})) {
    Require(std::isfinite(promise->promised_from_seconds), "a time");
    const auto again = daemon::PromiseIn(daemon::RecordOf(*promise));
    Require(again.has_value() && again->number == promise->number, "it is read as written");
  }
  if (const auto told = daemon::ToldNoticeIn({daemon::kToldRecord, key, object})) {
    Require(told->event_id() == key, "the key is the event's id");
    Require(told->ranks.size() <= daemon::kMostKeptRanks, "no more ranks than may be");
    const auto again = daemon::ToldNoticeIn(daemon::RecordOf(*told));
    Require(again.has_value() && again->ranks == told->ranks, "it is read as written");
  }
  if (const auto notice = daemon::NoticeIn({daemon::kNoticeRecord, key, object})) {
    Require(notice->id == key, "the key is the notice's id");
    Require(notice->state == daemon::CloudNotice::State::kScheduled ||
                notice->state == daemon::CloudNotice::State::kStarted,
            "it is not over");
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
