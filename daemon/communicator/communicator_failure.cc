// How a communicator fails, as a whole or in the operations that some of its ranks have posted.

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/tenant/finished_parts.h"
#include "daemon/tenant/session.h"

namespace harmonaize::daemon {
namespace {

/// Most parts that are told of their failure at once, before the engine looks at other tenants'
/// work: a part takes a tenth of a microsecond.
constexpr size_t kPartsFailedAtOnce = 2048;

}  // namespace

void Communicator::Decide(PostedOperation* part, const Status& outcome) {
  part->matched = nullptr;
  part->waiting.Reset();
  if (part->ready) {
    services_.finished->Finish(part, outcome);
  } else {
    part->outcome = outcome;  // told when its stream has come this far
  }
}

void Communicator::FailMatched(MatchedOperation* operation, const Status& why) {
  LeaveLanes(operation);
  for (PostedOperation* part : operation->parts) {
    if (part != nullptr) Decide(part, why);
  }
  pool_.GiveBack(operation);
}

void Communicator::Doom(std::vector<MatchedOperation*> operations,
                        std::vector<PostedOperation*> parts, const Status& why) {
  if (operations.empty() && parts.empty()) return;
  doomed_.Add(std::move(operations), std::move(parts), why);
  // If a call of FailDoomed is posted, the new ones wait behind the earlier ones.
  if (!doom_posted_) FailDoomed();
}

void Communicator::FailDoomed() {
  // Operations that fail meanwhile are only added.
  doom_posted_ = true;
  doomed_.FailSome(
      kPartsFailedAtOnce,
      [this](MatchedOperation* operation, const Status& why) { FailMatched(operation, why); },
      [this](PostedOperation* part, const Status& why) { Decide(part, why); });
  doom_posted_ = !doomed_.empty();
  if (doom_posted_) CallSoon([this] { FailDoomed(); });
}

void Communicator::FailEverything(const Status& why) {
  Doom(window_.TakeFrom(0), {}, why);
  pair_lanes_.Clear();
  next_pairs_.clear();
  Doom(matched_pairs_.TakeAll(), pairs_.TakeAll(), why);
  Doom({}, pipes_.TakeAll(), why);
  // What the workers hold ends soon, and OnLocalDone then tells of the failure.
  local_.CancelAll(why);
  if (other_hosts_ != nullptr) other_hosts_->FailAll(why);
}

// Fails the collectives that a leaving rank has not posted: they cannot be carried out any more.
// Those that it has posted are done, but in a communicator that spans hosts maybe not at this one.
void Communicator::FailWindowFrom(uint64_t sequence, const Status& why) {
  Doom(window_.TakeFrom(sequence), {}, why);
}

void Communicator::Leave(int rank) {
  const auto place = static_cast<size_t>(rank);
  // A rank that gave up before it was told that the communicator had formed has no member.
  const uint64_t after = members_[place] == nullptr ? 0 : members_[place]->next_sequence;
  left_after_[place] = after;
  if (state_ == State::kReady) {
    const Status why = FailureWith(RemoteError("{} has left the communicator", DescribeRank(rank)));
    FailWindowFrom(after, why);
    Doom({}, pairs_.TakeWith(rank), why);
    Doom({}, pipes_.TakeWith(rank), why);
    if (other_hosts_ != nullptr) other_hosts_->FailFrom(rank, after, why);
  }
  members_[place] = nullptr;
  if (inline_segment_ != nullptr) {
    inline_segment_->Close();
    inline_segment_->Detach(rank);
  }
  if (other_hosts_ != nullptr) other_hosts_->TellLeft(rank, after);
}

uint64_t Communicator::first_left() const {
  return *std::min_element(left_after_.begin(), left_after_.end());
}

void Communicator::NoteDisagreement(uint64_t sequence, const Status& error) {
  disagreement_ = error;
  disagreed_at_ = std::max(window_.start(), sequence + 1);
}

Status Communicator::FirstFailure() const {
  if (state_ != State::kReady) return failure_;
  return IsOverDisagreement() ? Status::Ok() : disagreement_;
}

// A rank that disagreed often ends at once. The others shall read why, and not only that it has
// gone. Another host may have put the two together already.
Status Communicator::FailureWith(const Status& why) const {
  if (disagreement_.ok() || IsOverDisagreement()) return why;
  if (why.message().starts_with(disagreement_.message())) return why;
  return {disagreement_.code(), fmt::format("{}; then {}", disagreement_.message(), why.message())};
}

void Communicator::Break(const Status& why) {
  if (state_ == State::kBroken) return;
  const Status failure = FailureWith(why);
  state_ = State::kBroken;
  failure_ = failure;
  // The ranks are told first, so that a rank whose operation fails finds its communicator failed.
  for (Member* rank : members_) {
    if (rank != nullptr) rank->Fail(failure);
  }
  if (other_hosts_ != nullptr) other_hosts_->TellEnd(false, failure);
  FailEverything(failure);
  observers().Tell(&CommunicatorObserver::OnBroken, *this, failure);
}

void Communicator::Revoke(const Status& why) {
  if (state_ != State::kReady) return;
  state_ = State::kRevoked;
  failure_ = why;
  if (inline_segment_ != nullptr) inline_segment_->Close();
  if (other_hosts_ != nullptr) other_hosts_->TellEnd(true, why);
  FailEverything(why);
  observers().Tell(&CommunicatorObserver::OnBroken, *this, why);
}

void Communicator::LoseRank(const Status& why) {
  if (terms().faults().shrinks_on_loss) return Revoke(why);
  Break(why);
}

bool Communicator::all_left() const {
  for (int rank = 0; rank < ranks(); ++rank) {
    const bool concerns_us = !IsRemote(rank) || other_hosts_->is_home();
    if (concerns_us && !HasLeft(rank)) return false;
  }
  return true;
}

std::string Communicator::DescribeRank(int rank) const {
  const Member* member = members_[static_cast<size_t>(rank)];
  if (member == nullptr) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (process {})", rank, member->session->process());
}

}  // namespace harmonaize::daemon
