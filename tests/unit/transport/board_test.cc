#include <gtest/gtest.h>

#include <vector>

#include "src/transport/link/message_board.h"

namespace harmonaize::transport {
namespace {

TEST(MessageBoard, MatchesByPeerAndTagInTheOrderPosted) {
  MessageBoard board;
  Request* first = board.NewRequest(false, 1, {5, 0, 0}, nullptr, 0, {});
  Request* second = board.NewRequest(false, 1, {5, 0, 0}, nullptr, 0, {});
  Request* other_peer = board.NewRequest(false, 2, {5, 0, 0}, nullptr, 0, {});
  Request* other_part = board.NewRequest(false, 1, {5, 0, 1}, nullptr, 0, {});
  for (Request* one : {first, second, other_peer, other_part}) board.Post(one);
  EXPECT_EQ(board.TakePosted(1, {5, 1, 0}), nullptr);
  EXPECT_EQ(board.TakePosted(1, {5, 0, 0}), first);
  EXPECT_EQ(board.TakePosted(1, {5, 0, 0}), second);
  EXPECT_EQ(board.TakePosted(1, {5, 0, 0}), nullptr);
  EXPECT_EQ(board.TakePosted(2, {5, 0, 0}), other_peer);
  EXPECT_EQ(board.TakePosted(1, {5, 0, 1}), other_part);
}

TEST(MessageBoard, ASlotIsStaleOnceItsRequestHasEnded) {
  MessageBoard board;
  int calls = 0;
  const Completion count{
      [](void* context, const Status&, size_t) { ++*static_cast<int*>(context); }, &calls};
  Request* request = board.NewRequest(true, 1, {}, nullptr, 0, count);
  const uint64_t slot = request->slot();
  EXPECT_EQ(board.Find(slot), request);
  board.Complete(request, Status::Ok());
  EXPECT_EQ(board.Find(slot), nullptr);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(board.RunCompletions(), 1);
  EXPECT_EQ(calls, 1);
  Request* next = board.NewRequest(true, 1, {}, nullptr, 0, {});
  EXPECT_EQ(next, request) << "requests are pooled";
  EXPECT_EQ(board.Find(slot), nullptr);
  EXPECT_EQ(board.Find(~uint64_t{0}), nullptr);
}

TEST(MessageBoard, FindsWhatAnOperationHas) {
  MessageBoard board;
  std::vector<Request*> requests;
  // Enough that the table of operations grows.
  for (uint64_t i = 0; i < 20'000; ++i) {
    const uint64_t operation = i % 5'000;
    requests.push_back(board.NewRequest(i % 2 == 0, 1 + i % 3, {operation, 0, 0}, nullptr, 0, {}));
    board.AddArrival(board.NewArrival(1 + i % 3, {operation, 1, 0}, 0));
  }
  board.Complete(requests[7], Status::Ok());  // of peer 2, operation 7
  for (PeerId peer = 1; peer <= 3; ++peer) {
    std::vector<Request*> expected;
    for (uint64_t i = 7; i < requests.size(); i += 5'000) {
      if (1 + i % 3 == peer && i != 7) expected.push_back(requests[i]);
    }
    std::vector<Request*> found;
    board.ForEachRequestOf(peer, 7, [&](Request* request) {
      found.push_back(request);
      board.Complete(request, Status::Ok());
    });
    EXPECT_EQ(found, expected);
    board.ForEachRequestOf(peer, 7, [](Request*) { ADD_FAILURE() << "it has ended"; });
  }
  const size_t before = board.arrivals_waiting();
  size_t taken = 0;
  for (PeerId peer = 1; peer <= 3; ++peer) {
    board.TakeArrivalsOf(peer, 7, [&](Arrival* arrival) {
      EXPECT_EQ(arrival->peer, peer);
      EXPECT_EQ(arrival->tag.operation, 7u);
      board.Free(arrival);
      ++taken;
    });
  }
  EXPECT_EQ(taken, 4u);
  EXPECT_EQ(board.arrivals_waiting(), before - 4);
}

TEST(MessageBoard, GrowsWithWhatIsPosted) {
  MessageBoard board;
  std::vector<Request*> requests;
  for (uint64_t i = 0; i < 20000; ++i) {
    requests.push_back(board.NewRequest(false, i % 7, {i, 0, 0}, nullptr, 0, {}));
    board.Post(requests.back());
    Arrival* arrival = board.NewArrival(i % 7, {i, 1, 0}, 0);
    board.AddArrival(arrival);
  }
  for (uint64_t i = 0; i < 20000; ++i) {
    ASSERT_EQ(board.TakePosted(i % 7, {i, 0, 0}), requests[i]);
    Arrival* arrival = board.TakeArrival(i % 7, {i, 1, 0});
    ASSERT_NE(arrival, nullptr);
    board.Free(arrival);
  }
  EXPECT_EQ(board.arrivals_waiting(), 0u);
}

TEST(MessageBoard, RemembersTheLastCancelledOperations) {
  MessageBoard board;
  EXPECT_FALSE(board.IsCancelled(1, 5));
  board.MarkCancelled(1, 5);
  EXPECT_TRUE(board.IsCancelled(1, 5));
  EXPECT_FALSE(board.IsCancelled(2, 5));
  constexpr uint64_t kMany = RecentOperations::kRemembered;
  for (uint64_t i = 100; i < 100 + 3 * kMany; ++i) {
    board.MarkCancelled(1, i);
    board.MarkCancelled(1, i);  // which counts once
    ASSERT_TRUE(board.IsCancelled(1, i > 100 + kMany ? i - kMany : i)) << i;
  }
  EXPECT_FALSE(board.IsCancelled(1, 5));
  EXPECT_FALSE(board.IsCancelled(2, 100 + 3 * kMany - 1));
}

TEST(MessageBoard, WhatCompletionsPostIsForTheNextRound) {
  MessageBoard board;
  static MessageBoard* current;
  current = &board;
  const Completion again{[](void*, const Status&, size_t) {
                           current->Complete(current->NewRequest(true, 1, {}, nullptr, 0, {}),
                                             Status::Ok());
                         },
                         nullptr};
  board.Complete(board.NewRequest(true, 1, {}, nullptr, 0, again), Status::Ok());
  EXPECT_EQ(board.RunCompletions(), 1);
  EXPECT_TRUE(board.HasCompletions());
  EXPECT_EQ(board.RunCompletions(), 1);
  EXPECT_FALSE(board.HasCompletions());
}

}  // namespace
}  // namespace harmonaize::transport
