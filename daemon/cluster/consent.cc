#include "daemon/cluster/consent.h"

namespace harmonaize::daemon {
namespace {

/// What crossed the news of another end stays behind; of that no more than this.
constexpr size_t kMost = 4096;

}  // namespace

Consent::Outcome Consent::Take(int host, uint64_t sequence, uint32_t digest) {
  Begun& begun = begun_[sequence];
  const uint32_t first = begun.digests.empty() ? digest : begun.digests.begin()->second;
  begun.digests[host] = digest;
  if (digest != first || begun.disagree) {
    const bool known = begun.disagree;
    begun.disagree = true;
    return known ? Outcome::kWaiting : Outcome::kDisagree;
  }
  if (begun.digests.size() == static_cast<size_t>(hosts_)) {
    begun_.erase(sequence);
    return Outcome::kAll;
  }
  if (begun_.size() > kMost) begun_.erase(begun_.begin());
  return Outcome::kWaiting;
}

}  // namespace harmonaize::daemon
