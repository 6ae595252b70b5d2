#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/executor/host/execution.h"
#include "src/executor/host/fed_execution.h"
#include "src/executor/host/slice_feed.h"
#include "src/executor/host/work_engine.h"
#include "src/executor/network/message_port.h"
#include "src/executor/network/network_program.h"
#include "src/memory/memory_view.h"

namespace harmonaize {

/// One operation of several hosts, to be carried out on this one. Buffers and scalars of ranks on
/// other hosts are ignored.
struct NetworkBinding : Operands {
  const NetworkProgram* program = nullptr;
  uint64_t operation = 0;  ///< MessageName::operation of its messages.
  uint32_t check = 0;      ///< MessageName::check of its messages.
  /// Elements of a block that go through the program at a time. Equal on all hosts.
  uint64_t slice_elements = 0;
  /// Number of slices under way at a time, each at another step: reductions hide behind the wire,
  /// and both of its directions are busy.
  int slices_at_once = 4;
  /// Format of the messages where values are summed up (WireFormatFor); others go as they are.
  /// Equal on all hosts. Requires: the program is of a reducing collective, and made for it
  /// (NetworkProgram::Messages), or the format is kSame.
  WireFormat wire = WireFormat::kSame;
  /// Tells of ranks that copy while it is under way; must live until the operation is done.
  /// nullptr: all data is there.
  SliceFeed* feed = nullptr;
  /// Slots of these ranks' windows: more than are under way, for those that are filled and drained.
  uint32_t slots = 8;
};

/// Carries out a host's program that sends and receives, slice by slice; a step begins as soon as
/// those before it are done. Work on memory goes to the executor's threads, messages to the port.
/// It is made once and started again and again, and keeps the memory it has grown to.
///
/// Thread: one, the owner of executor and port:
///
///   execution.Start(binding);
///   while (!execution.done()) {
///     executor.Help(); port progress; execution.Feed()
///     while (Execution* done = executor.TakeFinished()) NetworkExecution::OnExecuted(done);
///   }
///
/// Averages are sums that are divided at the end, so sums of narrow floats can overflow where the
/// average would not, and are rounded twice.
class NetworkExecution final : public FedExecution, private MessageListener {
 public:
  NetworkExecution(WorkEngine* work, MessagePort* port) : work_engine_(work), port_(port) {}
  /// Requires: nothing is under way.
  ~NetworkExecution() = default;
  NetworkExecution(const NetworkExecution&) = delete;
  NetworkExecution& operator=(const NetworkExecution&) = delete;

  /// Errors: kInvalidArgument for a binding without slices; kInternalError for a program that is
  /// not made for the wire format. Failures of work or messages come with
  /// status().
  Status Start(const NetworkBinding& binding);

  bool CanFeed() const override {
    return status_.ok() && !idle_.empty() && next_slice_ < FilledSlices();
  }
  bool Feed() override;

  /// Returns about how much memory it keeps, in bytes: buffers for messages above all.
  size_t memory_bytes() const;
  /// Returns by how many bytes that has grown since the last call.
  size_t TakeGrowth() {
    const size_t now = std::max(told_bytes_, memory_bytes());
    return now - std::exchange(told_bytes_, now);
  }

  /// Hands back an execution that Executor::TakeFinished has returned. Requires: a NetworkExecution
  /// has started it (its `on_finished` is this function).
  static void OnExecuted(Execution* execution);

  /// Ends the operation early with `reason`, unless it has failed already. It is done once all that
  /// is under way has come back.
  void Cancel(Status reason);

  /// Returns the hosts whose messages it waits for now, each once, in order. Takes a time that
  /// grows with its steps: for reports.
  std::vector<int> AwaitedHosts() const;
  /// Returns how many slices have not ended.
  uint32_t slices_left() const { return slices_left_; }
  bool done() const override { return outstanding_ == 0 && (slices_left_ == 0 || !status_.ok()); }
  /// Once done: ok, or the first failure.
  const Status& status() const { return status_; }

 private:
  /// Place where a message arrives, or from which it leaves.
  struct Landing {
    std::byte* at = nullptr;
    bool pooled = false;  ///< A buffer of ours, not a block.
    bool early = false;   ///< The receive began before the step's turn.
    bool there = false;   ///< The early message has come.
  };
  /// A slice that is under way.
  struct Slice {
    uint32_t place = 0;  ///< In running_.
    uint32_t number = 0;
    bool under_way = false;
    size_t steps_left = 0;
    size_t averages_left = 0;
    std::vector<size_t> waits_for;  // by step: the number of steps that it waits for
    std::vector<Landing> landings;  // by step
    size_t next_early = 0;          // in NetworkProgram::early
    std::unique_ptr<std::byte[]> scratch;
    size_t scratch_bytes = 0;
  };
  using ReadyStep = std::pair<Slice*, int>;
  /// The part of a step that the executor does.
  struct Work {
    Execution execution;
    NetworkExecution* owner = nullptr;
    Slice* slice = nullptr;
    int step = kAveraging;
    std::vector<MemoryView> inputs;
    std::vector<MemoryView> outputs;
    std::vector<uint64_t> scalars;
    HostProgram scaling;  // in place of the step's work where inputs have to be scaled
  };
  static constexpr int kAveraging = -1;

  void OnMessage(uint64_t token, const Status& status) override;

  void Reset(const NetworkBinding& binding);
  uint32_t FilledSlices() const;
  void BeginSlices();
  void BeginSlice(Slice& slice);
  void EndSlice(Slice& slice);
  uint32_t FirstUnderWay() const;
  void MakeReady(Slice& slice, int step);
  static bool Later(const ReadyStep& a, const ReadyStep& b);
  void LaunchReady();
  void Launch(Slice& slice, int step);
  void FinishStep(Slice& slice, int step);
  void ReceiveEarly();
  void BeginSend(Slice& slice, int step);
  void BeginReceive(Slice& slice, int step);
  void NoteBegun(const Status& begun);
  void AfterReceive(Slice& slice, int step);
  void BeginWork(Slice& slice, int step);
  void AddSources(Work& work);
  void BeginAveraging(Slice& slice);
  void RunWork(Work* work, const HostProgram* program, uint64_t elements, ReduceOperator op,
               const EncodedStep* encoded = nullptr);
  void FinishWork(Work* work);
  void ReleaseLanding(Slice& slice, int step);
  void Fail(Status status);

  const NetworkStep& StepAt(int step) const {
    return binding_.program->steps()[static_cast<size_t>(step)];
  }
  /// Returns how a step is carried out with messages in a wire format; nullptr if they have none.
  const EncodedStep* EncodedAt(int step) const {
    return encoded_ == nullptr ? nullptr : &encoded_->steps()[static_cast<size_t>(step)];
  }
  /// Returns the scratch blocks of a slice.
  int ScratchBlocks() const {
    return encoded_ == nullptr ? binding_.program->scratch_blocks() : encoded_->scratch_blocks();
  }
  uint64_t MessageBytes(uint64_t elements) const {
    return WireBytes(wire_, binding_.type, elements);
  }
  static uint64_t TokenOf(const Slice& slice, int step);
  MessageName NameOf(const Slice& slice, const NetworkStep& step) const;
  uint64_t ElementsOf(const Slice& slice, const Block& block) const;
  uint64_t ElementsOf(const Slice& slice, const NetworkStep& step) const;
  MemoryView Resolve(const Slice& slice, const Block& block) const;
  /// Returns whether the block is a contribution that has to be scaled before use.
  bool Scales(const Block& block) const;
  std::byte* TakeLanding();
  Work* TakeWork();

  WorkEngine* const work_engine_;
  MessagePort* const port_;

  NetworkBinding binding_;
  std::vector<SlicedBuffer> inputs_;
  std::vector<SlicedBuffer> outputs_;
  std::vector<uint64_t> scalars_;
  WireFormat wire_ = WireFormat::kSame;      // of the messages of this operation
  const EncodedProgram* encoded_ = nullptr;  // unless wire_ is kSame
  size_t element_bytes_ = 1;
  size_t slice_bytes_ = 0;
  size_t held_bytes_ = 0;  // bytes of a scratch block or a landing: a slice, in whatever form
  uint32_t next_slice_ = 0;
  uint32_t slices_ = 0;
  uint32_t slices_left_ = 0;
  uint64_t outstanding_ = 0;  // works and messages
  Status status_;

  std::vector<std::unique_ptr<Slice>> running_;
  std::vector<Slice*> idle_;      // places for further slices
  std::vector<ReadyStep> ready_;  // a heap by Later
  bool launching_ = false;
  std::vector<std::unique_ptr<Work>> all_works_;
  std::vector<Work*> free_works_;
  std::vector<std::unique_ptr<std::byte[]>> all_landings_;
  std::vector<std::byte*> free_landings_;
  size_t landing_bytes_ = 0;
  size_t told_bytes_ = 0;      // by TakeGrowth
  size_t early_landings_ = 0;  // that wait for a message, or for their step's turn
};

}  // namespace harmonaize
