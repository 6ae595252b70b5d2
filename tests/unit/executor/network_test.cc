// Programs that send and receive, on several hosts.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/executor/network/network_execution.h"
#include "src/numerics/types.h"
#include "src/schedule/algorithms/algorithms.h"
#include "tests/support/sanitized.h"
#include "tests/unit/executor/cluster.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

TEST(NetworkExecution, AllAlgorithmsGiveWhatTheCollectiveSays) {
  ExecutorCluster cluster(3, 1);
  for (const Algorithm* algorithm : AlgorithmsBetweenHosts()) {
    for (const Collective collective : algorithm->collectives) {
      for (const uint64_t count : {1, 7, 1000}) {
        for (const uint64_t slice : {3, 250, 100000}) {
          if (count / slice > 100) continue;
          NetworkCase test_case = MakeNetworkCase(*algorithm, collective);
          test_case.count = count;
          test_case.slice_elements = slice;
          ASSERT_EQ(cluster.Run(test_case), "")
              << algorithm->name << " " << CollectiveName(collective) << " count " << count
              << " slices of " << slice;
        }
      }
    }
  }
}

TEST(NetworkExecution, BuffersMayBeInPlace) {
  ExecutorCluster cluster(3, 4);
  for (const Algorithm* algorithm : AlgorithmsBetweenHosts()) {
    for (const Collective collective : algorithm->collectives) {
      for (const bool in_place : {false, true}) {
        if (in_place && !algorithm->in_place) continue;
        NetworkCase test_case = MakeNetworkCase(*algorithm, collective);
        test_case.problem.in_place = in_place;
        test_case.count = 500;
        test_case.slice_elements = 120;
        ASSERT_EQ(cluster.Run(test_case), "")
            << algorithm->name << " " << CollectiveName(collective)
            << (in_place ? " in place" : "");
      }
    }
  }
}

TEST(NetworkExecution, OperatorsThatTouchTheEndsAreAppliedOnce) {
  ExecutorCluster cluster(3, 2);
  for (const Algorithm* algorithm : AlgorithmsBetweenHosts()) {
    for (const Collective collective : algorithm->collectives) {
      if (!Reduces(collective)) continue;
      for (const ReduceOperator op :
           {ReduceOperator::kAvg, ReduceOperator::kPreMulSum, ReduceOperator::kMax}) {
        NetworkCase test_case = MakeNetworkCase(*algorithm, collective);
        test_case.op = op;
        test_case.count = 333;
        test_case.slice_elements = 100;
        ASSERT_EQ(cluster.Run(test_case), "")
            << algorithm->name << " " << CollectiveName(collective) << " "
            << ReduceOperatorName(op);
      }
    }
  }
}

// No slice is read before all ranks have filled it, and none is told of before it is written.
TEST(NetworkExecution, RanksMayCopyWhileItIsUnderWay) {
  ExecutorCluster cluster(3, 5);
  for (const Algorithm* algorithm : AlgorithmsBetweenHosts()) {
    for (const Collective collective : algorithm->collectives) {
      for (const bool in_place : {false, true}) {
        if (in_place && !algorithm->in_place) continue;
        for (const uint64_t slice : {kSanitized ? 200 : 70, 100000}) {
          NetworkCase test_case = MakeNetworkCase(*algorithm, collective);
          test_case.problem.in_place = in_place;
          test_case.copies_along = true;
          test_case.count = 1003;
          test_case.slice_elements = slice;
          ASSERT_EQ(cluster.Run(test_case), "")
              << algorithm->name << " " << CollectiveName(collective)
              << (in_place ? " in place" : "") << " slices of " << slice;
        }
      }
    }
  }
}

/// Keeps what is asked of it; nothing ever comes.
class RecordingPort final : public MessagePort {
 public:
  Status Send(const MessageName& name, std::span<const std::byte>, uint64_t left,
              MessageListener* listener, uint64_t token) override {
    left_of_slice[name.slice].push_back(left);
    asked_.emplace_back(listener, token);
    return Status::Ok();
  }
  Status Receive(const MessageName& name, std::span<std::byte> data, MessageListener* listener,
                 uint64_t token) override {
    received.push_back(name);
    bytes += data.size();
    asked_.emplace_back(listener, token);
    return Status::Ok();
  }
  void Cancel(uint64_t) override { canceled_ = true; }
  /// Ends all after Cancel.
  void Deliver() {
    const auto asked = std::exchange(asked_, {});
    for (const auto& [listener, token] : asked) listener->OnMessage(token, RemoteError("canceled"));
  }

  std::map<uint32_t, std::vector<uint64_t>> left_of_slice;
  std::vector<MessageName> received;
  size_t bytes = 0;

 private:
  std::vector<std::pair<MessageListener*, uint64_t>> asked_;
  bool canceled_ = false;
};

class RootOfAStar : public testing::Test {
 protected:
  /// Starts a collective of 8 hosts at its root, with so many slices of so many bytes.
  void Start(uint64_t slice_bytes, uint64_t slices, int at_once,
             Collective collective = Collective::kReduce) {
    Problem problem{.collective = collective, .host_of_rank = {0, 1, 2, 3, 4, 5, 6, 7}};
    problem.root = 0;
    const OutlineResult outline = FindAlgorithm("star")->make(problem, {});
    ASSERT_TRUE(outline.ok());
    program_ = std::make_unique<NetworkProgram>((*outline)->Program(0), (*outline)->pieces());
    const uint64_t count = slice_bytes * slices / sizeof(uint32_t);
    memory_.assign(2 * count, 0);
    std::vector<MemoryView> inputs(8);
    std::vector<MemoryView> outputs(8);
    inputs[0].address = reinterpret_cast<std::byte*>(memory_.data());
    outputs[0].address = reinterpret_cast<std::byte*>(memory_.data() + count);
    NetworkBinding binding;
    binding.program = program_.get();
    binding.type = DataType::kUint32;
    binding.count = count;
    binding.inputs = inputs;
    binding.outputs = outputs;
    binding.slice_elements = slice_bytes / sizeof(uint32_t);
    binding.slices_at_once = at_once;
    ASSERT_TRUE(execution_.Start(binding).ok());
  }

  void TearDown() override {
    execution_.Cancel(RemoteError("over"));
    port_.Deliver();
    while (!execution_.done()) {  // the root's own copy
      executor_->Help();
      while (Execution* ended = executor_->TakeFinished()) NetworkExecution::OnExecuted(ended);
    }
  }

  TestExecutor executor_{1};
  RecordingPort port_;
  NetworkExecution execution_{&*executor_, &port_};
  std::unique_ptr<NetworkProgram> program_;
  std::vector<uint32_t> memory_;
};

// All hosts say the same of the same slice, more or less: they are to agree on who is to go first.
TEST_F(RootOfAStar, SaysHowMuchIsLeftToSend) {
  Start(1024, 4, 4, Collective::kBroadcast);
  ASSERT_EQ(port_.left_of_slice.size(), 4u);
  for (uint64_t slice = 0; slice < 4; ++slice) {
    EXPECT_EQ(port_.left_of_slice[slice], std::vector<uint64_t>(7, (4 - slice) * 1024 * 7));
  }
}

// Which reduces what they send one after the other.
TEST_F(RootOfAStar, ReceivesFromAllAtOnce) {
  Start(1024, 2, 2);
  ASSERT_EQ(port_.received.size(), 14u);
  for (int host = 1; host < 8; ++host) {
    const auto from = [&](const MessageName& name) { return name.host == host; };
    EXPECT_EQ(std::count_if(port_.received.begin(), port_.received.end(), from), 2) << host;
  }
}

// In 16 MiB beside what is due anyway, one message for each slice.
TEST_F(RootOfAStar, HasBoundedMemoryForIt) {
  Start(size_t{4} << 20, 3, 3);
  EXPECT_EQ(port_.received.size(), 3u + 4u);
}

TEST(NetworkExecution, EndsWhereverItIsCanceledAndStartsAnew) {
  ExecutorCluster cluster(3, 3);
  const Algorithm* const ring = FindAlgorithm("ring");
  ASSERT_NE(ring, nullptr);
  NetworkCase test_case = MakeNetworkCase(*ring, Collective::kAllReduce);
  test_case.count = 2000;
  test_case.slice_elements = 64;
  for (const bool copies_along : {false, true}) {
    test_case.copies_along = copies_along;
    for (int host = 0; host < 3; ++host) {
      cluster.RunIntoCut(test_case, host);
      ASSERT_EQ(cluster.Run(test_case), "") << "after host " << host;
    }
  }
}

}  // namespace
}  // namespace harmonaize
