#include "perf/simulator/step_table.h"

#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace harmonaize::simulator {
namespace {

bool Receives(const Step& step) {
  return step.kind == StepKind::kReceive || step.kind == StepKind::kReceiveReduce;
}

uint64_t LengthOf(const Step& step, uint64_t bytes, int pieces) {
  const Block& block = step.sources.empty() ? step.destinations[0] : step.sources[0];
  return ExtentOf(bytes, pieces, block.index % pieces).length;
}

class TableMaker {
 public:
  TableMaker(int pieces, uint64_t bytes) : pieces_(pieces), bytes_(bytes) {}

  void Add(const HostProgram& program) {
    const size_t first = table_.steps();
    for (const Step& step : program.steps) {
      const auto number = static_cast<uint32_t>(table_.steps());
      const uint64_t length = LengthOf(step, bytes_, pieces_);
      table_.host_of.push_back(program.host);
      table_.waits_for.push_back(static_cast<uint32_t>(step.after.size()));
      table_.moved.push_back(length * (step.sources.size() + step.destinations.size()));
      table_.message_of.push_back(-1);
      if (step.kind == StepKind::kSend) {
        Meet({program.host, step.peer_host, step.path}, number, true, length);
      } else if (Receives(step)) {
        Meet({step.peer_host, program.host, step.path}, number, false, length);
      }
    }
    AddNext(program, first);
  }

  Result<StepTable> Take() {
    table_.first_next.push_back(table_.next.size());
    for (const auto& [way, waiting] : ways_) {
      if (waiting.sends == waiting.receives) continue;
      return InternalError("{} sends from host {} to host {} meet {} receives", waiting.sends,
                           std::get<0>(way), std::get<1>(way), waiting.receives);
    }
    return std::move(table_);
  }

 private:
  using Way = std::tuple<int, int, int>;  // from, to, path
  struct Waiting {
    std::vector<int32_t> messages;
    size_t sends = 0;
    size_t receives = 0;
  };

  /// Matches a step: the i-th send of a way belongs to its i-th receive.
  void Meet(const Way& way, uint32_t step, bool sends, uint64_t length) {
    Waiting& waiting = ways_[way];
    const size_t place = sends ? waiting.sends++ : waiting.receives++;
    if (place == waiting.messages.size()) {
      waiting.messages.push_back(static_cast<int32_t>(table_.messages.size()));
      const auto [from, to, path] = way;
      table_.messages.push_back({.from = from, .to = to, .path = path, .bytes = length});
    }
    const int32_t number = waiting.messages[place];
    StepTable::Message& message = table_.messages[static_cast<size_t>(number)];
    (sends ? message.send : message.receive) = step;
    table_.message_of.back() = number;
  }

  void AddNext(const HostProgram& program, size_t first) {
    std::vector<uint32_t> counts(program.steps.size() + 1, 0);
    for (const Step& step : program.steps) {
      for (const int before : step.after) ++counts[static_cast<size_t>(before)];
    }
    uint64_t place = table_.next.size();
    std::vector<uint64_t> ends;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      table_.first_next.push_back(place);
      ends.push_back(place);
      place += counts[i];
    }
    table_.next.resize(place);
    for (size_t i = 0; i < program.steps.size(); ++i) {
      for (const int before : program.steps[i].after) {
        table_.next[ends[static_cast<size_t>(before)]++] = static_cast<uint32_t>(first + i);
      }
    }
  }

  int pieces_;
  uint64_t bytes_;
  StepTable table_;
  std::map<Way, Waiting> ways_;
};

}  // namespace

Result<StepTable> MakeStepTable(const Outline& outline, uint64_t bytes) {
  constexpr size_t kMostSteps = std::numeric_limits<int32_t>::max();
  TableMaker maker(outline.pieces(), bytes);
  size_t steps = 0;
  for (int position = 0; position < outline.placement().hosts(); ++position) {
    const HostProgram program = outline.Program(position);
    steps += program.steps.size();
    if (steps > kMostSteps) {
      return InvalidArgument("the schedule has more than {} steps", kMostSteps);
    }
    maker.Add(program);
  }
  return maker.Take();
}

}  // namespace harmonaize::simulator
