#include "perf/fabric/placement.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "src/base/names.h"

namespace harmonaize::fabric {
namespace {

constexpr int kMostRanks = 1024;

struct Share {
  int host = -1;
  int ranks = 0;  // 0: not said
};

Result<Share> ParseShare(const Fabric& fabric, const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  Share share{.host = fabric.FindNode(name), .ranks = 0};
  const std::vector<int> hosts = fabric.Hosts();
  if (std::find(hosts.begin(), hosts.end(), share.host) == hosts.end()) {
    std::vector<std::string_view> names;
    for (const int host : hosts) names.push_back(fabric.nodes[static_cast<size_t>(host)].name);
    return InvalidArgument("the fabric has no host '{}'{}", name, DidYouMean(name, names));
  }
  if (colon == std::string::npos) return share;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, share.ranks);
  if (parsed.ec != std::errc() || parsed.ptr != end || share.ranks < 1 ||
      share.ranks > kMostRanks) {
    return InvalidArgument("'{}': a host's number of ranks is from 1 to {}", text, kMostRanks);
  }
  return share;
}

}  // namespace

Result<std::vector<int>> PlaceRanks(const Fabric& fabric, const std::vector<std::string>& hosts,
                                    int ranks) {
  std::vector<Share> shares;
  for (const std::string& text : hosts) {
    HZ_ASSIGN_OR_RETURN(const Share share, ParseShare(fabric, text));
    shares.push_back(share);
  }
  if (shares.empty()) {
    for (const int host : fabric.Hosts()) shares.push_back({host, 0});
  }
  const auto counted = std::count_if(shares.begin(), shares.end(),
                                     [](const Share& share) { return share.ranks > 0; });
  std::vector<int> places;
  if (counted == 0) {
    if (ranks < 1) ranks = static_cast<int>(shares.size());
    for (int rank = 0; rank < ranks; ++rank) {
      places.push_back(shares[static_cast<size_t>(rank) % shares.size()].host);
    }
    return places;
  }
  if (counted != static_cast<std::ptrdiff_t>(shares.size())) {
    return InvalidArgument("either every host of --hosts has a number of ranks, or none has");
  }
  for (const Share& share : shares) {
    places.insert(places.end(), static_cast<size_t>(share.ranks), share.host);
  }
  if (ranks > 0 && static_cast<size_t>(ranks) != places.size()) {
    return InvalidArgument("--hosts places {} ranks, and -n asks for {}", places.size(), ranks);
  }
  return places;
}

}  // namespace harmonaize::fabric
