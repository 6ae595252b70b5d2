#include "daemon/links/cut_links.h"

#include <utility>

namespace harmonaize::daemon {
namespace {

/// Time, in seconds, without news of a rail after which it is no witness any more.
constexpr double kToldSeconds = 0.5;
/// Time, in seconds, before a rail was found astray from which on traffic over an edge clears that
/// edge. A stream leaves its way half a second after the way was cut, or later, and its transport
/// tries the other rails just before.
constexpr double kTriedSeconds = 0.3;

}  // namespace

void CutLinks::NoteAstray(const FabricRail& rail, const std::vector<int>& edges,
                          double now_seconds) {
  Astray& astray = astray_.try_emplace(rail, Astray{edges, now_seconds, 0}).first->second;
  astray.told_seconds = now_seconds;
}

void CutLinks::NoteCarried(const std::vector<int>& edges, double now_seconds) {
  for (const int edge : edges) carried_seconds_[edge] = now_seconds;
}

bool CutLinks::Settle(double now_seconds) {
  std::erase_if(astray_, [now_seconds](const auto& one) {
    return now_seconds - one.second.told_seconds > kToldSeconds;
  });
  std::set<int> edges;
  for (const auto& [rail, astray] : astray_) {
    for (const int edge : astray.edges) {
      const auto carried = carried_seconds_.find(edge);
      const bool since = carried != carried_seconds_.end() &&
                         carried->second >= astray.since_seconds - kTriedSeconds;
      if (!since) edges.insert(edge);
    }
  }
  return std::exchange(edges_, edges) != edges_;
}

}  // namespace harmonaize::daemon
