#include "src/schedule/ir/storage.h"

namespace harmonaize {

Storage::Storage(const Schedule& schedule) {
  int next = 0;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    first_input_.push_back(next);
    next += InputBlocks(schedule, rank);
    first_output_.push_back(next);
    next += OutputBlocks(schedule, rank);
  }
  for (const HostProgram& program : schedule.programs) {
    first_scratch_.push_back(next);
    next += program.scratch_blocks;
  }
  twins_.assign(static_cast<size_t>(next), -1);
  if (!schedule.in_place) return;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    for (int index = 0; index < OutputBlocks(schedule, rank); ++index) {
      const Block output = OutputBlock(rank, index);
      const std::optional<Block> input = InPlaceInput(schedule, output);
      if (!input) continue;
      const int output_cell = CellOf(0, output);
      const int input_cell = CellOf(0, *input);
      twins_[static_cast<size_t>(output_cell)] = input_cell;
      twins_[static_cast<size_t>(input_cell)] = output_cell;
    }
  }
}

int Storage::CellOf(int program, const Block& block) const {
  switch (block.space) {
    case Space::kInput: return first_input_[static_cast<size_t>(block.rank)] + block.index;
    case Space::kOutput: return first_output_[static_cast<size_t>(block.rank)] + block.index;
    case Space::kScratch: break;
  }
  return first_scratch_[static_cast<size_t>(program)] + block.index;
}

}  // namespace harmonaize
