#include "daemon/communicator/operation_terms.h"

namespace harmonaize::daemon {
namespace {

OperationTerms OperationTermsOf(const CollectiveTerms& granted) {
  const bool energy = granted.objective == Objective::kEnergy;
  // One processor after the other works with the least energy: none waits for another.
  const int fewest = energy ? 1 : 0;
  return {.most_workers = granted.processors > 0 ? granted.processors : fewest,
          .sleeps_at_once = energy,
          .deadline_seconds = granted.deadline_seconds,
          .percentile = granted.percentile};
}

}  // namespace

void OperationTermsTable::Make(const std::shared_ptr<const JobTerms>& granted,
                               std::string_view communicator) {
  sizes_ = granted->SizesToTellApart(communicator);
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    terms_[i].clear();
    for (const uint64_t bytes : sizes_) {
      terms_[i].push_back(
          OperationTermsOf(granted->For(communicator, static_cast<Collective>(i), bytes)));
    }
  }
  granted_ = granted;
}

}  // namespace harmonaize::daemon
