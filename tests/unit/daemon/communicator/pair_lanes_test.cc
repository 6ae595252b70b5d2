#include "daemon/communicator/pair_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"

namespace harmonaize::daemon {
namespace {

using Lanes = PairLanes<int>;

TEST(PairLanes, AnItemHasItsTurnWhenItIsTheFirstInAllItsLanes) {
  Lanes lanes;
  const std::array<Lanes::Lane, 2> first = {Lanes::Lane{0, true}, {1, false}};
  const std::array<Lanes::Lane, 2> second = {Lanes::Lane{1, true}, {0, false}};
  const std::array<Lanes::Lane, 2> third = {Lanes::Lane{0, true}, {0, false}};
  lanes.Enter(1, first);
  lanes.Enter(2, second);
  lanes.Enter(3, third);
  EXPECT_TRUE(lanes.IsFirst(1, first));
  EXPECT_TRUE(lanes.IsFirst(2, second));
  EXPECT_FALSE(lanes.IsFirst(3, third));
  EXPECT_TRUE(lanes.Leave(3, third).empty()) << "it has no turn to give up";
  EXPECT_EQ(lanes.Leave(1, first), std::vector<int>{3});
  EXPECT_FALSE(lanes.IsFirst(3, third)) << "the other lane is not free";
  EXPECT_EQ(lanes.Leave(2, second), std::vector<int>{3});
  EXPECT_TRUE(lanes.IsFirst(3, third));
  EXPECT_TRUE(lanes.Leave(3, third).empty());
  EXPECT_TRUE(lanes.empty());
}

TEST(PairLanes, WhatNeedsNoLaneHasItsTurn) {
  Lanes lanes;
  lanes.Enter(1, {});
  EXPECT_TRUE(lanes.IsFirst(1, {}));
  EXPECT_TRUE(lanes.Leave(1, {}).empty());
}

// ---------------------------------------------------------------------------------------------
// A model of two hosts
//
// What Communicator does with pairs of one host, and RemotePairs with those of two, as far as the
// order of windows goes. Which half is posted when, and which of the transfers under way ends next,
// is drawn at random. Each programme has to come to its end, without two transfers in one lane.

constexpr int kModelRanks = 4;
constexpr int kRanksOfHost = 2;

struct ModelTransfer {
  int from = 0;
  int to = 0;
  bool send_has_window = true;
  bool receive_has_window = true;
  bool send_posted = false;
  bool receive_posted = false;
  bool entered = false;  // far: the receive has entered
  bool answered = false;
  bool send_entered = false;
  bool ended = false;

  bool far() const { return from / kRanksOfHost != to / kRanksOfHost; }
};

class LanesModel {
 public:
  LanesModel(std::vector<ModelTransfer> transfers, uint32_t seed)
      : transfers_(std::move(transfers)), random_(seed) {}

  /// Returns whether all transfers have ended.
  bool Run() {
    while (true) {
      std::vector<std::function<void()>> choices;
      for (size_t i = 0; i < transfers_.size(); ++i) AddChoices(static_cast<int>(i), &choices);
      if (choices.empty()) break;
      choices[random_() % choices.size()]();
      CheckLanes();
    }
    return std::all_of(transfers_.begin(), transfers_.end(),
                       [](const ModelTransfer& transfer) { return transfer.ended; });
  }

 private:
  ModelTransfer& At(int item) { return transfers_[static_cast<size_t>(item)]; }

  std::vector<Lanes::Lane> LanesHere(const ModelTransfer& transfer) const {
    std::vector<Lanes::Lane> lanes;
    if (transfer.send_has_window) lanes.emplace_back(transfer.from, true);
    if (transfer.receive_has_window) lanes.emplace_back(transfer.to, false);
    return lanes;
  }
  std::vector<Lanes::Lane> SendLane(const ModelTransfer& transfer) const {
    if (!transfer.send_has_window) return {};
    return {Lanes::Lane(transfer.from, true)};
  }
  std::vector<Lanes::Lane> ReceiveLane(const ModelTransfer& transfer) const {
    if (!transfer.receive_has_window) return {};
    return {Lanes::Lane(transfer.to, false)};
  }

  void AddChoices(int item, std::vector<std::function<void()>>* choices) {
    ModelTransfer& transfer = At(item);
    if (transfer.ended) return;
    if (!transfer.send_posted) {
      choices->push_back([&transfer] { transfer.send_posted = true; });
    }
    if (!transfer.receive_posted) {
      choices->push_back([&transfer] { transfer.receive_posted = true; });
    }
    if (!transfer.send_posted || !transfer.receive_posted) return;
    transfer.far() ? AddFarChoices(item, choices) : AddNearChoices(item, choices);
  }

  void AddNearChoices(int item, std::vector<std::function<void()>>* choices) {
    ModelTransfer& transfer = At(item);
    if (!transfer.entered) {
      choices->push_back([this, item, &transfer] {
        transfer.entered = true;
        near_.Enter(item, LanesHere(transfer));
      });
    } else if (UnderWay(item)) {
      choices->push_back([this, item, &transfer] {
        transfer.ended = true;
        near_.Leave(item, LanesHere(transfer));
      });
    }
  }

  void AddFarChoices(int item, std::vector<std::function<void()>>* choices) {
    ModelTransfer& transfer = At(item);
    if (!transfer.entered) {
      choices->push_back([this, item, &transfer] {
        transfer.entered = true;
        far_.Enter(item, ReceiveLane(transfer));
      });
    } else if (!transfer.answered) {
      if (!far_.IsFirst(item, ReceiveLane(transfer))) return;
      choices->push_back([&transfer] { transfer.answered = true; });
    } else if (!transfer.send_entered) {
      choices->push_back([this, item, &transfer] {
        transfer.send_entered = true;
        far_.Enter(item, SendLane(transfer));
      });
    } else if (UnderWay(item)) {
      choices->push_back([this, item, &transfer] {
        transfer.ended = true;
        far_.Leave(item, SendLane(transfer));
        far_.Leave(item, ReceiveLane(transfer));
      });
    }
  }

  bool UnderWay(int item) {
    const ModelTransfer& transfer = At(item);
    if (transfer.ended) return false;
    if (!transfer.far()) return transfer.entered && near_.IsFirst(item, LanesHere(transfer));
    return transfer.send_entered && far_.IsFirst(item, SendLane(transfer)) &&
           far_.IsFirst(item, ReceiveLane(transfer));
  }

  void CheckLanes() {
    std::vector<std::pair<bool, Lanes::Lane>> used;
    for (size_t i = 0; i < transfers_.size(); ++i) {
      if (!UnderWay(static_cast<int>(i))) continue;
      for (const Lanes::Lane& lane : LanesHere(transfers_[i])) {
        used.emplace_back(transfers_[i].far(), lane);
      }
    }
    std::sort(used.begin(), used.end());
    EXPECT_EQ(std::adjacent_find(used.begin(), used.end()), used.end()) << "two in one lane";
  }

  std::vector<ModelTransfer> transfers_;
  std::mt19937 random_;
  Lanes near_;
  Lanes far_;
};

TEST(PairLanesModel, EveryProgrammeEnds) {
  const uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  for (int programme = 0; programme < (kSanitized ? 3'000 : 20'000); ++programme) {
    std::vector<ModelTransfer> transfers(1 + random() % 12);
    for (ModelTransfer& transfer : transfers) {
      transfer.from = static_cast<int>(random() % kModelRanks);
      transfer.to = static_cast<int>(random() % kModelRanks);
      transfer.send_has_window = random() % 4 != 0;
      transfer.receive_has_window = random() % 4 != 0;
    }
    ASSERT_TRUE(LanesModel(transfers, random()).Run())
        << "seed " << seed << ", programme " << programme;
  }
}

}  // namespace
}  // namespace harmonaize::daemon
