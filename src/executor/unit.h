#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/executor/execution.h"
#include "src/executor/foreign_call.h"
#include "src/executor/staging.h"

namespace harmonaize {

/// How a unit ended.
struct UnitOutcome {
  enum class End : uint8_t {
    kDone,       ///< Done, or no longer wanted.
    kFailed,     ///< `status` and `faulty_buffer` say why.
    kAbandoned,  ///< The thread lost its unit (see ForeignCall) and may no longer look at it.
  };
  End end = End::kDone;
  Status status;
  FaultyBuffer faulty_buffer;
  uint64_t bytes = 0;  ///< Read and written.
};

/// Carries out units in the thread that it belongs to. Mapped buffers are used in place. Private
/// ones are copied to and from the thread's staging area and never anywhere else: a thread that is
/// abandoned within such a copy may come back much later, when the mapped memory of then may be
/// gone or may be somebody else's.
class UnitRunner {
 public:
  /// `staging_bytes` is what most units will need; more is allocated when one does.
  explicit UnitRunner(size_t staging_bytes) : staging_(staging_bytes) {}

  /// Runs unit `unit` of `bound`, step by step until the end, an error, or `stopped`.
  UnitOutcome Run(const BoundProgram& bound, uint32_t unit, const std::atomic<bool>& stopped);

  ForeignCall& foreign_call() { return foreign_call_; }

 private:
  using End = UnitOutcome::End;

  void RunStep(const Step& step);
  void RunReduce(const Step& step);
  void RunCopy(const Step& step);
  void RunExchange(const Step& step);

  /// Where the slice of a block lies; of a scratch block, this thread's copy.
  Buffer Resolve(const Block& block) const;
  std::byte* Slot(int index) const;
  /// Private memory to slot and back. False: the unit is over, outcome_ says how.
  bool ReadPrivate(const Block& block, const Buffer& from, std::byte* to);
  bool WritePrivate(const Block& block, const std::byte* from, const Buffer& to);
  /// Writes `result` to all private ones among the destinations, except where it came from.
  bool WritePrivateDestinations(const Step& step, const std::byte* result, const Buffer* source);
  bool EndForeignCall(const Block& block, Status status);

  StagingArea staging_;
  ForeignCall foreign_call_;
  // Of the unit and the step at hand.
  const BoundProgram* bound_ = nullptr;
  UnitOutcome outcome_;
  uint64_t first_element_ = 0;
  size_t elements_ = 0;
  size_t bytes_ = 0;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<uint64_t> scalars_;
};

}  // namespace harmonaize
