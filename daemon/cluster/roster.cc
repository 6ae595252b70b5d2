#include "daemon/cluster/roster.h"

#include <algorithm>
#include <numeric>

#include "daemon/tenant/rank_list.h"

namespace harmonaize::daemon {

int Roster::RanksTogether() const {
  int together = 0;
  int run = 0;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    ++run;
    const bool last = rank + 1 == host_of_rank.size();
    if (!last && host_of_rank[rank + 1] == host_of_rank[rank]) continue;
    // A run begins where the ones before it end: at a multiple of every number that divides them
    // all.
    together = std::gcd(together, run);
    run = 0;
  }
  return together;
}

std::string Roster::RanksOf(int host) const {
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    if (host_of_rank[rank] == host) ranks.push_back(rank);
  }
  return RankList(ranks);
}

int Roster::HostOf(transport::PeerId peer) const {
  const auto found = std::find(peers.begin(), peers.end(), peer);
  return found == peers.end() ? -1 : static_cast<int>(found - peers.begin());
}

}  // namespace harmonaize::daemon
