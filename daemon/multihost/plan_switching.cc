#include "daemon/multihost/plan_switching.h"

#include <algorithm>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/plan_table.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Time, in seconds, that a round trip to the home and back may take. Operations that take this
/// long are promised ahead, so that hosts need not stop for it.
constexpr double kAheadSeconds = 2e-3;
/// Most operations that are promised ahead.
constexpr uint64_t kMostAhead = 64;
/// Most changes that the history keeps.
constexpr size_t kRememberedChanges = 64;

/// Leaves out plans until the message can be sent; they can be changed the next time. Returns false
/// if not even one fits.
bool ShortenToFit(ProposeMessage* proposal) {
  while (!proposal->next.empty() && EncodeMessage(*proposal).size() > transport::kMaxControlBytes) {
    proposal->current.resize(proposal->current.size() / 2);
    proposal->next.resize(proposal->next.size() / 2);
  }
  return !proposal->next.empty();
}

}  // namespace

PlanSwitching::PlanSwitching(Communicator* communicator, HostGroup* group, PlanTable* plans)
    : communicator_(communicator),
      host_group_(group),
      plans_(plans),
      leader_(group->roster().hosts()) {}

// ---------------------------------------------------------------------------------------------
// At the home

bool PlanSwitching::Propose(std::vector<CollectivePlan> next, std::string reason) {
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (communicator_->HasLeft(rank)) return false;
  }
  if (next.empty() || leader_.under_way() ||
      communicator_->state() != Communicator::State::kReady) {
    return false;
  }
  PlanChange change{.unix_seconds = UnixSeconds(), .reason = std::move(reason)};
  for (const CollectivePlan& plan : next) {
    const PlanRecord* const current = plans_->Newest(plan.key);
    if (current == nullptr) return false;
    change.before.push_back(current->plan);
  }
  change.after = std::move(next);
  ProposeMessage proposal{host_group_->roster().key, 0, change.before, change.after};
  if (!ShortenToFit(&proposal)) return false;
  change.before = proposal.current;
  change.after = proposal.next;
  proposed_ns_ = MonotonicNanoseconds();
  proposal.round = leader_.Begin();
  history_.push_back(std::move(change));
  if (history_.size() > kRememberedChanges) history_.pop_front();
  host_group_->TellHosts(proposal);
  host_group_->TellSelf(proposal);
  return true;
}

void PlanSwitching::OnPromise(int host, const PromiseMessage& promise) {
  const Status status = promise.status;
  if (!status.ok()) {
    return TellAll(leader_.OnRefusal(promise.round),
                   fmt::format("{}: {}", host_group_->roster().RanksOf(host), status.message()));
  }
  TellAll(leader_.OnPromise(host, promise.round, promise.from), "");
}

void PlanSwitching::OnRankLeft() {
  TellAll(leader_.CallOff(), "a rank has left");
}

void PlanSwitching::TellAll(const std::optional<SwitchLeader::Settlement>& settlement,
                            const std::string& called_off) {
  if (!settlement.has_value()) return;
  PlanChange& change = history_.back();
  const LogFor log_for(communicator_->tenant().identity);
  const bool commit = settlement->from.has_value();
  change.outcome = commit ? PlanChange::Outcome::kCommitted : PlanChange::Outcome::kCalledOff;
  change.from = settlement->from.value_or(0);
  change.called_off = called_off;
  change.took_seconds = static_cast<double>(MonotonicNanoseconds() - proposed_ns_) * 1e-9;
  const std::string outcome =
      commit ? fmt::format("from #{} on", change.from) : "called off, " + called_off;
  for (size_t i = 0; i < change.after.size(); ++i) {
    const PlanTransition one{change.before[i], change.after[i], commit, outcome, change.reason};
    communicator_->observers().Tell(&CommunicatorObserver::OnPlanChanged, *communicator_, one);
  }
  const SettleMessage message{host_group_->roster().key, settlement->round, commit, change.from};
  host_group_->TellHosts(message);
  host_group_->TellSelf(message);
}

// ---------------------------------------------------------------------------------------------
// At every host

void PlanSwitching::OnPropose(const ProposeMessage& proposal) {
  follower_.Propose(proposal.round);
  ready_.clear();
  for (const CollectivePlan& plan : proposal.current) plans_->Ensure(plan);
  for (const CollectivePlan& plan : proposal.next) {
    const PlanKey key = plan.key;
    ready_[key].message = plan;
    // None is made before this returns.
    plans_->Make(plan, [this, round = proposal.round, key](Result<std::unique_ptr<HostPlan>> made) {
      OnMade(round, key, std::move(made));
    });
  }
}

void PlanSwitching::OnMade(uint64_t round, const PlanKey& key,
                           Result<std::unique_ptr<HostPlan>> made) {
  if (!follower_.under_way() || round != follower_.round()) return;
  if (!made.ok()) {
    if (!follower_.Refuse(round)) return;
    const Status& why = made.status();
    return host_group_->TellHome(PromiseMessage{host_group_->roster().key, round, 0, why});
  }
  ready_.at(key).plan = std::move(*made);
  const bool all = std::all_of(ready_.begin(), ready_.end(),
                               [](const auto& one) { return one.second.plan != nullptr; });
  if (all) Promise();
}

void PlanSwitching::Promise() {
  const uint64_t round = follower_.round();
  const auto from = follower_.Promise(round, communicator_->collectives_begun(), OperationsAhead());
  if (from.has_value()) {
    host_group_->TellHome(PromiseMessage{host_group_->roster().key, round, *from, {}});
  }
}

uint64_t PlanSwitching::OperationsAhead() const {
  double seconds = 0;
  uint64_t operations = 0;
  for (const auto& [key, ready] : ready_) {
    const PlanRecord* const record = plans_->Newest(key);
    if (record == nullptr) continue;
    seconds += record->seconds;
    operations += record->operations;
  }
  if (operations == 0) return 0;
  const double each = seconds / static_cast<double>(operations);
  return each * kMostAhead <= kAheadSeconds ? kMostAhead
                                            : static_cast<uint64_t>(kAheadSeconds / each);
}

void PlanSwitching::OnSettle(const SettleMessage& settlement) {
  if (!follower_.Settle(settlement.round)) return;
  for (auto& [key, ready] : std::exchange(ready_, {})) {
    if (settlement.commit && ready.plan != nullptr) {
      plans_->AddVersion(settlement.from, ready.message, std::move(ready.plan));
    }
  }
  communicator_->OnPlanReady();
}

}  // namespace harmonaize::daemon
