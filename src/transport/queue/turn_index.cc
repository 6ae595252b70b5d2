#include "src/transport/queue/turn_index.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "src/base/mix_bits.h"

namespace harmonaize::transport {
namespace {

/// Part of the bytes left of one flow that another must have left at least to count as alike.
constexpr double kAlike = 0.75;
/// Bits of a float's mantissa that Nearness drops. The four that it keeps make 16 steps of each
/// doubling. So flows count as alike within a quarter, and within no more than a third.
constexpr int kDroppedBits = 19;

/// Returns bytes left in coarse steps, which grow with the bytes; 0: not known.
uint32_t Nearness(double left) {
  if (left <= 0) return 0;
  return 1 + (std::bit_cast<uint32_t>(static_cast<float>(left)) >> kDroppedBits);
}

}  // namespace

TurnPlace::TurnPlace() : height_(MixBits(reinterpret_cast<uintptr_t>(this))) {}

/// Returns whether a tree has this place before the other. Two flows may have the same number.
bool TurnPlace::IsBefore(const TurnPlace& other) const {
  if (nearness_ != other.nearness_) return nearness_ < other.nearness_;
  if (claim_.number != other.claim_.number) return claim_.number < other.claim_.number;
  return std::less<>()(this, &other);
}

void TurnIndex::Put(TurnPlace* place, const TurnClaim& claim) {
  if (place->index_ == this && place->claim_ == claim) return;
  next_ = nullptr;
  const uint32_t nearness = Nearness(claim.left);
  if (place->index_ == this && place->nearness_ == nearness &&
      place->claim_.number == claim.number) {
    place->claim_ = claim;
    RenewDownTo(top_, *place);
    return;
  }
  Remove(place);
  place->claim_ = claim;
  place->nearness_ = nearness;
  place->index_ = this;
  top_ = With(top_, place);
}

void TurnIndex::Remove(TurnPlace* place) {
  if (place->index_ != this) return;
  top_ = Without(top_, place);
  place->index_ = nullptr;
  place->before_ = place->behind_ = nullptr;
  next_ = nullptr;
}

TurnPlace* TurnIndex::Next() {
  if (next_ == nullptr) next_ = Choose();
  return next_;
}

TurnPlace* TurnIndex::Choose() {
  if (top_ == nullptr) return nullptr;
  const double start = top_->least_start_;
  TurnPlace* next = First(top_, 0, start);
  if (next->nearness_ == 0) return next;
  const uint32_t last_alike = Nearness(next->claim_.left / kAlike);
  for (TurnPlace* other = next; other != nullptr && other->nearness_ <= last_alike;
       other = First(top_, other->nearness_ + 1, start)) {
    if (other->claim_.number < next->claim_.number) next = other;
  }
  return next;
}

/// Returns the first flow, of this nearness or a later one, that may go before a flow that has had
/// `start`; null if there is none.
TurnPlace* TurnIndex::First(TurnPlace* top, uint32_t nearness, double start) {
  ++looks_;
  if (top == nullptr || top->least_leads_from_ > start) return nullptr;
  if (top->nearness_ >= nearness) {
    TurnPlace* const found = First(top->before_, nearness, start);
    if (found != nullptr) return found;
    if (top->claim_.leads_from <= start) return top;
  }
  return First(top->behind_, nearness, start);
}

/// Finds the least claims of a place and those below it. Returns the place.
TurnPlace* TurnIndex::Renewed(TurnPlace* top) {
  ++looks_;
  const TurnClaim& claim = top->claim_;
  top->least_start_ = claim.start;
  top->least_leads_from_ = claim.leads_from;
  for (const TurnPlace* below : {top->before_, top->behind_}) {
    if (below == nullptr) continue;
    top->least_start_ = std::min(top->least_start_, below->least_start_);
    top->least_leads_from_ = std::min(top->least_leads_from_, below->least_leads_from_);
  }
  return top;
}

/// Returns the tree with a place that is not in it.
TurnPlace* TurnIndex::With(TurnPlace* top, TurnPlace* place) {
  if (top == nullptr) return Renewed(place);
  if (place->height_ > top->height_) {
    Split(top, *place, &place->before_, &place->behind_);
    return Renewed(place);
  }
  TurnPlace*& side = place->IsBefore(*top) ? top->before_ : top->behind_;
  side = With(side, place);
  return Renewed(top);
}

/// Returns the tree without a place that is in it.
TurnPlace* TurnIndex::Without(TurnPlace* top, TurnPlace* place) {
  if (top == place) return Joined(top->before_, top->behind_);
  TurnPlace*& side = place->IsBefore(*top) ? top->before_ : top->behind_;
  side = Without(side, place);
  return Renewed(top);
}

/// Returns the tree of two trees, all of whose places are before and behind each other.
TurnPlace* TurnIndex::Joined(TurnPlace* before, TurnPlace* behind) {
  if (before == nullptr) return behind;
  if (behind == nullptr) return before;
  if (before->height_ > behind->height_) {
    before->behind_ = Joined(before->behind_, behind);
    return Renewed(before);
  }
  behind->before_ = Joined(before, behind->before_);
  return Renewed(behind);
}

/// Splits a tree into what is before a place that is not in it, and what is behind.
void TurnIndex::Split(TurnPlace* top, const TurnPlace& at, TurnPlace** before, TurnPlace** behind) {
  if (top == nullptr) {
    *before = *behind = nullptr;
  } else if (top->IsBefore(at)) {
    Split(top->behind_, at, &top->behind_, behind);
    *before = Renewed(top);
  } else {
    Split(top->before_, at, before, &top->before_);
    *behind = Renewed(top);
  }
}

/// Renews the places from a place up to the top of its tree.
void TurnIndex::RenewDownTo(TurnPlace* top, const TurnPlace& place) {
  if (top != &place) RenewDownTo(place.IsBefore(*top) ? top->before_ : top->behind_, place);
  Renewed(top);
}

void TurnIndex::SetBack(TurnPlace* top, double bytes) {
  if (top == nullptr) return;
  SetBack(top->before_, bytes);
  SetBack(top->behind_, bytes);
  top->claim_.start -= bytes;
  top->claim_.leads_from -= bytes;
  Renewed(top);
}

}  // namespace harmonaize::transport
