#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// The steps of all programs of a schedule, numbered consecutively, with the edges that order them:
/// the dependencies inside a program, and each message from its send to its receive.
class StepGraph {
 public:
  /// Matches sends with receives and proves that the programs cannot deadlock; the error names a
  /// message without a match, or the cycle. The schedule must have passed Validate and outlive the
  /// graph.
  static Result<StepGraph> Build(const Schedule& schedule);

  int size() const { return static_cast<int>(steps_.size()); }
  const Step& StepOf(int number) const;
  int ProgramOf(int number) const { return At(number).program; }
  /// Returns the place of a step in its program.
  int IndexOf(int number) const { return At(number).index; }
  /// Returns "host 0 step 3 (reduce)".
  std::string Name(int number) const;
  /// Returns the send that a receive gets its data from; -1 for other steps.
  int SenderOf(int number) const { return At(number).sender; }
  /// Returns all steps in an order in which they may be executed.
  const std::vector<int>& order() const { return order_; }

  /// Returns whether `earlier` is done before `later` starts in every execution: there is a path of
  /// dependencies and messages. This does not rely on one direction between two hosts keeping its
  /// messages in order. Thread: one.
  bool Precedes(int earlier, int later);

 private:
  struct Node {
    int program = 0;
    int index = 0;  // in the program
    int sender = -1;
    int receiver = -1;
    int position = 0;  // in order_
    int visit = 0;     // the last search that came here
  };
  struct Edges;

  explicit StepGraph(const Schedule& schedule);

  const Node& At(int number) const { return steps_[static_cast<size_t>(number)]; }
  Node& At(int number) { return steps_[static_cast<size_t>(number)]; }
  /// Returns the event of a step. A message is one event, numbered as its send; any other step is
  /// an event of its own.
  int EventOf(int number) const;
  std::string EventName(int event) const;

  Status MatchMessages(Edges& edges);
  void CollectEdges(Edges& edges) const;
  Status Sort(const Edges& edges);
  Status Deadlock(const Edges& edges, const std::vector<int>& waiting) const;

  const Schedule* schedule_;
  std::vector<int> first_step_;  // by program: the number of its step 0
  std::vector<Node> steps_;
  std::vector<int> order_;
  std::vector<int> stack_;  // of Precedes, kept between calls
  int visits_ = 0;
};

}  // namespace harmonaize
