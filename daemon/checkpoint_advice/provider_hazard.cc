#include "daemon/checkpoint_advice/provider_hazard.h"

#include <nlohmann/json.hpp>

#include "daemon/promises/promise_book.h"
#include "daemon/promises/record_fields.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

/// A notice of less than this, in seconds, is too short for most checkpoints that outlive the host.
/// Clouds give 30 s to 2 min before they take a host back.
constexpr double kShortNoticeSeconds = 120;
/// Communicators that a link slows down within this time, in seconds, tell of one cut.
constexpr double kOneCutSeconds = 60;
/// Seconds of a day, in which records count.
constexpr double kDayOfHost = 86400;

bool WasReclaimedAtShortNotice(const Promise& promise) {
  const bool is_reclaim = promise.kind == CloudNotice::Kind::kReclaim;
  return is_reclaim && promise.began_seconds > 0 && !promise.nobody_left &&
         promise.began_seconds - promise.announced_seconds < kShortNoticeSeconds;
}

}  // namespace

void ProviderHazard::Watch(size_t hosts, double now_seconds) {
  const double seconds = now_seconds - watched_seconds_;
  const bool is_first = watched_seconds_ < 0;
  watched_seconds_ = now_seconds;
  if (is_first || seconds <= 0) return;
  for (SeenFailures* const seen : {&hosts_, &links_}) {
    seen->Age(seconds);
    seen->unit_seconds += static_cast<double>(hosts) * seconds;
  }
  own_seconds_ += seconds;
}

void ProviderHazard::NoteLinkCut(double now_seconds) {
  const bool is_same = cut_seconds_ >= 0 && now_seconds - cut_seconds_ < kOneCutSeconds;
  cut_seconds_ = now_seconds;
  if (!is_same) links_.events += 1;
}

SeenByCause ProviderHazard::Seen(const PromiseBook& book) const {
  SeenFailures early{.unit_seconds = own_seconds_};
  SeenFailures reclaim{.unit_seconds = own_seconds_};
  for (const Promise& promise : book.promises()) {
    if (promise.began_seconds > 0 && promise.kept() == false) early.events += 1;
    if (WasReclaimedAtShortNotice(promise)) reclaim.events += 1;
  }
  SeenByCause seen;
  seen[static_cast<size_t>(FailureCause::kHost)] = hosts_;
  seen[static_cast<size_t>(FailureCause::kLink)] = links_;
  seen[static_cast<size_t>(FailureCause::kEarly)] = early;
  seen[static_cast<size_t>(FailureCause::kReclaim)] = reclaim;
  return seen;
}

Record ProviderHazard::Kept() const {
  const nlohmann::json object = {{"hosts_lost", hosts_.events},
                                 {"host_days", hosts_.unit_seconds / kDayOfHost},
                                 {"links_cut", links_.events},
                                 {"link_days", links_.unit_seconds / kDayOfHost},
                                 {"own_seconds", own_seconds_}};
  return {.kind = kRecord, .key = "hosts", .text = JsonText(object)};
}

bool ProviderHazard::TakeKept(const Record& record) {
  RecordFields fields(record.text);
  const SeenFailures hosts{fields.Seconds("hosts_lost"), fields.Seconds("host_days") * kDayOfHost};
  const SeenFailures links{fields.Seconds("links_cut"), fields.Seconds("link_days") * kDayOfHost};
  const double own = fields.Seconds("own_seconds");
  if (!fields.good()) return false;
  hosts_ = hosts;
  links_ = links;
  own_seconds_ = own;
  return true;
}

}  // namespace harmonaize::daemon
