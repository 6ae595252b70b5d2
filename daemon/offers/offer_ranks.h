#pragma once

#include <cstdint>
#include <vector>

#include "daemon/offers/offer.h"

namespace harmonaize::daemon {

class JobCommunicators;
struct Job;

/// Knows the ranks that offers name by their sessions. Ranks have other numbers in each
/// communicator of a job that shrinks and grows, and a session stands for the same process in all
/// of them. Thread: engine.
class OfferRanks {
 public:
  /// Requires: `by_job` outlives this object.
  explicit OfferRanks(const JobCommunicators* by_job) : by_job_(*by_job) {}

  /// Notes of which communicator the ranks of the offer's terms are. Where ranks are to leave, and
  /// none are named, the last ones of the job on this host are. Returns their sessions. A job
  /// without ranks here, and more ranks than may be named, are left as they are.
  std::vector<uint32_t> Name(const Job& job, Offer* offer) const;

  /// Returns the offer with the numbers that the ranks of these sessions have now. Those of which
  /// none is left stay as they were. The caller compares.
  Offer Renumbered(const Job& job, const Offer& offer, const std::vector<uint32_t>& sessions) const;

 private:
  std::vector<uint32_t> SessionsOf(const Job& job, const std::vector<int32_t>& ranks) const;

  const JobCommunicators& by_job_;
};

}  // namespace harmonaize::daemon
