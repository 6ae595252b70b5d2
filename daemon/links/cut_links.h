#pragma once

#include <map>
#include <set>
#include <vector>

#include "src/topology/fabric/fabric_rail.h"

namespace harmonaize::daemon {

/// Which edges carry nothing, by the rails whose streams have left their ways (StreamMoves): the
/// edges of such a way over which nothing else has gone since. Its transport has sent a few bytes
/// over all its other rails when it found out, so that is soon known of those that are well. One
/// thread's; time is passed in.
class CutLinks {
 public:
  /// A rail is not on its own way, which is over `edges` and no others.
  void NoteAstray(const FabricRail& rail, const std::vector<int>& edges, double now_seconds);
  /// Something has got over these edges just now.
  void NoteCarried(const std::vector<int>& edges, double now_seconds);
  /// True if the edges have changed.
  bool Settle(double now_seconds);

  const std::set<int>& edges() const { return edges_; }

 private:
  struct Astray {
    std::vector<int> edges;
    double since_seconds = 0;
    double told_seconds = 0;
  };
  std::map<FabricRail, Astray> astray_;
  std::map<int, double> carried_seconds_;  // by edge: the last time
  std::set<int> edges_;
};

}  // namespace harmonaize::daemon
