#include "src/client/operation/pair_copies.h"

#include <algorithm>
#include <utility>

namespace harmonaize {

void PairCopies::Add(const Operation& operation, const OperationDescriptor& descriptor) {
  copies_.push_back({descriptor.sequence, std::make_unique<WindowCopy>(operation, descriptor)});
  ++left_;
}

// Returns the place in copies_; behind the last one if it is not there.
size_t PairCopies::PlaceOf(uint64_t sequence) const {
  const auto found =
      std::lower_bound(copies_.begin(), copies_.end(), sequence,
                       [](const Copy& copy, uint64_t wanted) { return copy.sequence < wanted; });
  if (found == copies_.end() || found->sequence != sequence) return copies_.size();
  return static_cast<size_t>(found - copies_.begin());
}

// Returns the copy of the operation that the lane tells of; nullptr: none of these.
WindowCopy* PairCopies::Named(const Lane& lane) const {
  if (left_ == 0) return nullptr;
  const uint64_t count = lane.words->carried.completed.load(std::memory_order_seq_cst);
  const size_t place = PlaceOf(SequenceOf(count));
  return place < copies_.size() ? copies_[place].window.get() : nullptr;
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
  copies_[PlaceOf(ended->sequence())].window.reset();
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
  return std::any_of(copies_.begin(), copies_.end(), [address, bytes](const Copy& copy) {
    return copy.window != nullptr && copy.window->WritesTo(address, bytes);
  });
}

}  // namespace harmonaize
