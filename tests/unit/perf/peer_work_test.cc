// What the programs of perf/compare move and how they check it, against the collectives'
// definitions.

#include "perf/compare/peer_work.h"

#include <gtest/gtest.h>

#include <vector>

namespace harmonaize::perf {
namespace {

using Floats = std::vector<float>;

Floats Block(const Floats& buffer, int block, size_t count) {
  const auto begin =
      buffer.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(block) * count);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

Floats BlocksOf(const std::vector<Floats>& inputs, int block, size_t count) {
  Floats all;
  for (const Floats& input : inputs) {
    const Floats one = Block(input, block, count);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

Floats SumOf(const std::vector<Floats>& inputs) {
  Floats sum(inputs[0].size());
  for (const Floats& input : inputs) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  }
  return sum;
}

// What `work.rank` receives, by the definition of the collective; empty for nothing.
Floats Output(const PeerWork& work, const std::vector<Floats>& inputs) {
  const bool root = work.rank == work.root;
  switch (work.kind) {
    case kPeerAllReduce: return SumOf(inputs);
    case kPeerReduce: return root ? SumOf(inputs) : Floats();
    case kPeerBroadcast: return root ? Floats() : inputs[static_cast<size_t>(work.root)];
    case kPeerAllGather: return BlocksOf(inputs, 0, work.block);
    case kPeerReduceScatter: return Block(SumOf(inputs), work.rank, work.block);
    case kPeerAllToAll: return BlocksOf(inputs, work.rank, work.block);
    case kPeerGather: return root ? BlocksOf(inputs, 0, work.block) : Floats();
    case kPeerScatter: return Block(inputs[static_cast<size_t>(work.root)], work.rank, work.block);
    default: return inputs[static_cast<size_t>((work.rank + work.ranks - 1) % work.ranks)];
  }
}

std::vector<Floats> InputsOf(const PeerWork& work) {
  std::vector<Floats> inputs;
  for (int rank = 0; rank < work.ranks; ++rank) {
    Floats& input = inputs.emplace_back(work.send_count);
    for (size_t i = 0; i < input.size(); ++i) input[i] = PeerInput(rank, i);
  }
  return inputs;
}

TEST(PeerWork, AcceptsWhatTheCollectiveGivesAndNothingElse) {
  for (int kind = 0; kind < kPeerKinds; ++kind) {
    for (const int ranks : {1, 2, 3, 8}) {
      for (int rank = 0; rank < ranks; ++rank) {
        PeerWork work{};
        work.root = kind == kPeerBroadcast || kind == kPeerReduce ? ranks / 2 : 0;
        work.kind = static_cast<PeerKind>(kind);
        work.ranks = ranks;
        work.rank = rank;
        ASSERT_TRUE(PeerLayOut(&work, 1004));
        Floats output = Output(work, InputsOf(work));
        const bool receives = !output.empty();
        output.resize(work.recv_count);
        work.recv = output.data();
        EXPECT_EQ(PeerCountWrong(&work), 0) << kind << " rank " << rank << " of " << ranks;
        output.front() += 0.5f;
        output.back() += 0.5f;
        EXPECT_EQ(PeerCountWrong(&work), receives ? 2 : 0) << kind << " rank " << rank;
      }
    }
  }
}

TEST(PeerWork, LaysOutWholeElements) {
  PeerWork work{};
  work.kind = kPeerAllGather;
  work.ranks = 4;
  EXPECT_FALSE(PeerLayOut(&work, 8));
  EXPECT_TRUE(PeerLayOut(&work, 16));
  EXPECT_EQ(work.block, 1u);
  EXPECT_EQ(work.send_count, 1u);
  EXPECT_EQ(work.recv_count, 4u);
  work.kind = kPeerAllReduce;
  EXPECT_TRUE(PeerLayOut(&work, 8));
  EXPECT_EQ(work.block, 2u);
}

TEST(PeerWork, KnowsItsNames) {
  PeerWork work{};
  EXPECT_EQ(PeerSetKind(&work, "all_reduce"), 0);
  EXPECT_EQ(work.kind, kPeerAllReduce);
  EXPECT_FALSE(work.in_turns);
  EXPECT_EQ(PeerSetKind(&work, "sendrecv"), 0);
  EXPECT_EQ(work.kind, kPeerSendReceive);
  EXPECT_EQ(PeerSetKind(&work, "reduce"), 0);
  EXPECT_EQ(work.kind, kPeerReduce);
  EXPECT_EQ(PeerSetKind(&work, "broadcast_turns"), 0);
  EXPECT_EQ(work.kind, kPeerBroadcast);
  EXPECT_TRUE(work.in_turns);
  for (const char* name : {"allreduce", "", "_turns", "reduce_", "all_gather_turns"}) {
    EXPECT_EQ(PeerSetKind(&work, name), -1) << name;
  }
}

}  // namespace
}  // namespace harmonaize::perf
