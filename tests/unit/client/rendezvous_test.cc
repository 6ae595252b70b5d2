// Threads go through the same tickets at random speeds, decline, post, lose patience and disagree
// at random, and must all come to the same decision about each.

#include "src/client/inline/rendezvous.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "src/base/asymmetric_fence.h"
#include "tests/support/sanitized.h"

namespace harmonaize {
namespace {

using State = Rendezvous::State;

struct Space {
  std::atomic<uint64_t> decision{0};
  std::unique_ptr<InlineRank[]> ranks;
  int count;

  explicit Space(int participants)
      : ranks(std::make_unique<InlineRank[]>(static_cast<size_t>(participants))),
        count(participants) {}
  Rendezvous At(uint64_t slot, int own) {
    return Rendezvous(&decision, &ranks[0].lines[slot % kInlineSlots], sizeof(InlineRank), count,
                      own);
  }
};

struct Habits {
  double declines = 0;   // of all tickets
  double disagrees = 0;  // of those posted
  int patience = 0;      // looks before it withdraws, at most; 0: any number
  double dawdles = 0;    // gives way before a step
};

/// Goes through `tickets` tickets, and gives the decision of each.
class Participant {
 public:
  Participant(Space& space, int number, Habits habits)
      : space_(space),
        number_(number),
        habits_(habits),
        random_(static_cast<unsigned>(number) + 17) {}

  std::vector<State> Run(uint64_t tickets) {
    std::vector<State> decisions;
    for (uint64_t ticket = 1; ticket <= tickets; ++ticket) {
      decisions.push_back(Go(ticket));
      if (decisions.back() == State::kInline) ++slot_;
    }
    return decisions;
  }

 private:
  bool Chance(double of) { return std::uniform_real_distribution<>()(random_) < of; }
  void Dawdle() {
    while (Chance(habits_.dawdles)) sched_yield();
  }

  State Go(uint64_t ticket) {
    Rendezvous rendezvous = space_.At(slot_, number_);
    Dawdle();
    if (rendezvous.Declined(ticket)) return State::kOffload;
    if (Chance(habits_.declines)) {
      rendezvous.Decline(ticket);
      return State::kOffload;
    }
    InlineLine& line = rendezvous.own_line();
    line.call.store(Chance(habits_.disagrees) ? 1 : 0, std::memory_order_relaxed);
    line.count.store(ticket, std::memory_order_relaxed);
    line.scalar = ticket * 100 + static_cast<uint64_t>(number_);
    rendezvous.Post(ticket);
    const State state = Await(rendezvous, ticket);
    if (state == State::kOffload) return state;
    if (!rendezvous.Agree(ticket)) {
      Dawdle();
      rendezvous.Decline(ticket);
      rendezvous.Leave(ticket);
      return State::kOffload;
    }
    Dawdle();
    for (int i = 0; i < space_.count; ++i) {
      EXPECT_EQ(rendezvous.line_of(i).scalar, ticket * 100 + static_cast<uint64_t>(i));
    }
    return State::kInline;
  }

  State Await(Rendezvous& rendezvous, uint64_t ticket) {
    const unsigned patience =
        habits_.patience == 0 ? ~0u : random_() % static_cast<unsigned>(habits_.patience);
    for (unsigned looks = 0;; ++looks) {
      const State state = rendezvous.Poll(ticket);
      if (state != State::kWaiting) return state;
      if (looks >= patience) return rendezvous.Withdraw(ticket);
      if (looks % 16 == 15) sched_yield();
    }
  }

  Space& space_;
  const int number_;
  const Habits habits_;
  std::mt19937 random_;
  uint64_t slot_ = 0;
};

struct Outcome {
  uint64_t went_inline = 0;
  uint64_t offloaded = 0;
};

Outcome Race(int participants, uint64_t tickets, Habits habits) {
  JoinAsymmetricFences();
  Space space(participants);
  std::vector<std::vector<State>> decisions(static_cast<size_t>(participants));
  std::vector<std::thread> threads;
  for (int i = 0; i < participants; ++i) {
    threads.emplace_back(
        [&, i] { decisions[static_cast<size_t>(i)] = Participant(space, i, habits).Run(tickets); });
  }
  for (std::thread& thread : threads) thread.join();
  Outcome outcome;
  for (uint64_t ticket = 0; ticket < tickets; ++ticket) {
    for (const std::vector<State>& one : decisions) {
      EXPECT_EQ(one[ticket], decisions[0][ticket]) << "ticket " << ticket + 1;
      EXPECT_NE(one[ticket], State::kWaiting);
    }
    ++(decisions[0][ticket] == State::kInline ? outcome.went_inline : outcome.offloaded);
  }
  return outcome;
}

constexpr uint64_t kTickets = kSanitized ? 1500 : 20000;

TEST(Rendezvous, WithoutTroubleEverythingGoesInline) {
  for (const int participants : {1, 2, 3}) {
    EXPECT_EQ(Race(participants, kTickets, {}).offloaded, 0u) << participants;
  }
}

TEST(Rendezvous, OneThatDeclinesTakesAllAlong) {
  for (const int participants : {2, 3, 5}) {
    const Outcome outcome = Race(participants, kTickets, {.declines = 0.2, .dawdles = 0.1});
    EXPECT_GT(outcome.went_inline, 0u);
    EXPECT_GT(outcome.offloaded, 0u);
  }
}

TEST(Rendezvous, ThoseWhoLosePatienceAgreeWithTheRest) {
  for (const int participants : {2, 3, 5}) {
    // On a busy machine nobody may ever be there in time.
    EXPECT_GT(Race(participants, kTickets, {.patience = 100, .dawdles = 0.2}).offloaded, 0u);
  }
}

TEST(Rendezvous, DisagreementIsSeenByAll) {
  for (const int participants : {2, 3, 5}) {
    const Outcome outcome = Race(participants, kTickets, {.disagrees = 0.1, .dawdles = 0.1});
    EXPECT_GT(outcome.went_inline, 0u);
    EXPECT_GT(outcome.offloaded, 0u);
  }
}

TEST(Rendezvous, AllTroubleAtOnce) {
  for (const int participants : {2, 3, 4, 8}) {
    Race(participants, kTickets,
         {.declines = 0.05, .disagrees = 0.05, .patience = 100, .dawdles = 0.2});
  }
}

}  // namespace
}  // namespace harmonaize
