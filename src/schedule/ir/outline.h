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

/// What an algorithm is asked to do.
struct Problem {
  Collective collective = Collective::kAllReduce;  ///< No point-to-point operation.
  std::vector<int> host_of_rank;                   ///< Hosts >= 0, numbered anyhow.
  int root = -1;                                   ///< A rank; -1 where the collective has none.
  bool in_place = false;                           ///< The schedule has to be right in place too.
};

/// Whether the ranks, the root and the hosts of a problem go together. The error names what does
/// not.
Status CheckProblem(const Problem& problem);

/// A schedule that has been decided on, but not written out. All steps of all hosts can be too many
/// to hold (an all-gather of r ranks names r * r blocks); a host's own program, and what the whole
/// costs, are not. Immutable; safe to use from several threads.
class Outline {
 public:
  virtual ~Outline() = default;
  Outline(const Outline&) = delete;
  Outline& operator=(const Outline&) = delete;

  const std::string& name() const { return name_; }
  const Problem& problem() const { return problem_; }
  const HostPlacement& placement() const { return placement_; }
  int pieces() const { return pieces_; }
  /// What the paths of the messages mean, where the algorithm has chosen routes through a fabric;
  /// empty where it has not.
  const RouteTable& routes() const { return routes_; }

  /// The program of the host at a position of placement(). Every host that makes its own from an
  /// equal outline has what it has in Write(). Time and memory are close to linear in the number of
  /// blocks that the program names.
  virtual HostProgram Program(int position) const = 0;

  /// Equal to Summarize(Write()), in much less time and memory.
  virtual Summary Summarize() const = 0;

  /// The schedule with the programs of all hosts.
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

/// The error of an algorithm that does not carry out a collective.
Status NotCarriedOut(const char* algorithm, Collective collective);

/// `pieces` has to be from 1 to 2^20: the error says so. More blocks than an int counts are an
/// error as well.
Status CheckPieces(const Problem& problem, int64_t pieces);

}  // namespace harmonaize
