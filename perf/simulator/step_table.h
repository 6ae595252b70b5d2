#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize::simulator {

/// All steps of all hosts, without what only an executor needs: who waits for whom, which send
/// meets which receive, how many bytes. Some thirty bytes a step.
struct StepTable {
  struct Message {
    uint32_t send = 0;  ///< Steps.
    uint32_t receive = 0;
    int from = 0;  ///< Hosts.
    int to = 0;
    int path = -1;
    uint64_t bytes = 0;
  };

  std::vector<int32_t> host_of;      ///< By step.
  std::vector<uint32_t> waits_for;   ///< By step: so many steps of its program.
  std::vector<int32_t> message_of;   ///< By step: in messages; -1: it is none.
  std::vector<uint64_t> moved;       ///< By step: bytes read and written in memory.
  std::vector<uint64_t> first_next;  ///< By step, and one more: in next.
  std::vector<uint32_t> next;        ///< Steps that wait for it.
  std::vector<Message> messages;

  size_t steps() const { return waits_for.size(); }
};

/// The table of an outline's programs, for a unit of `bytes` bytes. An error when sends and
/// receives do not meet, or there are more than 2^31 steps.
Result<StepTable> MakeStepTable(const Outline& outline, uint64_t bytes);

}  // namespace harmonaize::simulator
