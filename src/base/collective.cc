#include "src/base/collective.h"

#include <array>
#include <cctype>
#include <string>

#include "src/base/names.h"

namespace harmonaize {
namespace {

std::string Plain(std::string_view name) {
  std::string plain;
  for (const char letter : name) {
    if (letter == '_' || letter == '-') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return plain;
}

}  // namespace

std::string_view CollectiveName(Collective collective) {
  static constexpr std::array<std::string_view, kCollectiveCount> kNames = {
      "AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter",
      "AlltoAll",  "Gather", "Scatter",   "Send",      "Recv"};
  const auto index = static_cast<size_t>(collective);
  return index < kNames.size() ? kNames[index] : "unknown";
}

Result<Collective> FindCollective(std::string_view text) {
  std::array<std::string_view, kCollectiveCount> names;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto collective = static_cast<Collective>(i);
    names[i] = CollectiveName(collective);
    if (Plain(names[i]) == Plain(text)) return collective;
  }
  return InvalidArgument("there is no collective '{}'{}", text, DidYouMean(text, names));
}

}  // namespace harmonaize
