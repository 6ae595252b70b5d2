// What the programs of perf/compare move and how they check it, against the collectives'
// definitions.

#include <gtest/gtest.h>

#include <vector>

#include "perf/compare/peer_work.h"

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
  const bool root = work.rank == 0;
  switch (work.kind) {
    case kPeerAllReduce: return SumOf(inputs);
    case kPeerReduce: return root ? SumOf(inputs) : Floats();
    case kPeerBroadcast: return root ? Floats() : inputs[0];
    case kPeerAllGather: return BlocksOf(inputs, 0, work.block);
    case kPeerReduceScatter: return Block(SumOf(inputs), work.rank, work.block);
    case kPeerAllToAll: return BlocksOf(inputs, work.rank, work.block);
    case kPeerGather: return root ? BlocksOf(inputs, 0, work.block) : Floats();
    case kPeerScatter: return Block(inputs[0], work.rank, work.block);
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
  EXPECT_EQ(PeerKindNamed("all_reduce"), kPeerAllReduce);
  EXPECT_EQ(PeerKindNamed("sendrecv"), kPeerSendReceive);
  EXPECT_EQ(PeerKindNamed("allreduce"), kPeerKinds);
}

}  // namespace
}  // namespace harmonaize::perf
