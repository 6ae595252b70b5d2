#include "daemon/communicator/operation_terms.h"

namespace harmonaize::daemon {

OperationTermsCache::Last OperationTermsCache::Make(const CommunicatorTerms& granted,
                                                    Collective collective, uint64_t bytes) {
  const CollectiveTerms terms = granted.For(collective, bytes);
  const bool energy = terms.objective == Objective::kEnergy;
  // One processor after the other works with the least energy: none waits for another.
  const int fewest = energy ? 1 : 0;
  return {.is_known = true,
          .bytes = bytes,
          .terms = {.most_workers = terms.processors > 0 ? terms.processors : fewest,
                    .sleeps_at_once = energy,
                    .deadline_seconds = terms.deadline_seconds,
                    .percentile = terms.percentile}};
}

}  // namespace harmonaize::daemon
