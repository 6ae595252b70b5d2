#pragma once

#include <map>
#include <set>
#include <vector>

#include "src/topology/fabric/fabric_rail.h"

namespace harmonaize::daemon {

/// Finds the edges that carry nothing, by the rails whose streams have left their ways
/// (StreamMoves): the edges of such a way over which nothing else has gone since. The rail's
/// transport sent a few bytes over all its other rails when it found out, so edges that are well
/// are soon known. Thread: one. Time is passed in.
class CutLinks {
 public:
  /// Notes that a rail is not on its own way, which is over `edges` and no others.
  void NoteAstray(const FabricRail& rail, const std::vector<int>& edges, double now_seconds);
  /// Notes that something has got over these edges just now.
  void NoteCarried(const std::vector<int>& edges, double now_seconds);
  /// Draws the conclusions. Returns true if the edges have changed.
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
