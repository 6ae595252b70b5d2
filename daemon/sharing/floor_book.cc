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

bool FloorBook::Note(const FloorOwner& owner, const GrantedFloor& granted, double now_seconds) {
  const auto found = entries_.find(owner);
  if (found == entries_.end() || found->second.granted != granted) return false;
  found->second.seen_seconds = now_seconds;
  return true;
}

void FloorBook::Take(const FloorOwner& owner, const GrantedFloor& granted,
                     const std::set<int>& edges, double now_seconds) {
  auto found = entries_.find(owner);
  if (found == entries_.end()) {
    OfTenant& of_tenant = tenants_[owner.first];
    if (of_tenant.kept >= kMostOfTenant) return;
    ++of_tenant.kept;
    found = entries_.emplace(owner, Entry{.of_tenant = &of_tenant, .place = next_place_++}).first;
  }
  Entry& entry = found->second;
  entry.seen_seconds = now_seconds;
  const bool has_all =
      std::includes(entry.edges.begin(), entry.edges.end(), edges.begin(), edges.end());
  if (entry.granted == granted && has_all) return;
  Release(&entry);
  entry.granted = granted;
  entry.edges.insert(edges.begin(), edges.end());
  PromiseAnew(owner, &entry, now_seconds);
}

void FloorBook::Drop(const FloorOwner& owner) {
  const auto found = entries_.find(owner);
  if (found == entries_.end()) return;
  Release(&found->second);
  entries_.erase(found);
  const auto of_tenant = tenants_.find(owner.first);
  if (--of_tenant->second.kept == 0) tenants_.erase(of_tenant);
}

void FloorBook::Release(Entry* entry) {
  if (!entry->answer.holds) return;
  for (const int edge : entry->edges) {
    PromisedOn(edge) -= entry->granted.floor;
    entry->of_tenant->promised[edge] -= entry->granted.floor;
  }
  entry->answer.holds = false;
}

void FloorBook::Promise(Entry* entry) {
  double least_room = std::numeric_limits<double>::infinity();
  double least_promisable = least_room;
  double least_of_tenant = least_room;
  const auto [floor, most_of_tenant] = entry->granted;
  for (const int edge : entry->edges) {
    const double promisable = kPromisable * capacity_(edge);
    least_promisable = std::min(least_promisable, promisable);
    least_room = std::min(least_room, promisable - std::max(PromisedOn(edge), 0.0));
    const double of_tenant = std::max(entry->of_tenant->promised[edge], 0.0);
    least_of_tenant = std::min(least_of_tenant, most_of_tenant - of_tenant);
  }
  entry->answer.room = std::max(std::min(least_room, least_of_tenant), 0.0);
  entry->answer.tenant_bound = least_of_tenant < least_room;
  entry->answer.holds = floor <= least_room + kRounding * least_promisable &&
                        floor <= least_of_tenant + kRounding * most_of_tenant;
  if (!entry->answer.holds) return;
  for (const int edge : entry->edges) {
    PromisedOn(edge) += floor;
    entry->of_tenant->promised[edge] += floor;
  }
}

// Has the floors of a tenant's owners that have been silent give way. Returns whether any did.
bool FloorBook::ReleaseSilent(uint32_t tenant, double now_seconds) {
  bool any = false;
  for (auto next = entries_.lower_bound({tenant, 0});
       next != entries_.end() && next->first.first == tenant; ++next) {
    Entry& entry = next->second;
    if (!IsSilent(entry, now_seconds) || !entry.answer.holds) continue;
    Release(&entry);
    any = true;
  }
  return any;
}

void FloorBook::PromiseAnew(const FloorOwner& owner, Entry* entry, double now_seconds) {
  Promise(entry);
  if (!entry->answer.holds && ReleaseSilent(owner.first, now_seconds)) Promise(entry);
}

void FloorBook::Settle(double now_seconds) {
  if (now_seconds < next_try_seconds_) return;
  next_try_seconds_ = now_seconds + kTryAgainSeconds;
  std::vector<FloorOwner> old;
  std::vector<std::pair<FloorOwner, Entry*>> refused;
  for (auto& [owner, entry] : entries_) {
    if (now_seconds - entry.seen_seconds > kKeptSeconds) {
      old.push_back(owner);
    } else if (!entry.answer.holds && !IsSilent(entry, now_seconds)) {
      refused.emplace_back(owner, &entry);
    }
  }
  for (const FloorOwner& owner : old) Drop(owner);
  std::sort(refused.begin(), refused.end(), [](const auto& one, const auto& other) {
    return one.second->place < other.second->place;
  });
  for (const auto& [owner, entry] : refused) PromiseAnew(owner, entry, now_seconds);
}

FloorBook::Answer FloorBook::AnswerFor(const FloorOwner& owner) const {
  const auto found = entries_.find(owner);
  return found == entries_.end() ? Answer() : found->second.answer;
}

void FloorWatch::Take(const std::map<Sharer, LinkShares::FloorReport>& floors, double now_seconds) {
  const double passed =
      taken_seconds_ < 0 ? 0 : std::min(now_seconds - taken_seconds_, kLongestInterval);
  taken_seconds_ = now_seconds;
  for (const auto& [sharer, report] : floors) {
    if (report.state == LinkShares::FloorState::kUnknown) continue;
    const bool now_missed = report.state == LinkShares::FloorState::kMissed;
    const auto found = missed_.find(sharer);
    if (found == missed_.end() && !now_missed) continue;
    Missed& one = found == missed_.end() ? missed_[sharer] : found->second;
    one.seconds = std::clamp(one.seconds + (now_missed ? passed : -passed), 0.0, kMissedSeconds);
    if (one.seconds >= kMissedSeconds) one.missed = true;
    if (one.seconds <= 0) one.missed = false;
    one.had = report.had;
  }
  // What is not missed any more need not be kept; nor what is said of one that is silent.
  std::erase_if(missed_, [&floors](const auto& one) {
    return (one.second.seconds <= 0 && !one.second.missed) || !floors.contains(one.first);
  });
}

const FloorWatch::Missed* FloorWatch::Of(const Sharer& sharer) const {
  const auto found = missed_.find(sharer);
  return found == missed_.end() ? nullptr : &found->second;
}

}  // namespace harmonaize::daemon
