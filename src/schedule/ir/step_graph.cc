#include "src/schedule/ir/step_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "src/schedule/check/validate.h"

namespace harmonaize {

/// Pairs of events: `from` must be over before `to` can be.
struct StepGraph::Edges {
  std::vector<std::pair<int, int>> from_to;
};

StepGraph::StepGraph(const Schedule& schedule) : schedule_(&schedule) {
  for (size_t program = 0; program < schedule.programs.size(); ++program) {
    first_step_.push_back(size());
    for (size_t index = 0; index < schedule.programs[program].steps.size(); ++index) {
      Node node;
      node.program = static_cast<int>(program);
      node.index = static_cast<int>(index);
      steps_.push_back(node);
    }
  }
}

Result<StepGraph> StepGraph::Build(const Schedule& schedule) {
  StepGraph graph(schedule);
  Edges edges;
  HZ_RETURN_IF_ERROR(graph.MatchMessages(edges));
  graph.CollectEdges(edges);
  HZ_RETURN_IF_ERROR(graph.Sort(edges));
  return graph;
}

const Step& StepGraph::StepOf(int number) const {
  const Node& node = At(number);
  return schedule_->programs[static_cast<size_t>(node.program)]
      .steps[static_cast<size_t>(node.index)];
}

std::string StepGraph::Name(int number) const {
  const Node& node = At(number);
  return StepName(schedule_->programs[static_cast<size_t>(node.program)], node.index);
}

int StepGraph::EventOf(int number) const {
  const int sender = At(number).sender;
  return sender >= 0 ? sender : number;
}

std::string StepGraph::EventName(int event) const {
  const int receiver = At(event).receiver;
  if (receiver < 0) return Name(event);
  return fmt::format("the message from {} to {}", Name(event), Name(receiver));
}

Status StepGraph::MatchMessages(Edges& edges) {
  struct Direction {
    std::vector<int> sends;
    std::vector<int> receives;
  };
  std::map<std::tuple<int, int, int>, Direction> directions;  // by sender, receiver and path
  for (int number = 0; number < size(); ++number) {
    const int host = schedule_->programs[static_cast<size_t>(At(number).program)].host;
    const Step& step = StepOf(number);
    if (step.kind == StepKind::kSend) {
      directions[{host, step.peer_host, step.path}].sends.push_back(number);
    } else if (step.peer_host != -1) {
      directions[{step.peer_host, host, step.path}].receives.push_back(number);
    }
  }
  const auto piece_of = [&](const Block& block) { return block.index % schedule_->pieces; };
  for (const auto& [ends, direction] : directions) {
    const auto [from, to, path] = ends;
    const auto& [sends, receives] = direction;
    if (sends.size() != receives.size()) {
      const bool lost = sends.size() > receives.size();
      const auto& longer = lost ? sends : receives;
      return InternalError(
          "{} has no match: host {} sends {} messages{} to host {}, which receives {}",
          Name(longer[std::min(sends.size(), receives.size())]), from, sends.size(),
          path >= 0 ? fmt::format(" by path {}", path) : "", to, receives.size());
    }
    for (size_t i = 0; i < sends.size(); ++i) {
      const Block& source = StepOf(sends[i]).sources[0];
      const Block& destination = StepOf(receives[i]).destinations[0];
      if (piece_of(source) != piece_of(destination)) {
        return InternalError("{} sends {}, a different piece than {} receives into {}",
                             Name(sends[i]), Describe(source), Name(receives[i]),
                             Describe(destination));
      }
      At(sends[i]).receiver = receives[i];
      At(receives[i]).sender = sends[i];
      if (i > 0) edges.from_to.emplace_back(sends[i - 1], sends[i]);
    }
  }
  return Status::Ok();
}

void StepGraph::CollectEdges(Edges& edges) const {
  for (int number = 0; number < size(); ++number) {
    const int first = first_step_[static_cast<size_t>(At(number).program)];
    for (const int before : StepOf(number).after) {
      edges.from_to.emplace_back(EventOf(first + before), EventOf(number));
    }
  }
}

// Kahn's algorithm (1962) over the events.
Status StepGraph::Sort(const Edges& edges) {
  const auto count = static_cast<size_t>(size());
  std::vector<int> waiting(count, 0);    // by event: edges into it that are not yet satisfied
  std::vector<size_t> first(count + 1);  // by event: where its successors begin
  for (const auto& [from, to] : edges.from_to) {
    ++waiting[static_cast<size_t>(to)];
    ++first[static_cast<size_t>(from) + 1];
  }
  for (size_t event = 0; event < count; ++event) first[event + 1] += first[event];
  std::vector<int> successors(edges.from_to.size());
  std::vector<size_t> end(first.begin(), first.end() - 1);
  for (const auto& [from, to] : edges.from_to) successors[end[static_cast<size_t>(from)]++] = to;

  std::vector<int> ready;
  for (int event = 0; event < size(); ++event) {
    if (EventOf(event) == event && waiting[static_cast<size_t>(event)] == 0) ready.push_back(event);
  }
  order_.reserve(count);
  for (size_t next = 0; next < ready.size(); ++next) {
    const auto event = static_cast<size_t>(ready[next]);
    order_.push_back(ready[next]);
    if (steps_[event].receiver >= 0) order_.push_back(steps_[event].receiver);
    for (size_t i = first[event]; i < first[event + 1]; ++i) {
      if (--waiting[static_cast<size_t>(successors[i])] == 0) ready.push_back(successors[i]);
    }
  }
  if (order_.size() != count) return Deadlock(edges, waiting);
  for (size_t position = 0; position < count; ++position) {
    At(order_[position]).position = static_cast<int>(position);
  }
  return Status::Ok();
}

Status StepGraph::Deadlock(const Edges& edges, const std::vector<int>& waiting) const {
  // Every event left over waits for another one left over, so following them leads into a cycle.
  std::vector<int> waits_for(waiting.size(), -1);
  int event = -1;
  for (const auto& [from, to] : edges.from_to) {
    if (waiting[static_cast<size_t>(from)] == 0) continue;
    waits_for[static_cast<size_t>(to)] = from;
    event = to;
  }
  std::vector<bool> seen(waiting.size(), false);
  while (!seen[static_cast<size_t>(event)]) {
    seen[static_cast<size_t>(event)] = true;
    event = waits_for[static_cast<size_t>(event)];
  }
  constexpr int kMostNamed = 8;  // enough to find the bug, and still a line
  std::string cycle = EventName(event);
  int next = waits_for[static_cast<size_t>(event)];
  for (int named = 1; next != event && named < kMostNamed; ++named) {
    cycle += " waits for " + EventName(next) + ", which";
    next = waits_for[static_cast<size_t>(next)];
  }
  return InternalError("deadlock: {} waits for {}", cycle,
                       next == event ? EventName(event) : std::string("others in a circle"));
}

bool StepGraph::Precedes(int earlier, int later) {
  const int lowest = At(earlier).position;
  ++visits_;
  stack_.assign(1, later);
  const auto reaches = [&](int before) {
    Node& node = At(before);
    if (before == earlier) return true;
    if (node.position > lowest && node.visit != visits_) {
      node.visit = visits_;
      stack_.push_back(before);
    }
    return false;
  };
  while (!stack_.empty()) {
    const int number = stack_.back();
    stack_.pop_back();
    const int first = first_step_[static_cast<size_t>(At(number).program)];
    for (const int before : StepOf(number).after) {
      if (reaches(first + before)) return true;
    }
    if (At(number).sender >= 0 && reaches(At(number).sender)) return true;
  }
  return false;
}

}  // namespace harmonaize
