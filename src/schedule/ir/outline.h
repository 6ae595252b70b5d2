#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/collective.h"
#include "src/schedule/ir/host_placement.h"
#include "src/schedule/ir/routes.h"
#include "src/schedule/ir/schedule.h"
#include "src/schedule/ir/summary.h"

namespace harmonaize {

/// The task of an algorithm.
struct Problem {
  Collective collective = Collective::kAllReduce;  ///< No point-to-point operation.
  std::vector<int> host_of_rank;                   ///< Hosts >= 0, in any numbering.
  int root = -1;                                   ///< A rank; -1 where the collective has none.
  bool in_place = false;                           ///< Whether the schedule has to be right in
                                                   ///< place too.
};

/// Returns ok if the ranks, the root and the hosts of a problem fit together. The error names what
/// does not.
Status CheckProblem(const Problem& problem);

/// A schedule that has been decided on, but not written out. All steps of all hosts can be too many
/// to hold (an all-gather of r ranks names r * r blocks); one host's program, and the cost of the
/// whole, are not. Immutable. Thread: any.
class Outline {
 public:
  virtual ~Outline() = default;
  Outline(const Outline&) = delete;
  Outline& operator=(const Outline&) = delete;

  const std::string& name() const { return name_; }
  const Problem& problem() const { return problem_; }
  const HostPlacement& placement() const { return placement_; }
  int pieces() const { return pieces_; }
  /// Returns the routes that the messages' paths stand for, where the algorithm has chosen routes
  /// through a fabric; empty where it has not.
  const RouteTable& routes() const { return routes_; }

  /// Returns the program of the host at a position of placement(). Hosts that make their own
  /// programs from equal outlines get those that Write() has. Time and memory are close to linear
  /// in the number of blocks that the program names.
  virtual HostProgram Program(int position) const = 0;

  /// Returns the equal of Summarize(Write()), in much less time and memory.
  virtual Summary Summarize() const = 0;

  /// Returns the schedule with the programs of all hosts.
  Schedule Write() const;

 protected:
  Outline(std::string name, Problem problem, int pieces, RouteTable routes = {});

 private:
  std::string name_;
  Problem problem_;
  HostPlacement placement_;
  int pieces_;
  RouteTable routes_;
};

using OutlineResult = Result<std::unique_ptr<Outline>>;

/// Returns the error of an algorithm that does not carry out a collective.
Status NotCarriedOut(const char* algorithm, Collective collective);

/// Returns an error if `pieces` is not from 1 to 2^20, or if there would be more blocks than an int
/// can count.
Status CheckPieces(const Problem& problem, int64_t pieces);

}  // namespace harmonaize
