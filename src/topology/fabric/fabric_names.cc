#include "src/topology/fabric/fabric_names.h"

#include <string>
#include <vector>

#include "src/base/names.h"
#include "src/topology/fabric/link_rate.h"

namespace harmonaize {
namespace {

Result<int> LinkBetween(const Fabric& fabric, std::string_view a, std::string_view b) {
  const int from = fabric.FindNode(a);
  const int to = fabric.FindNode(b);
  std::vector<int> joining;
  for (int link = 0; link < static_cast<int>(fabric.links.size()); ++link) {
    const Edge edge = fabric.EdgeAt(2 * link);
    const bool joins = (edge.from == from && edge.to == to) || (edge.from == to && edge.to == from);
    if (joins) joining.push_back(link);
  }
  if (joining.size() == 1) return joining[0];
  return InvalidArgument("{} links join '{}' and '{}'; name one", joining.size(), a, b);
}

}  // namespace

Result<int> LinkNamed(const Fabric& fabric, std::string_view text) {
  const int named = fabric.FindLink(text);
  if (named >= 0) return named;
  const size_t comma = text.find(',');
  if (comma != std::string_view::npos) {
    return LinkBetween(fabric, text.substr(0, comma), text.substr(comma + 1));
  }
  std::vector<std::string_view> names;
  for (const Link& link : fabric.links) names.push_back(link.name);
  return InvalidArgument("there is no link '{}'{}", text, DidYouMean(text, names));
}

Result<StatedRates> ParseStatedRates(const Fabric& fabric, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return InvalidArgument("'{}' is not LINK=RATE, as leaf0-spine1=100Mbit", text);
  }
  HZ_ASSIGN_OR_RETURN(const int link, LinkNamed(fabric, text.substr(0, equals)));
  const std::string_view rates = text.substr(equals + 1);
  const size_t comma = rates.find(',');
  HZ_ASSIGN_OR_RETURN(const double forth, ParseLinkRate(rates.substr(0, comma)));
  if (comma == std::string_view::npos) return StatedRates{link, {forth, forth}};
  HZ_ASSIGN_OR_RETURN(const double back, ParseLinkRate(rates.substr(comma + 1)));
  return StatedRates{link, {forth, back}};
}

}  // namespace harmonaize
