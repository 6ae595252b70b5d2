#include "daemon/nccl_tuning/tuning_home.h"

#include <algorithm>
#include <utility>

#include "daemon/runtime/guarded.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Pause, in nanoseconds, after a change that was called off: ranks may just be at rest.
constexpr uint64_t kCalledOffPauseNs = 1'000'000'000;

uint64_t NumberOf(uint64_t checkpoint) {
  return checkpoint >> 32;
}

}  // namespace

int TuningHome::Group::known_ranks() const {
  int known = 0;
  for (const auto& [peer, part] : parts) known += part.ranks;
  return known;
}

// ---------------------------------------------------------------------------------------------
// Which ranks there are

bool TuningHome::HasRoomFor(uint32_t user) const {
  const auto of_user = std::count_if(groups_.begin(), groups_.end(),
                                     [user](const auto& one) { return one.first.user == user; });
  return groups_.size() < kMost && static_cast<size_t>(of_user) < kMostOfUser;
}

void TuningHome::OnRanks(transport::PeerId peer, const TunedRanksMessage& message) {
  if (message.host >= services_.stated->hosts()) return;
  const TunedKey key{message.user, message.nccl_communicator};
  auto found = groups_.find(key);
  if (found == groups_.end()) {
    if (message.here == 0 || !HasRoomFor(key.user)) return;
    found = groups_.try_emplace(key).first;
    found->second.ranks = message.ranks;
  }
  Group& group = found->second;
  const bool was_known = group.parts.contains(peer);
  const int before = was_known ? group.parts[peer].ranks : 0;
  if (message.here == 0) {
    group.parts.erase(peer);
  } else {
    group.parts[peer] = {message.host, message.here};
    if (message.changes > group.changes) group.is_changed = true;
  }
  if (group.parts.empty()) {
    groups_.erase(found);
    return;
  }
  if (message.ranks != group.ranks) {
    return Freeze(key, &group, "its processes differ about the number of its ranks");
  }
  if (message.here < before) return Freeze(key, &group, "a rank has left");
  if (group.known_ranks() > group.ranks) {
    return Freeze(key, &group, "it has more ranks than its processes say");
  }
  if (group.known_ranks() == group.ranks && !group.leader.has_value()) Complete(&group);
}

void TuningHome::Complete(Group* group) {
  for (const auto& [peer, part] : group->parts) group->hosts.push_back(peer);
  if (group->hosts.size() < 2) {
    group->stays_as_it_is = "it is on one host";
  } else if (group->hosts.size() > kMostHosts) {
    group->stays_as_it_is = fmt::format("it has more than {} hosts", kMostHosts);
  }
  group->leader.emplace(static_cast<int>(group->hosts.size()));
  group->review.emplace(services_.least_gain);
  // Rounds are numbered from the time on, in microseconds. So the numbers of a daemon that is
  // started anew are larger than those of the daemon before it.
  group->first_round = static_cast<uint64_t>(UnixSeconds() * 1e6);
}

void TuningHome::Freeze(const TunedKey& key, Group* group, std::string why) {
  if (!group->stays_as_it_is.empty()) return;
  group->stays_as_it_is = std::move(why);
  Log(LogLevel::kDebug, kLogTuning, "tuning of NCCL's communicator {:x} stays as it is: {}",
      key.communicator, group->stays_as_it_is);
  if (group->leader.has_value()) {
    TellAll(key, group, group->leader->CallOff(), group->stays_as_it_is);
  }
}

void TuningHome::OnPeerLost(transport::PeerId peer) {
  for (auto next = groups_.begin(); next != groups_.end();) {
    const auto one = next++;
    if (one->second.parts.erase(peer) == 0) continue;
    if (one->second.parts.empty()) {
      groups_.erase(one);
    } else {
      Freeze(one->first, &one->second, "a host was lost");
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Reviews

void TuningHome::OnRates(const EdgeRates& rates, uint64_t now_ns) {
  now_ns_ = now_ns;
  for (auto& [key, group] : groups_) {
    if (IsDue(group, rates, now_ns) && !advising_.contains(key.user)) {
      group.next_review_ns = now_ns + PlanReview::kEveryNs;
      Review(key, &group, rates);
    }
  }
}

bool TuningHome::IsDue(const Group& group, const EdgeRates& rates, uint64_t now_ns) const {
  if (!group.leader.has_value() || !group.stays_as_it_is.empty()) return false;
  if (group.reviewing || group.leader->under_way()) return false;
  if (now_ns < group.next_review_ns) return false;
  return rates != group.reviewed || group.review->pending() || group.is_changed ||
         group.was_called_off;
}

// Predicting takes milliseconds, for large communicators a second.
void TuningHome::Review(const TunedKey& key, Group* group, const EdgeRates& rates) {
  group->reviewing = true;
  group->was_called_off = false;
  group->reviewed = rates;
  advising_.insert(key.user);
  std::vector<int> hosts;
  for (const auto& [peer, part] : group->parts) hosts.push_back(part.host);
  // NCCL's ranks are numbered host by host, as hosts are in fabric files.
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  services_.background->Post(
      [models = services_.models, stated = services_.stated, costs = services_.costs,
       post = services_.post, rates, hosts = std::move(hosts),
       finish = lifetime_.Guard(
           [this, key](const Result<TuningAdvice>& advice) { OnAdvice(key, advice); })] {
        Result<TuningAdvice> advice = NoTuningAdvice();
        const Status made = Caught([&]() -> Status {
          HZ_ASSIGN_OR_RETURN(const std::shared_ptr<const FabricModel> now, models->With(rates));
          HZ_ASSIGN_OR_RETURN(advice, AdviseTuning(*stated, *now, hosts, costs));
          return Status::Ok();
        });
        if (!made.ok()) advice = made;
        post([finish, advice] { finish(advice); });
      },
      key.user);
}

void TuningHome::OnAdvice(const TunedKey& key, const Result<TuningAdvice>& advice) {
  advising_.erase(key.user);
  const auto found = groups_.find(key);
  if (found == groups_.end()) return;
  Group& group = found->second;
  group.reviewing = false;
  if (!group.stays_as_it_is.empty() || !group.leader.has_value()) return;
  if (!advice.ok()) return Freeze(key, &group, advice.status().message());
  const double seconds = static_cast<double>(now_ns_) * 1e-9;
  const double difference = DifferenceOf(group.in_force, *advice);
  const auto changed = group.review->Decide(
      {{.key = {}, .current_seconds = difference, .best_seconds = 1}}, seconds);
  if (changed.empty() && !group.is_changed) return;
  Propose(key, &group, *advice);
  group.review->NoteChange(seconds);
}

// ---------------------------------------------------------------------------------------------
// Changes

void TuningHome::Propose(const TunedKey& key, Group* group, const TuningAdvice& advice) {
  group->proposed = advice;
  group->proposed_ns = now_ns_;
  group->checkpoints.clear();
  const uint64_t round = group->first_round + group->leader->Begin();
  for (const transport::PeerId host : group->hosts) {
    services_.send(host, TuningProposalMessage{key.user, key.communicator, round, advice.factors,
                                               advice.channels, advice.families});
  }
}

void TuningHome::OnPromise(transport::PeerId peer, const TuningPromiseMessage& promise) {
  const TunedKey key{promise.user, promise.nccl_communicator};
  const auto found = groups_.find(key);
  if (found == groups_.end() || !found->second.leader.has_value()) return;
  Group& group = found->second;
  const auto host = std::find(group.hosts.begin(), group.hosts.end(), peer);
  if (host == group.hosts.end() || promise.round <= group.first_round) return;
  const uint64_t round = promise.round - group.first_round;
  if (!promise.status.ok()) {
    return TellAll(key, &group, group.leader->OnRefusal(round), promise.status.message());
  }
  if (!Agree(&group, promise.checkpoints)) {
    return Freeze(key, &group, "its ranks do not ask their tuners alike");
  }
  TellAll(
      key, &group,
      group.leader->OnPromise(static_cast<int>(host - group.hosts.begin()), round, promise.from),
      "");
}

// Takes in digests of what ranks have asked. Returns false if two ranks differ.
bool TuningHome::Agree(Group* group, const std::vector<uint64_t>& checkpoints) {
  return std::all_of(checkpoints.begin(), checkpoints.end(), [group](uint64_t checkpoint) {
    return group->checkpoints.emplace(NumberOf(checkpoint), checkpoint).first->second == checkpoint;
  });
}

void TuningHome::TellAll(const TunedKey& key, Group* group,
                         const std::optional<SwitchLeader::Settlement>& settlement,
                         const std::string& why) {
  if (!settlement.has_value()) return;
  const bool commit = settlement->from.has_value();
  const uint64_t from = settlement->from.value_or(0);
  if (commit) {
    group->in_force = std::move(group->proposed);
    group->is_changed = false;
    ++group->changes;
  } else {
    group->was_called_off = true;
    group->next_review_ns = now_ns_ + kCalledOffPauseNs;
  }
  // Tenants can see to it that changes are called off.
  Log(commit ? LogLevel::kInfo : LogLevel::kDebug, kLogTuning,
      "tuning of NCCL's communicator {:x}: another table {}", key.communicator,
      commit ? fmt::format("from call {} on", from) : "is called off, " + why);
  for (const transport::PeerId host : group->hosts) {
    services_.send(host, TuningSettleMessage{key.user, key.communicator,
                                             group->first_round + settlement->round, commit, from});
  }
}

void TuningHome::Tick(uint64_t now_ns) {
  now_ns_ = now_ns;
  for (auto& [key, group] : groups_) {
    if (!group.leader.has_value() || !group.leader->under_way()) continue;
    if (now_ns < group.proposed_ns + kLongestRoundNanoseconds) continue;
    TellAll(key, &group, group.leader->CallOff(), "a host does not answer");
  }
}

// ---------------------------------------------------------------------------------------------
// Reports

std::vector<TunedReport> TuningHome::Report() const {
  std::vector<TunedReport> reports;
  for (const auto& [key, group] : groups_) {
    TunedReport& report = reports.emplace_back(TunedReport{.key = key,
                                                           .ranks = group.ranks,
                                                           .known_ranks = group.known_ranks(),
                                                           .changes = group.changes,
                                                           .stays_as_it_is = group.stays_as_it_is});
    for (const auto& [peer, part] : group.parts) report.hosts.push_back(part.host);
    report.slowdown =
        *std::max_element(group.in_force.factors.begin(), group.in_force.factors.end());
  }
  return reports;
}

}  // namespace harmonaize::daemon
