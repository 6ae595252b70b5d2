#include "daemon/sharing/floor_book.h"

#include <algorithm>
#include <limits>

namespace harmonaize::daemon {
namespace {

/// Interval, in seconds, at which floors that were refused are tried again.
constexpr double kTryAgainSeconds = 1;
/// Part of what can be promised that sums of floors may be off by rounding.
constexpr double kRounding = 1e-6;
/// Longest interval, in seconds, that counts as one in which a floor was missed.
constexpr double kLongestInterval = 0.5;

}  // namespace

double& FloorBook::PromisedOn(int edge) {
  const auto index = static_cast<size_t>(edge);
  if (index >= promised_.size()) promised_.resize(index + 1);
  return promised_[index];
}

bool FloorBook::Note(const FloorOwner& owner, double floor, double now_seconds) {
  const auto found = entries_.find(owner);
  if (found == entries_.end() || found->second.floor != floor) return false;
  found->second.seen_seconds = now_seconds;
  return true;
}

void FloorBook::Take(const FloorOwner& owner, double floor, const std::set<int>& edges,
                     double now_seconds) {
  auto found = entries_.find(owner);
  if (found == entries_.end()) {
    int& kept = of_tenant_[owner.first];
    if (kept >= kMostOfTenant) return;
    ++kept;
    found = entries_.emplace(owner, Entry{.place = next_place_++}).first;
  }
  Entry& entry = found->second;
  entry.seen_seconds = now_seconds;
  const bool has_all =
      std::includes(entry.edges.begin(), entry.edges.end(), edges.begin(), edges.end());
  if (entry.floor == floor && has_all) return;
  Release(&entry);
  entry.floor = floor;
  entry.edges.insert(edges.begin(), edges.end());
  Promise(&entry);
}

void FloorBook::Drop(const FloorOwner& owner) {
  const auto found = entries_.find(owner);
  if (found == entries_.end()) return;
  Release(&found->second);
  entries_.erase(found);
  const auto kept = of_tenant_.find(owner.first);
  if (--kept->second == 0) of_tenant_.erase(kept);
}

void FloorBook::Release(Entry* entry) {
  if (!entry->answer.holds) return;
  for (const int edge : entry->edges) PromisedOn(edge) -= entry->floor;
  entry->answer.holds = false;
}

void FloorBook::Promise(Entry* entry) {
  double least_room = std::numeric_limits<double>::infinity();
  double least_promisable = least_room;
  for (const int edge : entry->edges) {
    const double promisable = kPromisable * capacity_(edge);
    least_promisable = std::min(least_promisable, promisable);
    least_room = std::min(least_room, promisable - std::max(PromisedOn(edge), 0.0));
  }
  entry->answer.room = std::max(least_room, 0.0);
  entry->answer.holds = entry->floor <= least_room + kRounding * least_promisable;
  if (!entry->answer.holds) return;
  for (const int edge : entry->edges) PromisedOn(edge) += entry->floor;
}

void FloorBook::Settle(double now_seconds) {
  if (now_seconds < next_try_seconds_) return;
  next_try_seconds_ = now_seconds + kTryAgainSeconds;
  std::vector<FloorOwner> old;
  std::vector<Entry*> refused;
  for (auto& [owner, entry] : entries_) {
    if (now_seconds - entry.seen_seconds > kKeptSeconds) {
      old.push_back(owner);
    } else if (!entry.answer.holds) {
      refused.push_back(&entry);
    }
  }
  for (const FloorOwner& owner : old) Drop(owner);
  std::sort(refused.begin(), refused.end(),
            [](const Entry* one, const Entry* other) { return one->place < other->place; });
  for (Entry* const entry : refused) Promise(entry);
}

FloorBook::Answer FloorBook::AnswerFor(const FloorOwner& owner) const {
  const auto found = entries_.find(owner);
  return found == entries_.end() ? Answer() : found->second.answer;
}

void FloorWatch::Take(const std::map<JobId, LinkShares::FloorReport>& floors, double now_seconds) {
  const double passed =
      taken_seconds_ < 0 ? 0 : std::min(now_seconds - taken_seconds_, kLongestInterval);
  taken_seconds_ = now_seconds;
  for (const auto& [job, report] : floors) {
    if (report.state == LinkShares::FloorState::kUnknown) continue;
    const bool now_missed = report.state == LinkShares::FloorState::kMissed;
    const auto found = missed_.find(job);
    if (found == missed_.end() && !now_missed) continue;
    Missed& one = found == missed_.end() ? missed_[job] : found->second;
    one.seconds = std::clamp(one.seconds + (now_missed ? passed : -passed), 0.0, kMissedSeconds);
    if (one.seconds >= kMissedSeconds) one.missed = true;
    if (one.seconds <= 0) one.missed = false;
    one.had = report.had;
  }
  // What is not missed any more need not be kept; nor what is said of a job that is silent.
  std::erase_if(missed_, [&floors](const auto& one) {
    return (one.second.seconds <= 0 && !one.second.missed) || !floors.contains(one.first);
  });
}

const FloorWatch::Missed* FloorWatch::Of(const JobId& job) const {
  const auto found = missed_.find(job);
  return found == missed_.end() ? nullptr : &found->second;
}

}  // namespace harmonaize::daemon
