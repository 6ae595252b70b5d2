#include "src/client/operation/pair_copies.h"

#include <algorithm>
#include <utility>

namespace harmonaize {

void PairCopies::Add(const Operation& operation, const OperationDescriptor& descriptor) {
  if (copies_.empty()) first_ = descriptor.sequence;
  copies_.push_back(std::make_unique<WindowCopy>(operation, descriptor));
  ++left_;
}

// Returns the copy of the operation that the lane tells of; nullptr: none of these.
WindowCopy* PairCopies::Named(const Lane& lane) const {
  if (left_ == 0) return nullptr;
  const uint64_t count = lane.words->carried.completed.load(std::memory_order_seq_cst);
  const uint64_t place = SequenceOf(count) - first_;
  return place < copies_.size() ? copies_[place].get() : nullptr;
}

bool PairCopies::Step(bool succeeded) {
  const bool near = StepIn(&lanes_[0], succeeded);
  return StepIn(&lanes_[1], succeeded) || near;
}

bool PairCopies::StepIn(Lane* lane, bool succeeded) {
  WindowCopy* const named = Named(*lane);
  if (lane->under_way == nullptr) {
    if (named == nullptr) return false;
    lane->under_way = named;
    named->SetLane(lane->words);
  }
  // If the lane tells of another one by now, this one finds that it has ended.
  if (lane->under_way->Step()) return true;
  if (!lane->under_way->ended()) return false;
  End(lane, succeeded);
  return true;
}

void PairCopies::End(Lane* lane, bool succeeded) {
  WindowCopy* const ended = std::exchange(lane->under_way, nullptr);
  ended->Finish(succeeded);
  copies_[ended->sequence() - first_].reset();
  --left_;
}

bool PairCopies::CanStep() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [this](const Lane& lane) {
    if (lane.under_way == nullptr) return Named(lane) != nullptr;
    return lane.under_way->ended() || lane.under_way->CanStep();
  });
}

void PairCopies::Finish(bool succeeded) {
  for (Lane& lane : lanes_) {
    if (lane.under_way != nullptr) End(&lane, succeeded);
  }
  copies_.clear();
  left_ = 0;
}

bool PairCopies::WritesTo(const void* address, uint64_t bytes) const {
  return std::any_of(copies_.begin(), copies_.end(), [address, bytes](const auto& copy) {
    return copy != nullptr && copy->WritesTo(address, bytes);
  });
}

}  // namespace harmonaize
