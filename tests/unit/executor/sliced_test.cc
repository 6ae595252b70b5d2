// Operations that go slice by slice, through windows of some ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "src/executor/host/sliced_execution.h"
#include "src/schedule/algorithms/one_host.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

constexpr uint32_t kSlots = 3;

/// A buffer of one rank: the rank's own memory, and its window if it has one.
struct TestBuffer {
  std::vector<int32_t> own;
  std::byte* window = nullptr;  // its first slot
  uint64_t units = 0;
};

struct TestRank {
  TestBuffer input;
  TestBuffer output;
  std::vector<std::byte> window;
  uint32_t filled = 0;   // slices
  uint32_t drained = 0;  // likewise
};

/// One collective of several ranks, of which some have windows. The ranks fill and drain in a
/// random order.
class SlicedRun final : public SliceFeed {
 public:
  SlicedRun(Collective collective, int ranks, uint64_t count, uint64_t slice, uint32_t seed)
      : random_(seed), count_(count), slice_(slice), in_place_(random_() % 2 == 0) {
    const int root = static_cast<int>(random_() % static_cast<uint32_t>(ranks));
    schedule_ = OneHost(collective, ranks, root, in_place_);
    ranks_.resize(static_cast<size_t>(schedule_.ranks));
    for (size_t rank = 0; rank < ranks_.size(); ++rank) SetUp(static_cast<int>(rank));
  }

  Status Start(SlicedExecution* execution) {
    SlicedBinding binding;
    binding.program = &schedule_.programs.front();
    binding.type = DataType::kInt32;
    binding.op = ReduceOperator::kSum;
    binding.count = count_;
    binding.slice_elements = slice_;
    binding.slots = kSlots;
    binding.feed = this;
    std::vector<MemoryView> inputs;
    std::vector<MemoryView> outputs;
    for (TestRank& rank : ranks_) {
      inputs.push_back(WholeOf(&rank.input));
      outputs.push_back(WholeOf(&rank.output));
    }
    binding.inputs = inputs;
    binding.outputs = outputs;
    return execution->Start(binding);
  }

  /// A random rank fills or drains a slice, if it can.
  void Step() {
    TestRank& rank = ranks_[random_() % ranks_.size()];
    if (random_() % 2 == 0 && rank.drained < carried_) {
      Copy(&rank.output, rank.drained++, /*in=*/false);
    } else if (rank.filled < slices_ && rank.filled < rank.drained + slots_) {
      Copy(&rank.input, rank.filled++, /*in=*/true);
    }
  }
  bool drained() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [this](const TestRank& rank) { return rank.drained == slices_; });
  }

  void Begin(const SliceShape& shape) override {
    EXPECT_EQ(shape.piece_elements, count_);
    EXPECT_EQ(shape.slice_elements, slice_);
    EXPECT_EQ(shape.pieces, 1u);
    slices_ = shape.slices;
    slots_ = shape.slots;
  }
  Status PlaceWindows(std::vector<SlicedBuffer>* inputs,
                      std::vector<SlicedBuffer>* outputs) override {
    EXPECT_GT(Filled(), 0u);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto place = [this](std::byte* window, SlicedBuffer* buffer) {
        if (window != nullptr) *buffer = {MemoryView{window}, SlotBytes()};
      };
      place(ranks_[rank].input.window, &(*inputs)[rank]);
      place(ranks_[rank].output.window, &(*outputs)[rank]);
    }
    return Status::Ok();
  }
  uint64_t Filled() const override {
    uint32_t filled = slices_;
    for (const TestRank& rank : ranks_) filled = std::min(filled, rank.filled);
    return filled;
  }
  void Carried(uint32_t slices) override {
    EXPECT_GT(slices, carried_);
    carried_ = slices;
  }

  /// By the definition of each collective.
  void ExpectResults() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const TestBuffer& output = ranks_[rank].output;
      const int32_t* const found = OwnOutput(static_cast<int>(rank));
      for (uint64_t i = 0; i < output.units * count_; ++i) {
        ASSERT_EQ(found[i], Expected(static_cast<int>(rank), i))
            << CollectiveName(schedule_.collective) << " rank " << rank << " element " << i;
      }
    }
  }

 private:
  static int32_t Value(int rank, uint64_t element) {
    return static_cast<int32_t>(element * 31 + static_cast<uint64_t>(rank) * 7919);
  }
  int32_t Expected(int rank, uint64_t i) const {
    const auto from = static_cast<int>(i / count_);
    const uint64_t own = static_cast<uint64_t>(rank) * count_;
    switch (schedule_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce: return Sum(i);
      case Collective::kReduceScatter: return Sum(own + i);
      case Collective::kBroadcast: return Value(schedule_.root, i);
      case Collective::kScatter: return Value(schedule_.root, own + i);
      case Collective::kAllGather:
      case Collective::kGather: return Value(from, i % count_);
      case Collective::kAllToAll: return Value(from, own + i % count_);
      default: return Value(0, i);
    }
  }
  int32_t Sum(uint64_t element) const {
    int32_t sum = 0;
    for (int rank = 0; rank < schedule_.ranks; ++rank) sum += Value(rank, element);
    return sum;
  }

  uint64_t SlotBytes() const {
    return 2 * static_cast<uint64_t>(schedule_.ranks) * slice_ * sizeof(int32_t);
  }

  void SetUp(int rank) {
    TestRank& one = ranks_[static_cast<size_t>(rank)];
    one.input.units = static_cast<uint64_t>(InputBlocks(schedule_, rank));
    one.output.units = static_cast<uint64_t>(OutputBlocks(schedule_, rank));
    one.window.resize(kSlots * SlotBytes());
    const bool joined = in_place_ && one.input.units > 0 && one.output.units > 0;
    // In own memory the output's place is the input's in either case where both are in place.
    one.output.own.resize(std::max(one.output.units, one.input.units) * count_);
    one.input.own.resize(one.input.units * count_);
    const bool windowed = random_() % 3 != 0;
    if (!joined) {
      if (windowed) one.input.window = one.window.data();
      if (random_() % 3 != 0) one.output.window = one.window.data() + SlotBytes() / 2;
    } else if (windowed) {
      one.input.window = one.output.window = one.window.data();
      const uint64_t nested = static_cast<uint64_t>(rank) * slice_ * sizeof(int32_t);
      if (one.input.units < one.output.units) one.input.window += nested;
      if (one.output.units < one.input.units) one.output.window += nested;
    }
    if (one.input.units == 0) one.input.window = nullptr;
    if (one.output.units == 0) one.output.window = nullptr;
    int32_t* const input = joined ? OwnInputInPlace(rank) : one.input.own.data();
    for (uint64_t i = 0; i < one.input.units * count_; ++i) input[i] = Value(rank, i);
  }

  bool IsJoined(const TestRank& one) const {
    return in_place_ && one.input.units > 0 && one.output.units > 0;
  }
  /// In place, `own` of the output holds both.
  int32_t* OwnInputInPlace(int rank) {
    TestRank& one = ranks_[static_cast<size_t>(rank)];
    const uint64_t offset =
        one.input.units < one.output.units ? static_cast<uint64_t>(rank) * count_ : 0;
    return one.output.own.data() + offset;
  }
  int32_t* OwnOutput(int rank) {
    TestRank& one = ranks_[static_cast<size_t>(rank)];
    const bool inside = IsJoined(one) && one.output.units < one.input.units;
    return one.output.own.data() + (inside ? static_cast<uint64_t>(rank) * count_ : 0);
  }
  int32_t* OwnOf(const TestBuffer* buffer) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      TestRank& one = ranks_[rank];
      if (buffer == &one.output) return OwnOutput(static_cast<int>(rank));
      if (buffer != &one.input) continue;
      return IsJoined(one) ? OwnInputInPlace(static_cast<int>(rank)) : one.input.own.data();
    }
    return nullptr;
  }

  MemoryView WholeOf(TestBuffer* buffer) {
    if (buffer->units == 0 || buffer->window != nullptr) return {};
    return {reinterpret_cast<std::byte*>(OwnOf(buffer))};
  }

  void Copy(TestBuffer* buffer, uint32_t slice, bool in) {
    if (buffer->window == nullptr) return;
    const uint64_t first = slice * slice_;
    const uint64_t elements = std::min(slice_, count_ - first);
    for (uint64_t unit = 0; unit < buffer->units; ++unit) {
      int32_t* const own = OwnOf(buffer) + unit * count_ + first;
      std::byte* const slot =
          buffer->window + slice % slots_ * SlotBytes() + unit * slice_ * sizeof(int32_t);
      if (in) {
        std::memcpy(slot, own, elements * sizeof(int32_t));
      } else {
        std::memcpy(own, slot, elements * sizeof(int32_t));
      }
    }
  }

  std::mt19937 random_;
  const uint64_t count_;
  const uint64_t slice_;
  const bool in_place_;
  Schedule schedule_;
  std::vector<TestRank> ranks_;
  uint32_t slices_ = 0;
  uint32_t slots_ = 1;
  uint32_t carried_ = 0;
};

void Turn(TestExecutor* executor, SlicedExecution* execution) {
  while ((*executor)->Help()) continue;
  while (Execution* const done = (*executor)->TakeFinished()) done->on_finished(done);
  execution->Feed();
}

TEST(SlicedExecution, AllCollectivesWithAndWithoutWindows) {
  TestExecutor executor(2);
  SlicedExecution execution(&*executor);
  IntrusiveList<FedExecution> ended;
  execution.done_list = &ended;
  for (int collective = 0; collective < kCollectiveCount; ++collective) {
    for (uint32_t seed = 0; seed < 40; ++seed) {
      const uint64_t count = seed % 2 == 0 ? 1000 : 1003;
      SlicedRun run(static_cast<Collective>(collective), 2 + static_cast<int>(seed % 4), count,
                    seed % 5 == 0 ? 2000 : 64, seed);
      ASSERT_TRUE(run.Start(&execution).ok());
      while (!execution.done() || !run.drained()) {
        run.Step();
        Turn(&executor, &execution);
      }
      ASSERT_TRUE(execution.status().ok()) << execution.status().message();
      EXPECT_EQ(ended.PopFront(), &execution);
      EXPECT_TRUE(ended.empty());
      run.ExpectResults();
      if (HasFailure()) return;
    }
  }
}

TEST(SlicedExecution, EndsWhereverItIsCanceled) {
  TestExecutor executor(1);
  SlicedExecution execution(&*executor);
  IntrusiveList<FedExecution> ended;
  execution.done_list = &ended;
  for (int steps = 0; steps < 100; ++steps) {
    SlicedRun run(Collective::kAllReduce, 3, 1000, 64, static_cast<uint32_t>(steps));
    ASSERT_TRUE(run.Start(&execution).ok());
    for (int i = 0; i < steps; ++i) {
      run.Step();
      execution.Feed();
    }
    execution.Cancel(InvalidUsage("enough"));
    while (!execution.done()) Turn(&executor, &execution);
    if (execution.status().ok()) continue;  // it was through
    EXPECT_EQ(execution.status().code(), Code::kInvalidUsage);
    EXPECT_EQ(ended.PopFront(), &execution);
    EXPECT_FALSE(execution.CanFeed());
  }
}

}  // namespace
}  // namespace harmonaize
