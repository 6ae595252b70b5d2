#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize::simulator {

/// All steps of all hosts, without the parts that only an executor needs: dependencies, pairs of
/// send and receive, and bytes. Some thirty bytes a step.
struct StepTable {
  struct Message {
    uint32_t send = 0;  ///< Step that sends.
    uint32_t receive = 0;
    int from = 0;  ///< Host that sends.
    int to = 0;
    int path = -1;
    uint64_t bytes = 0;
  };

  std::vector<int32_t> host_of;      ///< By step.
  std::vector<uint32_t> waits_for;   ///< By step: number of steps of its program that it waits for.
  std::vector<int32_t> message_of;   ///< By step: index in messages; -1: it is none.
  std::vector<uint64_t> moved;       ///< By step: bytes read and written in memory.
  std::vector<uint64_t> first_next;  ///< By step, and one more: index in next.
  std::vector<uint32_t> next;        ///< Steps that wait for it.
  std::vector<Message> messages;

  size_t steps() const { return waits_for.size(); }
};

/// Returns the table of an outline's programs, for a unit of `bytes` bytes. Errors: sends and
/// receives do not match, or there are more than 2^31 steps.
Result<StepTable> MakeStepTable(const Outline& outline, uint64_t bytes);

}  // namespace harmonaize::simulator
