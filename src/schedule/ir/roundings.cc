#include "src/schedule/ir/roundings.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "src/schedule/ir/step_graph.h"

namespace harmonaize {
namespace {

std::tuple<Space, int, int> NameOf(const Block& block) {
  return {block.space, block.space == Space::kScratch ? -1 : block.rank, block.index};
}

/// Returns whether a step makes a value that is to be rounded. What is received is rounded already.
bool Rounds(const Step& step, bool sent) {
  if (step.kind == StepKind::kSend || step.kind == StepKind::kReceive) return false;
  return sent || WritesOutput(step);
}

}  // namespace

bool WritesOutput(const Step& step) {
  return std::any_of(step.destinations.begin(), step.destinations.end(),
                     [](const Block& block) { return block.space == Space::kOutput; });
}

ResultUse UseOfResults(const HostProgram& program) {
  ResultUse use;
  use.sent.assign(program.steps.size(), false);
  std::map<std::tuple<Space, int, int>, int> maker_of;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    std::vector<int>& makers = use.makers.emplace_back();
    for (const Block& source : step.sources) {
      const auto found = maker_of.find(NameOf(source));
      const bool made = source.space != Space::kInput && found != maker_of.end();
      makers.push_back(made ? found->second : -1);
      if (made && step.kind == StepKind::kSend) use.sent[static_cast<size_t>(makers.back())] = true;
    }
    for (const Block& block : step.destinations) maker_of[NameOf(block)] = static_cast<int>(i);
  }
  return use;
}

Result<int> MostRoundings(const Schedule& schedule) {
  HZ_ASSIGN_OR_RETURN(const StepGraph graph, StepGraph::Build(schedule));
  std::vector<ResultUse> uses;
  std::vector<int> first_step;  // by program
  int steps = 0;
  for (const HostProgram& program : schedule.programs) {
    uses.push_back(UseOfResults(program));
    first_step.push_back(steps);
    steps += static_cast<int>(program.steps.size());
  }
  std::vector<int> roundings(static_cast<size_t>(steps), 0);  // by step: of its result
  int most = 0;
  for (const int number : graph.order()) {
    const auto program = static_cast<size_t>(graph.ProgramOf(number));
    const auto index = static_cast<size_t>(graph.IndexOf(number));
    int& result = roundings[static_cast<size_t>(number)];
    if (graph.SenderOf(number) >= 0) {
      result = roundings[static_cast<size_t>(graph.SenderOf(number))];
    }
    for (const int maker : uses[program].makers[index]) {
      if (maker < 0) continue;
      result = std::max(result, roundings[static_cast<size_t>(first_step[program] + maker)]);
    }
    if (Rounds(graph.StepOf(number), uses[program].sent[index])) ++result;
    most = std::max(most, result);
  }
  return most;
}

}  // namespace harmonaize
