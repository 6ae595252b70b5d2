#include "src/schedule/check/races.h"

#include <string>
#include <vector>

#include "src/schedule/ir/schedule.h"

namespace harmonaize {
namespace {

struct Access {
  int step = -1;
  Block block;
};

/// Accesses to one piece of memory, in the order of StepGraph::order.
struct History {
  Access last_write;
  std::vector<Access> reads;  // since the last write
};

/// Walks the steps in one legal order. For every two neighbouring conflicting accesses of a piece
/// of memory, checks that they are always in this order. Precedence is transitive, so neighbours
/// are enough.
class RaceCheck {
 public:
  RaceCheck(const Storage& storage, StepGraph& graph)
      : storage_(storage), graph_(graph), histories_(static_cast<size_t>(storage.cells())) {}

  Status Run() {
    for (const int step : graph_.order()) {
      for (const Block& block : graph_.StepOf(step).sources) HZ_RETURN_IF_ERROR(Read(step, block));
      for (const Block& block : graph_.StepOf(step).destinations) {
        HZ_RETURN_IF_ERROR(Write(step, block));
      }
    }
    return Status::Ok();
  }

 private:
  History& HistoryOf(int step, const Block& block) {
    const int cell = storage_.CellOf(graph_.ProgramOf(step), block);
    const int twin = storage_.TwinOf(cell);
    return histories_[static_cast<size_t>(twin >= 0 && twin < cell ? twin : cell)];
  }

  Status Race(const Access& earlier, const char* earlier_does, const Access& later,
              const char* later_does) const {
    const std::string as =
        earlier.block == later.block
            ? std::string()
            : fmt::format(" as {}, the same memory in place", Describe(earlier.block));
    return InternalError("race: {} {} {}, which {} {}{}, and nothing orders the two",
                         graph_.Name(later.step), later_does, Describe(later.block),
                         graph_.Name(earlier.step), earlier_does, as);
  }

  Status Read(int step, const Block& block) {
    History& history = HistoryOf(step, block);
    const Access access{step, block};
    if (history.last_write.step >= 0 && !graph_.Precedes(history.last_write.step, step)) {
      return Race(history.last_write, "writes", access, "reads");
    }
    history.reads.push_back(access);
    return Status::Ok();
  }

  Status Write(int step, const Block& block) {
    History& history = HistoryOf(step, block);
    const Access access{step, block};
    if (history.last_write.step == step) {
      return InternalError("{} writes {} twice", graph_.Name(step), Describe(block));
    }
    if (history.last_write.step >= 0 && !graph_.Precedes(history.last_write.step, step)) {
      return Race(history.last_write, "writes", access, "writes");
    }
    for (const Access& read : history.reads) {
      if (read.step != step && !graph_.Precedes(read.step, step)) {
        return Race(read, "reads", access, "writes");
      }
    }
    history.last_write = access;
    history.reads.clear();
    return Status::Ok();
  }

  const Storage& storage_;
  StepGraph& graph_;
  std::vector<History> histories_;  // by cell; of two twins, the lower
};

}  // namespace

Status CheckRaces(const Storage& storage, StepGraph& graph) {
  return RaceCheck(storage, graph).Run();
}

}  // namespace harmonaize
