// The protocol by which plans are switched, as a model: all orders in which hosts begin operations,
// get ready or fail to, leave, and messages arrive, for two to four hosts. The state machines are
// the daemon's own.
//
// The bounds are such that the test takes seconds. One run with larger bounds (2 hosts, 4
// operations, 3 rounds; 3 hosts, 3 operations, 2 rounds; 4 hosts, 2 operations; each with one that
// refuses and one that leaves; 7 minutes) found no contradiction, and no end before all was done.

#include "daemon/plans/plan_switch.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/support/sanitized.h"

namespace harmonaize::daemon {
namespace {

struct Message {
  enum Kind { kPropose, kPromise, kRefuse, kCommit, kCallOff, kLeft } kind;
  uint64_t round = 0;
  uint64_t from = 0;
};

struct Host {
  SwitchFollower follower;
  std::vector<uint64_t> begin_at = {0};  // of the versions, as PlanTable has them
  std::vector<uint64_t> round_of_version = {0};
  std::vector<uint64_t> begun_by;  // the round of the version, by operation
  uint64_t ahead = 0;
  bool getting_ready = false;
  bool left = false;
  std::deque<Message> to_home;
  std::deque<Message> from_home;
};

struct World {
  std::vector<Host> hosts;
  SwitchLeader leader{0};
  int rounds_left = 0;
  int refusals_left = 0;
  int leavers_left = 0;
  bool somebody_left = false;  // as the home knows
  std::vector<uint64_t> left_after;

  // Worlds with equal texts behave equally.
  std::string Text() const;
};

struct Limits {
  int hosts;
  uint64_t operations;
  int rounds;
  int refusals;
  int leavers;
};

std::string World::Text() const {
  std::string text;
  const auto add = [&](uint64_t number) { text += static_cast<char>('0' + number); };
  // A follower's state shows in its answers.
  for (const Host& host : hosts) {
    add(host.follower.round());
    add(host.follower.under_way());
    for (uint64_t s = 0; s < 8; ++s) add(host.follower.MayBegin(s));
    add(host.getting_ready);
    add(host.left);
    for (const uint64_t begin : host.begin_at) add(begin);
    text += '/';
    for (const uint64_t round : host.begun_by) add(round);
    for (const auto* queue : {&host.to_home, &host.from_home}) {
      text += '|';
      for (const Message& message : *queue) {
        add(static_cast<uint64_t>(message.kind));
        add(message.round);
        add(message.from);
      }
    }
    text += ';';
  }
  add(leader.under_way());
  for (const int left : {rounds_left, refusals_left, leavers_left})
    add(static_cast<uint64_t>(left));
  add(somebody_left);
  return text;
}

void TellAll(World* world, const std::optional<SwitchLeader::Settlement>& settlement) {
  if (!settlement.has_value()) return;
  const bool commit = settlement->from.has_value();
  for (Host& host : world->hosts) {
    host.from_home.push_back({commit ? Message::kCommit : Message::kCallOff, settlement->round,
                              settlement->from.value_or(0)});
  }
}

void AtHome(World* world, size_t from, const Message& message) {
  const int host = static_cast<int>(from);
  switch (message.kind) {
    case Message::kPromise:
      return TellAll(world, world->leader.OnPromise(host, message.round, message.from));
    case Message::kRefuse: return TellAll(world, world->leader.OnRefusal(message.round));
    default: world->somebody_left = true; return TellAll(world, world->leader.CallOff());
  }
}

void AtHost(Host* host, const Message& message) {
  if (message.kind == Message::kPropose) {
    host->follower.Propose(message.round);
    host->getting_ready = true;
    return;
  }
  if (!host->follower.Settle(message.round)) return;
  host->getting_ready = false;
  if (message.kind == Message::kCallOff) return;
  host->begin_at.push_back(message.from);
  host->round_of_version.push_back(message.round);
}

/// Visits every world that may follow this one.
void ForEachStep(const World& world, const Limits& limits,
                 const std::function<void(World next)>& visit) {
  const auto with = [&](const std::function<void(World*)>& change) {
    World next = world;
    change(&next);
    visit(std::move(next));
  };
  if (!world.leader.under_way() && world.rounds_left > 0 && !world.somebody_left) {
    with([](World* next) {
      --next->rounds_left;
      const uint64_t round = next->leader.Begin();
      for (Host& host : next->hosts) host.from_home.push_back({Message::kPropose, round, 0});
    });
  }
  for (size_t h = 0; h < world.hosts.size(); ++h) {
    const Host& host = world.hosts[h];
    const uint64_t next_operation = host.begun_by.size();
    if (!host.left && next_operation < limits.operations &&
        host.follower.MayBegin(next_operation)) {
      with([h, next_operation](World* next) {
        Host& one = next->hosts[h];
        one.begun_by.push_back(one.round_of_version[VersionFor(one.begin_at, next_operation)]);
      });
    }
    if (host.getting_ready) {
      with([h](World* next) {
        Host& one = next->hosts[h];
        one.getting_ready = false;
        const uint64_t round = one.follower.round();
        const auto promise = one.follower.Promise(round, one.begun_by.size(), one.ahead);
        if (promise.has_value()) one.to_home.push_back({Message::kPromise, round, *promise});
      });
    }
    if (host.getting_ready && world.refusals_left > 0) {
      with([h](World* next) {
        --next->refusals_left;
        Host& one = next->hosts[h];
        one.getting_ready = false;
        const uint64_t round = one.follower.round();
        if (one.follower.Refuse(round)) one.to_home.push_back({Message::kRefuse, round, 0});
      });
    }
    if (!host.left && world.leavers_left > 0) {
      with([h](World* next) {
        --next->leavers_left;
        next->hosts[h].left = true;
        next->hosts[h].to_home.push_back({Message::kLeft, 0, 0});
      });
    }
    if (!host.to_home.empty()) {
      with([h](World* next) {
        const Message message = next->hosts[h].to_home.front();
        next->hosts[h].to_home.pop_front();
        AtHome(next, h, message);
      });
    }
    if (!host.from_home.empty()) {
      with([h](World* next) {
        const Message message = next->hosts[h].from_home.front();
        next->hosts[h].from_home.pop_front();
        AtHost(&next->hosts[h], message);
      });
    }
  }
}

/// Returns an operation that two hosts have begun by different versions; "" if there is none.
std::string Contradiction(const World& world) {
  for (size_t a = 0; a < world.hosts.size(); ++a) {
    for (size_t b = a + 1; b < world.hosts.size(); ++b) {
      const auto& one = world.hosts[a].begun_by;
      const auto& other = world.hosts[b].begun_by;
      for (size_t s = 0; s < std::min(one.size(), other.size()); ++s) {
        if (one[s] == other[s]) continue;
        return "operation " + std::to_string(s) + " at hosts " + std::to_string(a) + " and " +
               std::to_string(b);
      }
    }
  }
  return "";
}

/// Goes through all worlds and returns their number. A world in which nothing can happen any more
/// has to be one in which all is done.
size_t Explore(const Limits& limits, const std::vector<uint64_t>& ahead) {
  World first;
  first.hosts.resize(static_cast<size_t>(limits.hosts));
  for (size_t h = 0; h < first.hosts.size(); ++h) first.hosts[h].ahead = ahead[h];
  first.leader = SwitchLeader(limits.hosts);
  first.rounds_left = limits.rounds;
  first.refusals_left = limits.refusals;
  first.leavers_left = limits.leavers;
  std::unordered_set<std::string> seen = {first.Text()};
  std::deque<World> waiting = {first};
  while (!waiting.empty()) {
    const World world = std::move(waiting.front());
    waiting.pop_front();
    bool moves = false;
    ForEachStep(world, limits, [&](World next) {
      moves = true;
      if (seen.insert(next.Text()).second) waiting.push_back(std::move(next));
    });
    const std::string contradiction = Contradiction(world);
    EXPECT_EQ(contradiction, "") << world.Text();
    if (!contradiction.empty()) return seen.size();
    if (moves) continue;
    for (const Host& host : world.hosts) {
      EXPECT_FALSE(host.follower.under_way()) << world.Text();
      EXPECT_TRUE(host.left || host.begun_by.size() == limits.operations) << world.Text();
    }
    if (::testing::Test::HasFailure()) return seen.size();
  }
  return seen.size();
}

TEST(PlanSwitchModel, TwoHosts) {
  // One thread, and nothing but values: the release build will do for more.
  if (kSanitized) {
    EXPECT_GT(
        Explore({.hosts = 2, .operations = 2, .rounds = 1, .refusals = 1, .leavers = 1}, {1, 0}),
        100u);
    return;
  }
  for (const std::vector<uint64_t>& ahead : {std::vector<uint64_t>{1, 0}, {0, 0}, {2, 2}, {0, 2}}) {
    EXPECT_GT(
        Explore({.hosts = 2, .operations = 3, .rounds = 2, .refusals = 1, .leavers = 1}, ahead),
        1000u);
  }
}

TEST(PlanSwitchModel, ThreeHosts) {
  if (kSanitized) GTEST_SKIP() << "as for two";
  EXPECT_GT(
      Explore({.hosts = 3, .operations = 3, .rounds = 1, .refusals = 0, .leavers = 0}, {1, 0, 2}),
      1000u);
  EXPECT_GT(
      Explore({.hosts = 3, .operations = 2, .rounds = 1, .refusals = 1, .leavers = 1}, {0, 1, 0}),
      1000u);
}

TEST(PlanSwitchModel, FourHosts) {
  if (kSanitized) GTEST_SKIP() << "as for two";
  EXPECT_GT(Explore({.hosts = 4, .operations = 2, .rounds = 1, .refusals = 0, .leavers = 0},
                    {0, 1, 0, 1}),
            1000u);
}

// The exploration finds what it is for: without a promise kept there are contradictions.
TEST(PlanSwitchModel, ABrokenPromiseWouldBeFound) {
  SwitchLeader leader(2);
  World world;
  world.hosts.resize(2);
  const uint64_t round = leader.Begin();
  for (Host& host : world.hosts) host.follower.Propose(round);
  const auto first = world.hosts[0].follower.Promise(round, 1, 0);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(world.hosts[0].follower.MayBegin(1));
  world.hosts[0].begun_by = {0, 0};  // all the same
  EXPECT_FALSE(leader.OnPromise(0, round, *first).has_value());
  const auto settled = leader.OnPromise(1, round, *world.hosts[1].follower.Promise(round, 0, 0));
  ASSERT_TRUE(settled.has_value() && settled->from.has_value());
  AtHost(&world.hosts[1], {Message::kCommit, round, *settled->from});
  for (uint64_t s = 0; s < 2; ++s) {
    Host& host = world.hosts[1];
    host.begun_by.push_back(host.round_of_version[VersionFor(host.begin_at, s)]);
  }
  EXPECT_NE(Contradiction(world), "");
}

TEST(PlanSwitch, WhatIsOverIsIgnored) {
  SwitchFollower follower;
  follower.Propose(1);
  EXPECT_TRUE(follower.Settle(1));  // called off while it was getting ready
  EXPECT_FALSE(follower.Promise(1, 5, 0).has_value());
  EXPECT_FALSE(follower.Refuse(1));
  follower.Propose(2);
  EXPECT_FALSE(follower.Promise(1, 5, 0).has_value());
  EXPECT_FALSE(follower.Settle(1));
  EXPECT_EQ(follower.Promise(2, 5, 3), std::optional<uint64_t>(8));
  EXPECT_TRUE(follower.MayBegin(7));
  EXPECT_FALSE(follower.MayBegin(8));
  EXPECT_TRUE(follower.Settle(2));
  EXPECT_TRUE(follower.MayBegin(8));
}

TEST(PlanSwitch, LaterRoundsGoBeforeEarlierOnes) {
  EXPECT_EQ(VersionFor({0}, 100), 0u);
  EXPECT_EQ(VersionFor({0, 10}, 9), 0u);
  EXPECT_EQ(VersionFor({0, 10}, 10), 1u);
  EXPECT_EQ(VersionFor({0, 10, 8}, 7), 0u);
  EXPECT_EQ(VersionFor({0, 10, 8}, 9), 2u);
  EXPECT_EQ(VersionFor({0, 10, 8}, 12), 2u);
}

}  // namespace
}  // namespace harmonaize::daemon
