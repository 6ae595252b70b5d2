#include "src/schedule/check/symbolic.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace harmonaize {
namespace {

/// Input block `index` of `ranks` (sorted), reduced; of one rank, unchanged. A result never
/// combines different indices or a rank twice, so no step may either.
struct Value {
  int index = 0;
  std::vector<int> ranks;
  /// n if this is the left fold of ranks 0 to n-1, else 0.
  int folded = 0;

  bool HoldsTheSameAs(const Value& other) const {
    return index == other.index && ranks == other.ranks;
  }
};

constexpr int kNothing = -1;

class SymbolicExecution {
 public:
  SymbolicExecution(const Schedule& schedule, const Storage& storage, const StepGraph& graph)
      : schedule_(schedule),
        storage_(storage),
        graph_(graph),
        cells_(static_cast<size_t>(storage.cells())),
        sent_(static_cast<size_t>(graph.size()), kNothing) {
    for (int rank = 0; rank < schedule.ranks; ++rank) all_ranks_.push_back(rank);
  }

  Result<SymbolicOutcome> Run() {
    FillInputs();
    for (const int step : graph_.order()) HZ_RETURN_IF_ERROR(Execute(step));
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      for (int index = 0; index < OutputBlocks(schedule_, rank); ++index) {
        HZ_RETURN_IF_ERROR(CheckOutput(OutputBlock(rank, index)));
      }
    }
    return outcome_;
  }

 private:
  struct Cell {
    int value = kNothing;  // in values_
    int writer = -1;       // the step that wrote it last
  };

  Cell& CellOf(int program, const Block& block) {
    return cells_[static_cast<size_t>(storage_.CellOf(program, block))];
  }
  const Value& ValueAt(int value) const { return values_[static_cast<size_t>(value)]; }
  int Add(Value value) {
    values_.push_back(std::move(value));
    return static_cast<int>(values_.size()) - 1;
  }

  void FillInputs() {
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      for (int index = 0; index < InputBlocks(schedule_, rank); ++index) {
        CellOf(0, InputBlock(rank, index)).value = Add({index, {rank}, rank == 0 ? 1 : 0});
      }
    }
  }

  // An input is never written, so it keeps its value, unless its rank is in place and the output on
  // the same memory has been written since. If that write stored anything else than the input
  // itself, the read gives different values in place and out of place. If no read does, then, by
  // induction over the steps, every step reads and writes the same whichever ranks are in place,
  // and one execution out of place stands for all subsets.
  Result<int> Read(int step, const Block& block) {
    const int cell_index = storage_.CellOf(graph_.ProgramOf(step), block);
    const Cell& cell = cells_[static_cast<size_t>(cell_index)];
    if (cell.value == kNothing) {
      return InternalError("{} reads {}, which holds nothing yet", graph_.Name(step),
                           Describe(block));
    }
    const int twin_index = storage_.TwinOf(cell_index);
    if (block.space != Space::kInput || twin_index < 0) return cell.value;
    const Cell& twin = cells_[static_cast<size_t>(twin_index)];
    if (twin.value != kNothing && !ValueAt(twin.value).HoldsTheSameAs(ValueAt(cell.value))) {
      return InternalError("{} reads {}, which {} has overwritten if rank {} is in place",
                           graph_.Name(step), Describe(block), graph_.Name(twin.writer),
                           block.rank);
    }
    return cell.value;
  }

  void Write(int step, const Block& block, int value) {
    CellOf(graph_.ProgramOf(step), block) = {value, step};
  }

  Status Execute(int number) {
    const Step& step = graph_.StepOf(number);
    std::vector<int> operands;
    if (graph_.SenderOf(number) >= 0) {
      operands.push_back(sent_[static_cast<size_t>(graph_.SenderOf(number))]);
    }
    for (const Block& source : step.sources) {
      HZ_ASSIGN_OR_RETURN(int value, Read(number, source));
      operands.push_back(value);
    }
    if (step.kind == StepKind::kSend) {
      sent_[static_cast<size_t>(number)] = operands[0];
    } else if (step.kind == StepKind::kExchange) {
      for (size_t i = 0; i < operands.size(); ++i) {
        Write(number, step.destinations[i], operands[i]);
      }
    } else {
      HZ_ASSIGN_OR_RETURN(int value, Combine(number, operands));
      for (const Block& destination : step.destinations) Write(number, destination, value);
    }
    return Status::Ok();
  }

  Result<int> Combine(int step, const std::vector<int>& operands) {
    if (operands.size() == 1) return operands[0];
    Value sum = ValueAt(operands[0]);
    for (size_t i = 1; i < operands.size(); ++i) {
      const Value& operand = ValueAt(operands[i]);
      if (operand.index != sum.index) {
        return InternalError("{} combines {} with {}, another block", graph_.Name(step),
                             Describe(InputBlock(sum.ranks[0], sum.index)),
                             Describe(InputBlock(operand.ranks[0], operand.index)));
      }
      const bool next_in_order = operand.ranks.size() == 1 && operand.ranks[0] == sum.folded;
      sum.folded = sum.folded > 0 && next_in_order ? sum.folded + 1 : 0;
      sum.ranks.insert(sum.ranks.end(), operand.ranks.begin(), operand.ranks.end());
    }
    std::sort(sum.ranks.begin(), sum.ranks.end());
    const auto twice = std::adjacent_find(sum.ranks.begin(), sum.ranks.end());
    if (twice != sum.ranks.end()) {
      return InternalError("{} counts {} twice", graph_.Name(step),
                           Describe(InputBlock(*twice, sum.index)));
    }
    if (sum.folded == 0) outcome_.in_rank_order = false;
    return Add(std::move(sum));
  }

  /// Returns what an output block has to hold at the end; `folded` has no meaning there.
  Value Expected(const Block& output) const {
    const int pieces = schedule_.pieces;
    const int unit = output.index / pieces;
    const int piece = output.index % pieces;
    const int own = output.rank * pieces + piece;
    switch (schedule_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce: return {output.index, all_ranks_, 0};
      case Collective::kReduceScatter: return {own, all_ranks_, 0};
      case Collective::kBroadcast: return {output.index, {schedule_.root}, 0};
      case Collective::kAllGather:
      case Collective::kGather: return {piece, {unit}, 0};
      case Collective::kAllToAll: return {own, {unit}, 0};
      case Collective::kScatter: return {own, {schedule_.root}, 0};
      case Collective::kSend:
      case Collective::kReceive: break;
    }
    return {output.index, {0}, 0};
  }

  Status CheckOutput(const Block& output) {
    const Cell& cell = CellOf(0, output);
    if (cell.value == kNothing) {
      return InternalError("no step of host {} writes {}",
                           schedule_.host_of_rank[static_cast<size_t>(output.rank)],
                           Describe(output));
    }
    const Value& held = ValueAt(cell.value);
    const Value expected = Expected(output);
    if (held.HoldsTheSameAs(expected)) return Status::Ok();
    const std::string what =
        fmt::format("{} leaves in {}", graph_.Name(cell.writer), Describe(output));
    if (expected.ranks.size() == 1 || held.index != expected.index) {
      return InternalError("{} data of {} instead of {}", what,
                           Describe(InputBlock(held.ranks[0], held.index)),
                           Describe(InputBlock(expected.ranks[0], expected.index)));
    }
    const auto [lacking, unused] = std::mismatch(expected.ranks.begin(), expected.ranks.end(),
                                                 held.ranks.begin(), held.ranks.end());
    return InternalError("{} a reduction that lacks {}", what,
                         Describe(InputBlock(*lacking, expected.index)));
  }

  const Schedule& schedule_;
  const Storage& storage_;
  const StepGraph& graph_;
  std::vector<int> all_ranks_;
  std::vector<Value> values_;
  std::vector<Cell> cells_;
  std::vector<int> sent_;  // by step: the value that a send has sent
  SymbolicOutcome outcome_;
};

}  // namespace

Result<SymbolicOutcome> ExecuteSymbolically(const Schedule& schedule, const Storage& storage,
                                            const StepGraph& graph) {
  return SymbolicExecution(schedule, storage, graph).Run();
}

}  // namespace harmonaize
