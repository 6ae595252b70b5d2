#include "cli/status/waiting_notes.h"

#include <fmt/format.h>

#include <utility>

#include "src/base/json_text.h"

namespace harmonaize {
namespace {

std::string WaitingNote(const Json& waiting) {
  std::string ranks;
  const Json& missing = ListAt(waiting, "missing_ranks");
  for (const Json& rank : missing) {
    if (!rank.is_number_integer()) continue;
    ranks += (ranks.empty() ? "" : ", ") + JsonText(rank);
  }
  return fmt::format("{} has waited {} for rank{} {}", TextAt(waiting, "operation"),
                     DurationAt(waiting, "for_seconds"), missing.size() == 1 ? "" : "s",
                     ranks.empty() ? kMissing : ranks);
}

// Seconds of waiting from which on an operation is shown: operations under way are no news.
constexpr double kWorthTellingSeconds = 1;
// Most operations shown: those queued behind a late rank are one piece of news.
constexpr size_t kMostWaiting = 3;

}  // namespace

std::vector<std::string> WaitingNotes(const Json& communicator) {
  std::vector<std::string> notes;
  size_t untold = 0;
  for (const Json& waiting : ListAt(communicator, "waiting")) {
    const Json& seconds = At(waiting, "for_seconds");
    if (!seconds.is_number() || seconds.get<double>() < kWorthTellingSeconds) continue;
    if (notes.size() < kMostWaiting) {
      notes.push_back(WaitingNote(waiting));
    } else {
      ++untold;
    }
  }
  const Json& not_listed = At(communicator, "waiting_not_listed");
  const size_t more = not_listed.is_number_unsigned() ? not_listed.get<size_t>() : 0;
  if (untold + more > 0) {
    notes.push_back(fmt::format("{} more wait; --json has {}", untold + more,
                                more > 0 ? "the first of them" : "all"));
  }
  return notes;
}

}  // namespace harmonaize
