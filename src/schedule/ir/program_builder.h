#pragma once

#include <vector>

#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Builds the program of one host from steps that come in any order.
///
/// Every step has a turn and, within a turn, a flow. The program lists steps in this order, and
/// those of one turn and flow as they were added. Sends and receives match, and nothing can
/// deadlock, if three conditions hold, because the order of turns and flows then fits all
/// dependencies: both ends of every message have the same turn and flow; no two messages of a
/// direction share both; and a step that another is `after` has a lesser turn (or the same, and
/// comes before it). No host needs to see another's program for that.
class ProgramBuilder {
 public:
  /// Scratch memory is reused by steps that are `reuse_distance` turns or more after its last use;
  /// with 0, never. The larger the distance, the less a step waits for another's memory.
  ProgramBuilder(int host, int pieces, int reuse_distance)
      : host_(host), pieces_(pieces), reuse_distance_(reuse_distance) {}

  /// Adds a step. Returns the number by which later calls name it in `after`. Scratch blocks are
  /// those of NewScratch.
  int Add(int turn, int flow, Step step);

  /// Returns a scratch block for data of `piece`, valid until Take. It is free again after the last
  /// step (in the program's order) that names it, so that step has to be after all others that do.
  Block NewScratch(int piece);

  HostProgram Take();

 private:
  struct Draft {
    int turn = 0;
    int flow = 0;
    Step step;
  };
  /// A piece of scratch memory that the step `last` used, in the program's order.
  struct Slot {
    int block = 0;
    int turn = 0;
    int last = -1;
  };
  struct Pool {
    std::vector<Slot> free;  // in the order in which they became free
    size_t next = 0;         // of free: the oldest
    int blocks = 0;          // made so far
  };

  std::vector<int> Sort();
  void AssignScratch(HostProgram& program, const std::vector<int>& turns);

  int host_;
  int pieces_;
  int reuse_distance_;
  std::vector<Draft> drafts_;
  std::vector<int> scratch_piece_;  // by the number that NewScratch gave
};

}  // namespace harmonaize
