#include "src/schedule/algorithms/one_host.h"

#include <utility>

namespace harmonaize {
namespace {

/// Block `index` of every rank's input, in rank order.
std::vector<Block> EveryInput(int ranks, int index) {
  std::vector<Block> blocks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back(InputBlock(rank, index));
  return blocks;
}

/// Block `index` of every rank's output.
std::vector<Block> EveryOutput(int ranks, int index) {
  std::vector<Block> blocks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back(OutputBlock(rank, index));
  return blocks;
}

// No step below depends on another: only the step itself reads what it writes, in place too.

Step MakeStep(StepKind kind, std::vector<Block> sources, std::vector<Block> destinations) {
  Step step;
  step.kind = kind;
  step.sources = std::move(sources);
  step.destinations = std::move(destinations);
  return step;
}

Step Copy(Block source, Block destination) {
  return MakeStep(StepKind::kCopy, {source}, {destination});
}

std::vector<Step> AllGather(int ranks) {
  std::vector<Step> steps;
  for (int rank = 0; rank < ranks; ++rank) {
    steps.push_back(MakeStep(StepKind::kCopy, {InputBlock(rank, 0)}, EveryOutput(ranks, rank)));
  }
  return steps;
}

std::vector<Step> ReduceScatter(int ranks) {
  std::vector<Step> steps;
  for (int rank = 0; rank < ranks; ++rank) {
    steps.push_back(MakeStep(StepKind::kReduce, EveryInput(ranks, rank), {OutputBlock(rank, 0)}));
  }
  return steps;
}

std::vector<Step> AllToAll(int ranks) {
  std::vector<Step> steps;
  for (int to = 0; to < ranks; ++to) {
    for (int from = 0; from < ranks; ++from) {
      steps.push_back(Copy(InputBlock(from, to), OutputBlock(to, from)));
    }
  }
  return steps;
}

/// Returns the steps of an all-to-all in place. If rank a is in place, its output's block b lies on
/// its input's block b, which a sends to b. So the two blocks that a pair owes each other have to
/// change places in one step. That is right with one, both or none of the pair in place.
std::vector<Step> AllToAllInPlace(int ranks) {
  std::vector<Step> steps;
  for (int a = 0; a < ranks; ++a) {
    steps.push_back(Copy(InputBlock(a, a), OutputBlock(a, a)));
    for (int b = a + 1; b < ranks; ++b) {
      steps.push_back(MakeStep(StepKind::kExchange, {InputBlock(a, b), InputBlock(b, a)},
                               {OutputBlock(b, a), OutputBlock(a, b)}));
    }
  }
  return steps;
}

std::vector<Step> Gather(int ranks, int root) {
  std::vector<Step> steps;
  for (int rank = 0; rank < ranks; ++rank) {
    steps.push_back(Copy(InputBlock(rank, 0), OutputBlock(root, rank)));
  }
  return steps;
}

std::vector<Step> Scatter(int ranks, int root) {
  std::vector<Step> steps;
  for (int rank = 0; rank < ranks; ++rank) {
    steps.push_back(Copy(InputBlock(root, rank), OutputBlock(rank, 0)));
  }
  return steps;
}

std::vector<Step> StepsOf(const Schedule& schedule) {
  const int ranks = schedule.ranks;
  const int root = schedule.root;
  switch (schedule.collective) {
    case Collective::kAllReduce:
      return {MakeStep(StepKind::kReduce, EveryInput(ranks, 0), EveryOutput(ranks, 0))};
    case Collective::kReduce:
      return {MakeStep(StepKind::kReduce, EveryInput(ranks, 0), {OutputBlock(root, 0)})};
    case Collective::kBroadcast:
      return {MakeStep(StepKind::kCopy, {InputBlock(root, 0)}, EveryOutput(ranks, 0))};
    case Collective::kAllGather: return AllGather(ranks);
    case Collective::kReduceScatter: return ReduceScatter(ranks);
    case Collective::kAllToAll: return schedule.in_place ? AllToAllInPlace(ranks) : AllToAll(ranks);
    case Collective::kGather: return Gather(ranks, root);
    case Collective::kScatter: return Scatter(ranks, root);
    case Collective::kSend:
    case Collective::kReceive: return {Copy(InputBlock(0, 0), OutputBlock(1, 0))};
  }
  return {};
}

class OneHostOutline final : public Outline {
 public:
  explicit OneHostOutline(const Problem& problem) : Outline("one-host", problem, 1) {}

  HostProgram Program(int) const override {
    Schedule schedule =
        OneHost(problem().collective, placement().ranks(), problem().root, problem().in_place);
    schedule.programs[0].host = placement().HostAt(0);
    return std::move(schedule.programs[0]);
  }
  // The one program is all there is.
  Summary Summarize() const override { return harmonaize::Summarize(Write()); }
};

}  // namespace

Schedule OneHost(Collective collective, int ranks, int root, bool in_place) {
  const bool point_to_point = IsPointToPoint(collective);
  Schedule schedule;
  schedule.name = "one-host";
  schedule.collective = point_to_point ? Collective::kSend : collective;
  schedule.ranks = point_to_point ? 2 : ranks;
  schedule.root = HasRoot(collective) ? root : -1;
  schedule.host_of_rank.assign(static_cast<size_t>(schedule.ranks), 0);
  schedule.in_place = in_place;
  HostProgram program;
  program.steps = StepsOf(schedule);
  schedule.programs.push_back(std::move(program));
  return schedule;
}

OutlineResult MakeOneHost(const Problem& problem) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  const int hosts = HostPlacement(problem.host_of_rank).hosts();
  if (hosts != 1) {
    return InvalidArgument("the ranks are on {} hosts, and the one-host algorithm is for one",
                           hosts);
  }
  return std::unique_ptr<Outline>(std::make_unique<OneHostOutline>(problem));
}

}  // namespace harmonaize
