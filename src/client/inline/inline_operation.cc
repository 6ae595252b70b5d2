#include "src/client/inline/inline_operation.h"

#include <utility>

#include "src/client/operation/communicator.h"

namespace harmonaize {
namespace {

InlinePath& PathOf(const Operation& operation) {
  return *operation.communicator->inline_path();
}

Rendezvous PlaceOf(const Operation& operation, uint64_t slot) {
  const InlinePath& path = PathOf(operation);
  switch (operation.collective) {
    case Collective::kSend: return path.SendTo(operation.root, slot);
    case Collective::kReceive: return path.ReceiveFrom(operation.root, slot);
    default: return path.CollectiveAt(slot);
  }
}

}  // namespace

InlinePath::Sequence& InlineOperation::SequenceOf(const Operation& operation) {
  InlinePath& path = PathOf(operation);
  switch (operation.collective) {
    case Collective::kSend: return path.sends(operation.root);
    case Collective::kReceive: return path.receives(operation.root);
    default: return path.collectives();
  }
}

void InlineOperation::Decline(const Operation& operation) {
  InlinePath::Sequence& sequence = SequenceOf(operation);
  PlaceOf(operation, sequence.slot).Decline(sequence.ticket);
  ++sequence.ticket;
  PathOf(operation).Notify();
}

InlineOperation::InlineOperation(const Operation& operation)
    : operation_(&operation),
      path_(&PathOf(operation)),
      sequence_(&SequenceOf(operation)),
      rendezvous_(PlaceOf(operation, sequence_->slot)) {}

void InlineOperation::Start() {
  if (rendezvous_.Declined(sequence_->ticket)) {
    ++sequence_->ticket;
    state_ = State::kOffload;
    return;
  }
  WriteLine(*operation_, rendezvous_.own_line());
  switch (operation_->collective) {
    case Collective::kSend: StartSend(); break;
    case Collective::kReceive: pieces_ = 0; break;  // known once the sender is
    default: StartCollective(); break;
  }
  rendezvous_.Post(sequence_->ticket);
  path_->Notify();
}

void InlineOperation::Resume() {
  const bool pair = IsPointToPoint(operation_->collective);
  in_line_ = PublishedBytes(*operation_, path_->ranks()) <= kInlineLineBytes;
  if (operation_->collective == Collective::kReceive) return;
  piece_elements_ = operation_->count;
  pieces_ = pair && in_line_ ? 0 : 1;
  published_ = pieces_;
}

InlineOperation::State InlineOperation::Advance() {
  if (state_ != State::kWaiting) return state_;
  if (!agreed_ && !Follow(rendezvous_.Poll(sequence_->ticket))) return state_;
  switch (operation_->collective) {
    case Collective::kSend: AdvanceSend(); break;
    case Collective::kReceive: AdvanceReceive(); break;
    default: AdvanceCollective(); break;
  }
  return state_;
}

void InlineOperation::Withdraw() {
  if (state_ != State::kWaiting || agreed_) return;
  Follow(rendezvous_.Withdraw(sequence_->ticket));
  path_->Notify();
}

// Returns whether the operation goes on inline.
bool InlineOperation::Follow(Rendezvous::State state) {
  switch (state) {
    case Rendezvous::State::kWaiting: return false;
    case Rendezvous::State::kOffload: LeaveInline(); return false;
    case Rendezvous::State::kInline: break;
  }
  if (!rendezvous_.Agree(sequence_->ticket)) {
    // All ranks see the disagreement and decline, and the daemon tells each what the others asked
    // for.
    rendezvous_.Decline(sequence_->ticket);
    rendezvous_.Leave(sequence_->ticket);
    LeaveInline();
    return false;
  }
  agreed_ = true;
  if (follows_root_) FollowRoot();
  return true;
}

InlineWait InlineOperation::Wait() const {
  InlineWait wait{.collective = operation_->collective,
                  .type = operation_->type,
                  .op = operation_->op,
                  .root = operation_->root,
                  .count = operation_->count,
                  .ticket = sequence_->ticket};
  if (IsPointToPoint(operation_->collective)) {
    wait.for_ranks = uint32_t{1} << operation_->root;
  } else if (!agreed_) {
    wait.for_ranks = rendezvous_.MissingOf(sequence_->ticket);
  } else {
    // Of an operation that goes directly, the second piece tells that a rank's result is made.
    wait.for_ranks =
        path_->CollectiveAt(sequence_->slot + taken_).MissingOf(sequence_->ticket + taken_);
  }
  return wait;
}

void InlineOperation::LeaveInline() {
  ++sequence_->ticket;
  state_ = State::kOffload;
}

void InlineOperation::Finish() {
  // A pair's sequence counts operations; that of the collectives counts slots.
  const bool pair = IsPointToPoint(operation_->collective);
  sequence_->ticket += pair ? 1 : pieces_;
  sequence_->slot += pair ? 1 : pieces_;
  path_->Count(operation_->count * DataTypeSize(operation_->type));
  state_ = State::kDone;
}

void InlineOperation::Fail(Status why) {
  failure_ = std::move(why);
  state_ = State::kFailed;
}

}  // namespace harmonaize
