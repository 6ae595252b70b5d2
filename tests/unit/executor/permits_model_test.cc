// The way in which WorkBoard's bit for a slot follows the slot's word, in all orders of the steps
// of some threads. The model's steps are those of WorkBoard::Claim, AddPermit, TakeRest and
// UpdateActive. Each is one atomic operation, and all threads see them in one order; why they do is
// argued at UpdateActive.

#include <gtest/gtest.h>

#include <array>
#include <compare>
#include <set>
#include <vector>

namespace harmonaize {
namespace {

constexpr int kThreads = 3;

enum class At { kIdle, kHasUnit, kHasRun, kWrites, kLooksAgain, kCanceled };

struct ModelThread {
  At at = At::kIdle;
  At then = At::kIdle;  // after kWrites and kLooksAgain
  bool claimable = false;
  auto operator<=>(const ModelThread&) const = default;
};

struct ModelSlot {
  int units = 0;
  int permits = 0;
  bool bit = true;
  bool cancels = false;  // whether the owner may still take the rest
  std::array<ModelThread, kThreads> threads = {};
  auto operator<=>(const ModelSlot&) const = default;

  bool claimable() const { return units > 0 && permits > 0; }
};

/// Explores all states that can be reached from one.
class PermitsModel {
 public:
  /// `looks_again` is false to see what would happen otherwise.
  explicit PermitsModel(bool looks_again) : looks_again_(looks_again) {}

  /// Returns whether in all states without a thread on its way the bit says what the word does.
  bool HoldsFrom(const ModelSlot& first) {
    std::vector<ModelSlot> open = {first};
    seen_.insert(first);
    while (!open.empty()) {
      const ModelSlot slot = open.back();
      open.pop_back();
      if (IsWrong(slot)) return false;
      for (size_t i = 0; i < kThreads; ++i) {
        ModelSlot next = slot;
        Step(next, next.threads[i]);
        if (seen_.insert(next).second) open.push_back(next);
      }
      if (!slot.cancels) continue;
      ModelSlot next = slot;
      Cancel(next);
      if (seen_.insert(next).second) open.push_back(next);
    }
    return true;
  }

  size_t states() const { return seen_.size(); }

 private:
  // A thread that runs a unit is not on its way: that takes long.
  static bool IsWrong(const ModelSlot& slot) {
    for (const ModelThread& thread : slot.threads) {
      if (thread.at != At::kIdle && thread.at != At::kHasUnit && thread.at != At::kCanceled) {
        return false;
      }
    }
    return slot.bit != slot.claimable();
  }

  void Step(ModelSlot& slot, ModelThread& thread) const {
    switch (thread.at) {
      case At::kIdle:
        // By an old mask a thread may look at any word.
        if (!slot.claimable()) return;
        --slot.units;
        --slot.permits;
        Go(thread, At::kHasUnit, !slot.claimable(), false);
        return;
      case At::kHasUnit: thread.at = At::kHasRun; return;
      case At::kHasRun:
        Go(thread, At::kIdle, slot.permits == 0 && slot.units > 0, true);
        ++slot.permits;
        return;
      case At::kWrites:
        slot.bit = thread.claimable;
        thread.at = looks_again_ ? At::kLooksAgain : thread.then;
        return;
      case At::kLooksAgain:
        Go(thread, thread.then, thread.claimable != slot.claimable(), slot.claimable());
        return;
      case At::kCanceled: return;
    }
  }

  // The last thread is the owner's, while it is at nothing else.
  static void Cancel(ModelSlot& slot) {
    ModelThread& owner = slot.threads.back();
    if (owner.at != At::kIdle) return;
    slot.cancels = false;
    Go(owner, At::kCanceled, slot.units > 0, false);
    slot.units = 0;
  }

  static void Go(ModelThread& thread, At then, bool writes, bool claimable) {
    thread = {};
    thread.at = then;
    if (!writes) return;
    thread.at = At::kWrites;
    thread.then = then;
    thread.claimable = claimable;
  }

  const bool looks_again_;
  std::set<ModelSlot> seen_;
};

TEST(PermitsModel, TheBitFollowsTheWord) {
  for (int permits = 1; permits <= kThreads; ++permits) {
    for (const bool cancels : {false, true}) {
      PermitsModel model(true);
      EXPECT_TRUE(model.HoldsFrom({.units = 5, .permits = permits, .cancels = cancels}))
          << permits << " permits";
      EXPECT_GT(model.states(), 100u);
    }
  }
}

TEST(PermitsModel, WouldNotIfThreadsDidNotLookAgain) {
  PermitsModel model(false);
  EXPECT_FALSE(model.HoldsFrom({.units = 5, .permits = 2}));
}

}  // namespace
}  // namespace harmonaize
