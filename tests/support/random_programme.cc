#include "tests/support/random_programme.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "harmonaize.h"
#include "tests/support/nccl_case.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

constexpr int kCommunicators = 6;
constexpr int kMostInAGroup = 5;

bool IsNarrowOrSingle(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kFloat8E4M3 || type == DataType::kFloat8E5M2 ||
         type == DataType::kFloat32;
}

}  // namespace

Programme MakeProgramme(const ProgrammeOptions& options) {
  std::mt19937 random(options.seed);
  const auto pick = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  Programme programme;
  programme.members.resize(kCommunicators);
  for (int rank = 0; rank < kProgrammeRanks; ++rank) programme.members[0].insert(rank);
  for (int c = 1; c < kCommunicators; ++c) {
    while (programme.members[c].size() < 2) {
      for (int rank = 0; rank < kProgrammeRanks; ++rank) {
        if (pick(2) == 0) programme.members[c].insert(rank);
      }
    }
  }
  int planned = 0;
  while (planned < options.operations) {
    std::vector<PlannedOperation> group(static_cast<size_t>(1 + pick(kMostInAGroup)));
    for (PlannedOperation& operation : group) {
      operation.communicator = pick(kCommunicators);
      Case& c = operation.c;
      c.ranks = static_cast<int>(programme.members[operation.communicator].size());
      c.collective = static_cast<Collective>(pick(kCollectiveCount - 1));
      c.type = static_cast<DataType>(pick(kDataTypeCount));
      if (options.exact && IsNarrowOrSingle(c.type)) c.type = DataType::kFloat64;
      c.op = static_cast<ReduceOperator>(pick(kReduceOperatorCount - 1));
      c.root = pick(c.ranks);
      // Mostly small, now and then large enough to be cut into units.
      c.count = static_cast<size_t>(pick(20) == 0 ? pick(200000) : pick(3000));
      operation.registered = pick(2) == 0;
      operation.seed = random();
    }
    planned += static_cast<int>(group.size());
    programme.groups.push_back(std::move(group));
    programme.asynchronous.push_back(pick(3) == 0);
  }
  return programme;
}

namespace {

/// A rank's share of one planned operation: its buffers and what they must hold in the end.
class Share {
 public:
  Share(const PlannedOperation& planned, int rank) {
    const Case& c = planned.c;
    std::vector<Bytes> inputs;
    for (int r = 0; r < c.ranks; ++r) {
      const BufferBlocks blocks = BlocksOf(c.collective, c.ranks, r, c.root);
      const size_t elements = c.count * (IsPointToPoint(c.collective) ? 1 : blocks.send);
      inputs.push_back(MakeData(c.type, elements, planned.seed + static_cast<uint64_t>(r)));
    }
    const std::vector<uint64_t> no_scalars(inputs.size());
    const Bytes& input = inputs[static_cast<size_t>(rank)];
    expected_ = Reference(c, inputs, no_scalars)[static_cast<size_t>(rank)];
    const Memory memory = planned.registered ? Memory::kRegistered : Memory::kHeap;
    const size_t element = DataTypeSize(c.type);
    send_ = std::make_unique<GuardedBuffer>(memory, input.size(), element);
    receive_ = std::make_unique<GuardedBuffer>(memory, expected_.size(), element);
    send_->Fill(input);
  }

  const void* send() { return send_->data(); }
  void* receive() { return receive_->data(); }
  bool Right() const {
    return receive_->Content() == expected_ && receive_->GuardsIntact() && send_->GuardsIntact();
  }

 private:
  Bytes expected_;
  std::unique_ptr<GuardedBuffer> send_;
  std::unique_ptr<GuardedBuffer> receive_;
};

void RunGroup(const Programme& programme, size_t number, int rank,
              const std::vector<ncclComm_t>& communicators, cudaStream_t stream) {
  const std::vector<PlannedOperation>& group = programme.groups[number];
  const cudaStream_t used = programme.asynchronous[number] ? stream : nullptr;
  std::vector<std::pair<const PlannedOperation*, std::unique_ptr<Share>>> shares;
  EXPECT_NCCL(ncclGroupStart());
  for (const PlannedOperation& planned : group) {
    const std::set<int>& members = programme.members[static_cast<size_t>(planned.communicator)];
    const auto self = members.find(rank);
    if (self == members.end()) continue;
    const int number_in = static_cast<int>(std::distance(members.begin(), self));
    shares.emplace_back(&planned, std::make_unique<Share>(planned, number_in));
    Share& share = *shares.back().second;
    EXPECT_NCCL(Call(planned.c, share.send(), share.receive(),
                     static_cast<ncclRedOp_t>(planned.c.op), number_in,
                     communicators[static_cast<size_t>(planned.communicator)], used));
  }
  EXPECT_NCCL(ncclGroupEnd());
  if (used != nullptr) {
    EXPECT_NCCL(hzStreamSynchronize(used));
  }
  for (const auto& [planned, share] : shares) {
    EXPECT_TRUE(share->Right()) << "group " << number << ": "
                                << Describe(planned->c, Memory::kHeap, false);
  }
}

/// Comes late now and then: by less than others wait on the inline path, or by more.
void Dawdle(std::mt19937* random) {
  const unsigned dice = (*random)() % 200;
  if (dice == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
  if (dice > 0 && dice < 20) std::this_thread::sleep_for(std::chrono::microseconds(10 * dice));
}

}  // namespace

void RunProgramme(const Programme& programme, int rank, ncclComm_t world) {
  std::vector<ncclComm_t> communicators = {world};
  for (size_t c = 1; c < programme.members.size(); ++c) {
    ncclComm_t part = nullptr;
    const int color = programme.members[c].contains(rank) ? 0 : NCCL_SPLIT_NOCOLOR;
    ASSERT_NCCL(ncclCommSplit(world, color, rank, &part, nullptr));
    communicators.push_back(part);
  }
  cudaStream_t stream;
  ASSERT_NCCL(hzStreamCreate(&stream));
  std::mt19937 own_random(static_cast<unsigned>(rank));
  for (size_t number = 0; number < programme.groups.size(); ++number) {
    Dawdle(&own_random);
    RunGroup(programme, number, rank, communicators, stream);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_NCCL(hzStreamDestroy(stream));
  for (size_t c = 1; c < communicators.size(); ++c) {
    if (communicators[c] != nullptr) {
      EXPECT_NCCL(ncclCommDestroy(communicators[c]));
    }
  }
}

uint32_t ProgrammeSeed() {
  const char* given = std::getenv("HARMONAIZE_TEST_SEED");
  return given == nullptr ? 20240607u : static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
}

}  // namespace harmonaize::testing
