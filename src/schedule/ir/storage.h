#pragma once

#include <optional>
#include <vector>

#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Numbers every block that a schedule can name: one cell each for the blocks of all inputs,
/// outputs and scratch memories. The schedule must have passed Validate and outlive this.
class Storage {
 public:
  explicit Storage(const Schedule& schedule);

  int cells() const { return static_cast<int>(twins_.size()); }

  /// Returns the cell of a block; `program` is the index of the program that names it.
  int CellOf(int program, const Block& block) const;

  /// Returns the cell that is the same memory when its rank is in place (an input's for an output's
  /// and the reverse); -1 where there is none, or the schedule is never run in place.
  int TwinOf(int cell) const { return twins_[static_cast<size_t>(cell)]; }

 private:
  std::vector<int> first_input_;    // by rank
  std::vector<int> first_output_;   // by rank
  std::vector<int> first_scratch_;  // by program
  std::vector<int> twins_;          // by cell
};

}  // namespace harmonaize
