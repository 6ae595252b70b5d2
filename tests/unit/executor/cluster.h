#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/executor/host/slice_feed.h"
#include "src/executor/network/network_execution.h"
#include "src/ipc/window_layout.h"
#include "src/schedule/algorithms/algorithms.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {

/// Carries messages between hosts of this process, in a random order, after random delays. A
/// message is copied when both ends are posted, and each end is told at a moment of its own.
class TestNetwork {
 public:
  explicit TestNetwork(uint32_t seed) : random_(seed) {}

  class Port final : public MessagePort {
   public:
    Port(TestNetwork* network, int host) : network_(network), host_(host) {}
    Status Send(const MessageName& name, std::span<const std::byte> data, uint64_t left,
                MessageListener* listener, uint64_t token) override;
    Status Receive(const MessageName& name, std::span<std::byte> data, MessageListener* listener,
                   uint64_t token) override;
    void Cancel(uint64_t operation) override { network_->CancelAt(host_, operation); }

   private:
    TestNetwork* network_;
    int host_;
  };

  /// Makes one random step, if there is anything to do.
  void Progress();
  /// Returns whether every message that was sent was received, and the other way round.
  bool Empty() const { return messages_.empty() && news_.empty(); }
  /// Stops the delivery of this host's messages. -1: of none.
  void CutOff(int host) { cut_off_ = host; }

 private:
  struct End {
    std::span<std::byte> data;
    MessageListener* listener = nullptr;
    uint64_t token = 0;
    bool there = false;
  };
  struct Message {
    End send;
    End receive;
  };
  struct News {
    MessageListener* listener;
    uint64_t token;
    Status status;
  };
  using Key = std::tuple<int, int, uint64_t, int, uint32_t, uint32_t>;

  Message& Match(int from, int to, const MessageName& name);
  void Deliver();
  void CancelAt(int host, uint64_t operation);
  void EndWithError(End* end);

  std::mt19937 random_;
  std::map<Key, Message> messages_;
  std::vector<News> news_;
  int cut_off_ = -1;
};

/// The ranks of a host that copy while their operation is under way. Each fills its input slice by
/// slice at moments of its own, and takes those parts of its output that it is told are there.
/// Every second rank does so through a window.
class CopyingRanks final : public SliceFeed {
 public:
  struct Rank {
    std::vector<uint32_t> source;  ///< Data to be copied into the input.
    std::span<uint32_t> input;
    std::span<uint32_t> output;
    std::vector<uint32_t> taken;  ///< Data copied from the output.
    uint64_t filled = 0;          ///< Slices filled.
    int number = 0;               ///< Its number in the communicator.
    BufferBlocks units;
    bool in_place = false;
    std::vector<uint32_t> window = {};
    WindowLayout layout = {};
    WindowCut cut = {};

    bool windowed() const { return number % 2 == 1; }
  };

  /// Makes ranks whose units have `count` elements.
  CopyingRanks(std::vector<Rank> ranks, uint64_t count, uint32_t seed)
      : ranks_(std::move(ranks)), count_(count), random_(seed) {}

  void Begin(const SliceShape& shape) override;
  uint64_t Filled() const override;
  Status PlaceWindows(std::vector<SlicedBuffer>* inputs,
                      std::vector<SlicedBuffer>* outputs) override;
  void Carried(uint32_t slices) override;

  /// Lets one of the ranks fill a few slices, or none.
  void FillSome();
  /// After success: takes everything that was not announced before, and leaves the taken data in
  /// the outputs.
  void TakeRest();

 private:
  /// Copies slices of every piece of every unit.
  void CopySlices(std::span<const uint32_t> from, std::span<uint32_t> to, uint64_t first,
                  uint64_t last) const;
  void Take(uint64_t slices);
  void FillWindow(Rank* rank, uint64_t slice);
  void DrainWindow(Rank* rank, uint64_t slice);

  std::vector<Rank> ranks_;
  const uint64_t count_;
  SliceShape shape_;
  uint64_t taken_ = 0;
  std::mt19937 random_;
};

/// A collective by any algorithm, over uint32 values unless it says otherwise.
struct NetworkCase {
  const Algorithm* algorithm = nullptr;
  Problem problem;
  AlgorithmOptions options;
  ReduceOperator op = ReduceOperator::kSum;
  uint64_t count = 0;
  uint64_t slice_elements = 0;
  bool copies_along = false;  ///< Whether CopyingRanks take part: for elements of four bytes.
  DataType type = DataType::kUint32;
  WireFormat wire = WireFormat::kSame;
  /// Returns a rank's input, as so many words of the elements' bytes. Empty: any values.
  std::function<std::vector<uint32_t>(int rank, size_t words)> fill = {};
};

/// Returns the algorithms for several hosts.
std::vector<const Algorithm*> AlgorithmsBetweenHosts();

/// Returns a case of three hosts with two, one and two ranks, dealt out across them.
NetworkCase MakeNetworkCase(const Algorithm& algorithm, Collective collective);

/// Several hosts, each with an executor of its own, and a TestNetwork between them.
class ExecutorCluster {
 public:
  ExecutorCluster(int hosts, uint32_t seed);

  /// Runs a case. Returns "" or the first error.
  std::string Run(const NetworkCase& test_case);
  /// Runs a case as Run does, but does not look at what comes of it.
  std::string RunUnchecked(const NetworkCase& test_case);
  /// Return a rank's buffers after a run, as words.
  std::span<const uint32_t> input(int rank) const { return inputs_[static_cast<size_t>(rank)]; }
  std::span<const uint32_t> output(int rank) const { return outputs_[static_cast<size_t>(rank)]; }
  /// Starts as Run does, cuts a host off, and cancels on the others after a while.
  void RunIntoCut(const NetworkCase& test_case, int host);

 private:
  struct Host {
    Host(TestNetwork* network, int number) : executor(2, size_t{64} << 10), port(network, number) {
      execution = std::make_unique<NetworkExecution>(&*executor, &port);
    }
    TestExecutor executor;
    TestNetwork::Port port;
    std::unique_ptr<NetworkProgram> program;
    std::unique_ptr<NetworkExecution> execution;
    std::unique_ptr<CopyingRanks> copying;
  };

  Host& At(int host) { return *hosts_[static_cast<size_t>(host)]; }
  void FillBuffers();
  void Allocate(int rank);
  void Start(const HostProgram& program);
  void MakeCopyingRanks(int host);
  void Turn();
  void Finish();
  static uint32_t Value(int rank, uint64_t i);
  uint32_t Reduced(uint64_t i) const;
  uint32_t Expected(int rank, uint64_t i) const;
  void TakeCopies();
  std::string Check();

  const uint32_t seed_;
  TestNetwork network_;
  std::vector<std::unique_ptr<Host>> hosts_;
  const NetworkCase* case_ = nullptr;
  Schedule schedule_;
  uint64_t operation_ = 0;
  int stuck_ = 0;
  std::vector<std::vector<uint32_t>> memory_;  // by rank
  std::vector<std::span<uint32_t>> inputs_;
  std::vector<std::span<uint32_t>> outputs_;
  std::vector<MemoryView> input_buffers_;
  std::vector<MemoryView> output_buffers_;
  std::vector<uint64_t> scalars_;
};

}  // namespace harmonaize
