// What concerns many transfers of a communicator: ranks that leave, plans that come, and its end.

#include "daemon/communicator/communicator.h"
#include "daemon/multihost/network_runner.h"
#include "daemon/multihost/remote_pairs.h"

namespace harmonaize::daemon {
namespace {

/// Most transfers that are started, ended or answered at once, before the engine looks at other
/// tenants' work. The start of one, which takes longest, takes some microseconds.
constexpr size_t kTransfersAtOnce = 128;

}  // namespace

RemotePairs::RemotePairs(Communicator* communicator, HostGroup* group, NetworkRunner* runner)
    : communicator_(communicator),
      host_group_(group),
      runner_(runner),
      portions_(communicator, kTransfersAtOnce, [this] { return DoOne(); }) {}

void RemotePairs::OnPlanReady() {
  plan_looks_ = await_plan_.size();
  portions_.Begin();
}

void RemotePairs::OnPeerRankLeft(int rank) {
  endings_.push_back({.peer = rank, .next = {.peer = rank}});
  portions_.Begin();
}

void RemotePairs::OnOwnRankLeft(int rank, const Status& why) {
  left_here_.push_back({rank, why});
  portions_.Begin();
}

// What was to be done before is part of this.
void RemotePairs::FailAll(const Status& why) {
  end_ = why;
  left_here_.clear();
  plan_looks_ = 0;
  endings_.clear();
  endings_.push_back({});
  portions_.Begin();
}

// Does one piece of what is due. Returns false if nothing is.
bool RemotePairs::DoOne() {
  if (!endings_.empty()) {
    EndOne();
  } else if (!left_here_.empty()) {
    AnswerOne();
  } else if (plan_looks_ > 0) {
    LookForOnePlan();
  } else {
    return false;
  }
  return true;
}

// Tells the next transfer of the first ending that it ends; or removes an ending that has no more.
void RemotePairs::EndOne() {
  Ending& ending = endings_.front();
  const bool all = ending.peer < 0;
  if (all && !untaken_.empty()) {
    Forget(untaken_.begin()->first.second);
    untaken_.erase(untaken_.begin());
    return;
  }
  const auto found = transfers_.lower_bound(ending.next);
  if (found == transfers_.end() || (!all && found->first.peer != ending.peer)) {
    return endings_.pop_front();
  }
  const TransferId id = found->first;
  ending.next = id.Next();
  if (all) return EndNow(id, &found->second);
  if (!found->second.offered) Advance(id);
}

// Ends a transfer now, or once the network has done with it and its stream has come to it.
void RemotePairs::EndNow(const TransferId& id, Transfer* transfer) {
  transfer->failure = end_;
  Forget(id);
  if (transfer->running != nullptr) return runner_->CancelTransfer(transfer->running, end_);
  Advance(id);
}

// Answers an offer to the first rank that has left; or removes a rank that has no more.
void RemotePairs::AnswerOne() {
  const Departed& departed = left_here_.front();
  const auto found = untaken_.lower_bound({departed.rank, TransferId{}});
  if (found == untaken_.end() || found->first.first != departed.rank) {
    return left_here_.pop_front();
  }
  const TransferId id = found->first.second;
  untaken_.erase(found);
  Forget(id);
  Answer(id, departed.why);
}

// Goes on behind the transfer whose plan was looked for last, and begins anew behind the last one.
void RemotePairs::LookForOnePlan() {
  --plan_looks_;
  if (await_plan_.empty()) return;
  auto next = await_plan_.upper_bound(plan_looked_for_);
  if (next == await_plan_.end()) next = await_plan_.begin();
  plan_looked_for_ = *next;
  await_plan_.erase(next);
  Find(plan_looked_for_)->needs_plan = false;
  Advance(plan_looked_for_);
}

}  // namespace harmonaize::daemon
