#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/elasticity/elastic_world.h"
#include "daemon/elasticity/size_planner.h"

namespace harmonaize::daemon {

/// An offer that is worth making to a job, about its ranks on one host.
struct ElasticOffer {
  uint64_t job = 0;
  size_t host = 0;     ///< Place in the world's hosts.
  bool grows = false;  ///< Ranks may come; else they are to leave.
  int32_t ranks = 0;
  SizeReason reason = SizeReason::kShortens;
  std::string why = {};              ///< One sentence for the tenant, which names no other one.
  double expected_step_seconds = 0;  ///< Of the job, with all that is offered to it now.
  double confidence = 0;             ///< In that, from 0 to 1.
};

/// How soon and how often sizes change.
struct ElasticPace {
  /// How many looks in a row have to want a change that only makes jobs faster or cheaper.
  int looks = 3;
  /// Least time, in seconds, for which a job is left alone after an offer, but for jobs that wait
  /// and for deadlines: it answers, changes, and its steps are timed anew.
  double settle_seconds = 60;
  /// The same, as a multiple of the job's pause for a change, so that pauses take a tenth of its
  /// time at most.
  double settle_pauses = 10;
  /// Time, in seconds, within which the world shows what was offered: until then a job is left
  /// alone altogether.
  double shows_after_seconds = 5;
};

/// Grows and shrinks elastic jobs by the load of the moment: asked at regular intervals, it says
/// which offers to make. Remembers what it has wanted before, so that noise in measured times moves
/// no rank, and leaves a job alone for a while after an offer. Thread: any, one at a time.
class ElasticPolicy {
 public:
  explicit ElasticPolicy(const ElasticPace& pace = {}) : pace_(pace) {}

  /// Returns the offers to make now. They are taken to be made.
  std::vector<ElasticOffer> Decide(const ElasticWorld& world);

 private:
  struct Memory {
    bool grows = false;
    int looks = 0;                   // in a row that wanted this direction
    double quiet_until_seconds = 0;  // but for jobs that wait, and deadlines
    double alone_until_seconds = 0;
    bool is_wanted = false;  // by the present look
  };
  std::vector<bool> LeftAlone(const ElasticWorld& world) const;
  std::vector<bool> Settling(const ElasticWorld& world) const;
  void Note(const ElasticWorld& world, const std::vector<SizeChange>& changes);
  bool IsRipe(const ElasticJob& job, SizeReason reason) const;

  const ElasticPace pace_;
  std::map<uint64_t, Memory> memories_;  // by ElasticJob::id
};

}  // namespace harmonaize::daemon
