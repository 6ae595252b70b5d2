#include "src/schedule/ir/program_builder.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace harmonaize {

int ProgramBuilder::Add(int turn, int flow, Step step) {
  drafts_.push_back({turn, flow, std::move(step)});
  return static_cast<int>(drafts_.size()) - 1;
}

Block ProgramBuilder::NewScratch(int piece) {
  scratch_piece_.push_back(piece);
  return ScratchBlock(static_cast<int>(scratch_piece_.size()) - 1);
}

std::vector<int> ProgramBuilder::Sort() {
  std::vector<int> order(drafts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const Draft& one = drafts_[static_cast<size_t>(a)];
    const Draft& other = drafts_[static_cast<size_t>(b)];
    return std::tie(one.turn, one.flow) < std::tie(other.turn, other.flow);
  });
  return order;
}

HostProgram ProgramBuilder::Take() {
  const std::vector<int> order = Sort();
  std::vector<int> index_of(drafts_.size());
  for (size_t index = 0; index < order.size(); ++index) {
    index_of[static_cast<size_t>(order[index])] = static_cast<int>(index);
  }
  HostProgram program;
  program.host = host_;
  program.steps.reserve(order.size());
  std::vector<int> turns;
  turns.reserve(order.size());
  for (const int draft : order) {
    Draft& one = drafts_[static_cast<size_t>(draft)];
    for (int& before : one.step.after) before = index_of[static_cast<size_t>(before)];
    turns.push_back(one.turn);
    program.steps.push_back(std::move(one.step));
  }
  AssignScratch(program, turns);
  drafts_.clear();
  return program;
}

void ProgramBuilder::AssignScratch(HostProgram& program, const std::vector<int>& turns) {
  std::vector<int> last_use(scratch_piece_.size(), -1);
  const auto for_scratch = [](Step& step, const auto& visit) {
    for (std::vector<Block>* blocks : {&step.sources, &step.destinations}) {
      for (Block& block : *blocks) {
        if (block.space == Space::kScratch) visit(block);
      }
    }
  };
  for (size_t i = 0; i < program.steps.size(); ++i) {
    for_scratch(program.steps[i], [&](const Block& block) {
      last_use[static_cast<size_t>(block.index)] = static_cast<int>(i);
    });
  }
  std::vector<Pool> pools(static_cast<size_t>(pieces_));
  std::vector<int> assigned(scratch_piece_.size(), -1);
  std::vector<int> released;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    Step& step = program.steps[i];
    released.clear();
    for_scratch(step, [&](Block& block) {
      const int number = block.index;
      int& place = assigned[static_cast<size_t>(number)];
      Pool& pool = pools[static_cast<size_t>(scratch_piece_[static_cast<size_t>(number)])];
      if (place < 0) {
        const bool again = reuse_distance_ > 0 && pool.next < pool.free.size() &&
                           pool.free[pool.next].turn + reuse_distance_ <= turns[i];
        if (again) {
          const Slot& slot = pool.free[pool.next++];
          place = slot.block;
          step.after.push_back(slot.last);
        } else {
          place = scratch_piece_[static_cast<size_t>(number)] + pieces_ * pool.blocks++;
          program.scratch_blocks = std::max(program.scratch_blocks, place + 1);
        }
      }
      block.index = place;
      const bool ends = last_use[static_cast<size_t>(number)] == static_cast<int>(i);
      if (ends) released.push_back(number);
    });
    std::sort(released.begin(), released.end());
    released.erase(std::unique(released.begin(), released.end()), released.end());
    for (const int number : released) {
      Pool& pool = pools[static_cast<size_t>(scratch_piece_[static_cast<size_t>(number)])];
      pool.free.push_back({assigned[static_cast<size_t>(number)], turns[i], static_cast<int>(i)});
    }
  }
}

}  // namespace harmonaize
