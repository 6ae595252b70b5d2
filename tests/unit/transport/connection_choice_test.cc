// Which connections are used, on simulated ways.

#include "src/transport/link/connection_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

namespace harmonaize::transport {
namespace {

constexpr double kMessage = 65536;
constexpr size_t kUnderWay = 12;
constexpr uint64_t kStepNs = 100'000;
constexpr uint64_t kSecond = 1'000'000'000;

/// A sender that always has a dozen messages under way, over connections that share ways fairly.
/// What a connection has in the network is bounded; round trips are averaged as TCP does.
class Sender final : private ConnectionChoice::Connections {
 public:
  /// `way_of`: each connection's.
  Sender(std::vector<double> bytes_per_second, std::vector<size_t> way_of) {
    for (const double rate : bytes_per_second) rates_.push_back(rate * 1e-9);
    for (const size_t way : way_of) {
      connections_.push_back({.way = way});
      choice_.Add();
    }
  }

  void SetRate(size_t way, double bytes_per_second) { rates_[way] = bytes_per_second * 1e-9; }
  size_t in_use() const { return choice_.in_use(); }

  /// Bytes per second that arrived in so long.
  double Run(uint64_t nanoseconds) {
    double arrived = 0;
    for (Connection& one : connections_) one.arrived = 0;
    for (const uint64_t end = now_ns_ + nanoseconds; now_ns_ < end; now_ns_ += kStepNs) {
      while (under_way_ < kUnderWay) {
        connections_[choice_.Choose(static_cast<size_t>(kMessage), now_ns_)].messages.push_back(
            kMessage);
        ++under_way_;
      }
      for (size_t way = 0; way < rates_.size(); ++way) arrived += Serve(way);
    }
    return arrived * 1e9 / static_cast<double>(nanoseconds);
  }
  double ArrivedBy(size_t connection) const { return connections_[connection].arrived; }

 private:
  struct Connection {
    size_t way = 0;
    std::deque<double> messages{};  // what is left of each
    double queueing_ns = 0;
    double rate = 0;
    double arrived = 0;

    double bytes() const {
      double all = 0;
      for (const double one : messages) all += one;
      return all;
    }
    double in_network() const { return std::min(bytes(), 131072.0); }
  };

  Backlog BacklogOf(size_t connection, uint64_t /*now_ns*/) override {
    const Connection& one = connections_[connection];
    return {.bytes = static_cast<size_t>(one.bytes()),
            .queueing_ns = static_cast<uint64_t>(one.queueing_ns),
            .bytes_per_ns = one.rate};
  }

  /// One step; returns the bytes that arrived.
  double Serve(size_t way) {
    double queue = 0;
    int busy = 0;
    for (const Connection& one : connections_) {
      if (one.way != way || one.messages.empty()) continue;
      queue += one.in_network();
      ++busy;
    }
    double arrived = 0;
    for (Connection& one : connections_) {
      if (one.way != way || one.messages.empty()) continue;
      one.rate = rates_[way] / busy;
      double left = one.rate * kStepNs;
      const double seen = 1 - std::pow(0.875, left / 9000);
      one.queueing_ns += seen * (queue / rates_[way] - one.queueing_ns);
      while (left > 0 && !one.messages.empty()) {
        const double part = std::min(left, one.messages.front());
        one.messages.front() -= part;
        left -= part;
        arrived += part;
        one.arrived += part;
        if (one.messages.front() > 0) continue;
        one.messages.pop_front();
        --under_way_;
      }
    }
    return arrived;
  }

  std::vector<double> rates_;  // bytes per nanosecond
  std::vector<Connection> connections_;
  ConnectionChoice choice_{this};
  size_t under_way_ = 0;
  uint64_t now_ns_ = kSecond;
};

TEST(ConnectionChoiceTest, OnOneWayOneConnectionIsUsed) {
  Sender sender({62.5e6}, {0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_NEAR(sender.Run(kSecond), 62.5e6, 1e6);
  EXPECT_EQ(sender.in_use(), 1u);
  EXPECT_GT(sender.ArrivedBy(0), 0.9 * 62.5e6);
  for (size_t i = 1; i < 8; ++i) EXPECT_GT(sender.ArrivedBy(i), 0) << "never tried: " << i;
}

TEST(ConnectionChoiceTest, EqualWaysAreAllUsed) {
  Sender two({62.5e6, 62.5e6}, {0, 0, 1, 0, 1, 1, 0, 1});
  two.Run(kSecond / 2);
  EXPECT_GT(two.Run(kSecond), 0.95 * 125e6);
  Sender four({30e6, 30e6, 30e6, 30e6}, {0, 1, 1, 2, 0, 3, 2, 3});
  four.Run(kSecond);
  EXPECT_GT(four.Run(kSecond), 0.95 * 120e6);
}

TEST(ConnectionChoiceTest, UnequalWaysGetWhatTheyCarry) {
  Sender narrow_first({12.5e6, 62.5e6}, {0, 0, 1, 0, 1, 1, 0, 1});
  narrow_first.Run(kSecond);
  EXPECT_GT(narrow_first.Run(kSecond), 0.9 * 75e6);
  // A message alone on a narrow way makes a queue as long as that of the wide one: it is left.
  Sender wide_first({62.5e6, 12.5e6}, {0, 0, 1, 0, 1, 1, 0, 1});
  wide_first.Run(kSecond);
  EXPECT_GT(wide_first.Run(kSecond), 0.95 * 62.5e6);
  Sender half_as_wide({62.5e6, 31.25e6}, {0, 0, 1, 0, 1, 1, 0, 1});
  half_as_wide.Run(kSecond);
  EXPECT_GT(half_as_wide.Run(kSecond), 0.95 * 62.5e6);
}

TEST(ConnectionChoiceTest, AWayThatWasCrowdedIsTriedAgain) {
  Sender sender({62.5e6, 2e6}, {0, 1});
  sender.Run(kSecond);
  sender.SetRate(1, 62.5e6);
  sender.Run(ConnectionChoice::kRestNs);
  EXPECT_GT(sender.Run(kSecond), 0.95 * 125e6);
}

// The same two ways become one: what was in use is given up, and found useless.
TEST(ConnectionChoiceTest, WhatIsInUseIsDoubtedInTime) {
  Sender sender({62.5e6, 62.5e6}, {0, 1, 1, 1});
  sender.Run(kSecond);
  EXPECT_GT(sender.in_use(), 1u);
  sender.SetRate(1, 0.5e6);
  sender.Run(2 * ConnectionChoice::kBelievedNs);
  EXPECT_GT(sender.Run(kSecond), 0.9 * 62.5e6);
}

/// Backlogs as a test states them.
struct Stated final : ConnectionChoice::Connections {
  Backlog BacklogOf(size_t connection, uint64_t /*now_ns*/) override {
    ++questions;
    return backlogs[connection];
  }
  std::vector<Backlog> backlogs = std::vector<Backlog>(3);
  int questions = 0;
};

TEST(ConnectionChoiceTest, AtRestTheFirstIsTakenAfterOneQuestion) {
  Stated stated;
  ConnectionChoice choice(&stated);
  for (int i = 0; i < 3; ++i) choice.Add();
  EXPECT_EQ(choice.Choose(65536, kSecond), 0u);
  EXPECT_EQ(stated.questions, 1);
  // A backlog of which no queue comes is no reason to look further.
  stated.backlogs[0] = {.bytes = 1 << 20, .queueing_ns = ConnectionChoice::kNoQueueNs - 1};
  EXPECT_EQ(choice.Choose(65536, kSecond), 0u);
  EXPECT_EQ(stated.questions, 2);
}

TEST(ConnectionChoiceTest, ATrialIsAFewMessagesOneAfterTheOther) {
  Stated stated;
  ConnectionChoice choice(&stated);
  for (int i = 0; i < 3; ++i) choice.Add();
  stated.backlogs[0] = {.bytes = 1 << 20, .queueing_ns = 4'000'000};
  for (int i = 0; i < ConnectionChoice::kTrialMessages; ++i) {
    stated.backlogs[1].bytes = 0;
    EXPECT_EQ(choice.Choose(65536, kSecond), 1u);
    stated.backlogs[1].bytes = 65536;
    EXPECT_EQ(choice.Choose(65536, kSecond), 0u);
  }
  stated.backlogs[1] = {.bytes = 0, .queueing_ns = 3'000'000};  // no better
  EXPECT_EQ(choice.Choose(65536, kSecond), 0u);
  EXPECT_EQ(choice.in_use(), 1u);
  EXPECT_EQ(choice.Choose(65536, kSecond), 2u);  // the next one
}

TEST(ConnectionChoiceTest, APauseAfterATrialDoesNotSpoilIt) {
  Stated stated;
  ConnectionChoice choice(&stated);
  for (int i = 0; i < 2; ++i) choice.Add();
  stated.backlogs[0] = {.bytes = 1 << 20, .queueing_ns = 4'000'000};
  for (int i = 0; i < ConnectionChoice::kTrialMessages; ++i) {
    EXPECT_EQ(choice.Choose(65536, kSecond), 1u);
  }
  EXPECT_EQ(choice.Choose(65536, 3 * kSecond), 1u);
  EXPECT_EQ(choice.in_use(), 2u);
}

TEST(ConnectionChoiceTest, ATrialThatTakesTooLongIsOver) {
  Stated stated;
  ConnectionChoice choice(&stated);
  for (int i = 0; i < 3; ++i) choice.Add();
  stated.backlogs[0] = {.bytes = 1 << 20, .queueing_ns = 4'000'000};
  EXPECT_EQ(choice.Choose(65536, kSecond), 1u);
  stated.backlogs[1].bytes = 65536;
  EXPECT_EQ(choice.Choose(65536, kSecond + 3'000'000), 0u);
  // The rail's rate is about one message in 4 ms by now, which the message is given as well.
  EXPECT_EQ(choice.Choose(65536, kSecond + 30'000'000), 0u);
  EXPECT_EQ(choice.Choose(65536, kSecond + 30'000'000), 2u);
  // It rests, even when what was sent has come through.
  stated.backlogs[1] = {};
  stated.backlogs[2].bytes = 65536;
  EXPECT_EQ(choice.Choose(65536, kSecond + 90'000'000), 0u);
  EXPECT_EQ(choice.Choose(65536, kSecond + 90'000'000), 0u);
  EXPECT_EQ(choice.Choose(65536, kSecond + 31'000'000 + ConnectionChoice::kRestNs), 1u);
}

}  // namespace
}  // namespace harmonaize::transport
