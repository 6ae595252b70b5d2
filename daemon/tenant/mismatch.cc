#include "daemon/tenant/mismatch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/rank_list.h"

namespace harmonaize::daemon {

Status Mismatch::AsError() const {
  if (asked.empty()) {
    return InvalidUsage(
        "the ranks disagree about operation #{}; what each asked for is not known any more",
        sequence);
  }
  std::vector<std::string> texts;
  for (const RankAsked& one : asked) {
    if (texts.size() == kMostNamedRanks) break;
    texts.push_back(fmt::format("rank {} asked for {}", one.rank, RequestOf(one.descriptor)));
  }
  return InvalidUsage("the ranks disagree about operation #{}: {}", sequence,
                      fmt::join(texts, "; "));
}

bool AllAgree(const std::vector<RankAsked>& asked) {
  return std::all_of(asked.begin(), asked.end(), [&](const RankAsked& one) {
    return Agree(asked.front().descriptor, one.descriptor);
  });
}

}  // namespace harmonaize::daemon
