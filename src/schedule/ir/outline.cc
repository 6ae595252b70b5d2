#include "src/schedule/ir/outline.h"

#include <limits>
#include <utility>

namespace harmonaize {

Status CheckProblem(const Problem& problem) {
  if (IsPointToPoint(problem.collective)) {
    return InvalidArgument("{} is no collective of several hosts",
                           CollectiveName(problem.collective));
  }
  if (problem.host_of_rank.empty()) return InvalidArgument("a communicator without ranks");
  for (size_t rank = 0; rank < problem.host_of_rank.size(); ++rank) {
    if (problem.host_of_rank[rank] < 0) {
      return InvalidArgument("rank {} is on host {}; hosts are numbered from 0", rank,
                             problem.host_of_rank[rank]);
    }
  }
  const bool in_range =
      problem.root >= 0 && static_cast<size_t>(problem.root) < problem.host_of_rank.size();
  if (HasRoot(problem.collective) ? !in_range : problem.root != -1) {
    return InvalidArgument("root {} of {} ranks; {} has {}", problem.root,
                           problem.host_of_rank.size(), CollectiveName(problem.collective),
                           HasRoot(problem.collective) ? "a rank as its root" : "no root (-1)");
  }
  return Status::Ok();
}

Status NotCarriedOut(const char* algorithm, Collective collective) {
  return InvalidArgument("{} does not carry out {}", algorithm, CollectiveName(collective));
}

Status CheckPieces(const Problem& problem, int64_t pieces) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (pieces < 1 || pieces > kMost) {
    return InvalidArgument("{} pieces; there may be 1 to {}", pieces, kMost);
  }
  const auto ranks = static_cast<int64_t>(problem.host_of_rank.size());
  if (pieces * ranks > std::numeric_limits<int>::max()) {
    return InvalidArgument("{} pieces of {} ranks are too many blocks", pieces, ranks);
  }
  return Status::Ok();
}

Outline::Outline(std::string name, Problem problem, int pieces, RouteTable routes)
    : name_(std::move(name)),
      problem_(std::move(problem)),
      placement_(problem_.host_of_rank),
      pieces_(pieces),
      routes_(std::move(routes)) {}

Schedule Outline::Write() const {
  Schedule schedule;
  schedule.name = name_;
  schedule.collective = problem_.collective;
  schedule.ranks = placement_.ranks();
  schedule.root = problem_.root;
  schedule.host_of_rank = problem_.host_of_rank;
  schedule.pieces = pieces_;
  schedule.in_place = problem_.in_place;
  for (int position = 0; position < placement_.hosts(); ++position) {
    schedule.programs.push_back(Program(position));
  }
  return schedule;
}

}  // namespace harmonaize
