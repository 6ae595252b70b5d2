// Who keeps others waiting, and what waits.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/remote_pairs.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Pairs of ranks of a communicator that are looked at in one look for late ranks; the next look
/// goes on behind them.
constexpr size_t kPairsLookedAt = 256;
/// Notices of one look about pairs of a communicator.
constexpr int kPairNotices = 8;

/// Operations of each kind that a report of what waits looks at.
constexpr size_t kOperationsLookedAt = 1024;

uint64_t AgeOf(uint64_t since_ns, uint64_t now_ns) {
  return now_ns - std::min(now_ns, since_ns);
}

double AgeInSeconds(uint64_t since_ns, uint64_t now_ns) {
  return static_cast<double>(AgeOf(since_ns, now_ns)) * 1e-9;
}

// Returns the part that has waited longest for the others, or nullptr if none waits. A part that is
// queued behind earlier operations of its stream does not count: it waits for its stream.
const PostedOperation* FirstReady(const MatchedOperation& operation) {
  const PostedOperation* first = nullptr;
  for (const PostedOperation* part : operation.parts) {
    if (part == nullptr || !part->ready) continue;
    if (first == nullptr || part->ready_ns < first->ready_ns) first = part;
  }
  return first;
}

std::string WaitNotice(const PostedOperation& waits, uint64_t age_ns, const std::string& what_for) {
  return fmt::format("{} has waited {:.1f} s for {}", NameOf(waits.descriptor, waits.member->rank),
                     static_cast<double>(age_ns) * 1e-9, what_for);
}

}  // namespace

void Communicator::Notify(const std::vector<PostedOperation*>& waiting, const std::string& notice) {
  observers_.Tell(&CommunicatorObserver::OnLate, *this, notice);
  for (PostedOperation* part : waiting) {
    if (part != nullptr) part->member->slot->notice.Set(notice);
  }
}

void Communicator::ReportLate(uint64_t now_ns, uint64_t late_after_ns) {
  ReportLateCollective(now_ns, late_after_ns);
  ReportLatePairs(now_ns, late_after_ns);
  if (host_group_ == nullptr) return;
  ReportFilling(now_ns, late_after_ns);
  TellSlow(now_ns);
  host_group_->ReportLate(now_ns, late_after_ns);
  if (PlanControl* const control = host_group_->plans().control()) control->Tick(now_ns);
  if (host_group_->gate()->waits()) LaunchReady();
}

void Communicator::ReportLateCollective(uint64_t now_ns, uint64_t late_after_ns) {
  if (window_.front() == nullptr) return;
  MatchedOperation& operation = *window_.front();
  const PostedOperation* const witness = FirstReady(operation);
  if (witness == nullptr) return;
  const uint64_t age = AgeOf(witness->ready_ns, now_ns);
  if (age < late_after_ns || now_ns < operation.next_report_ns) return;
  std::vector<std::string> missing;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (IsRemote(rank)) continue;
    const PostedOperation* part = operation.parts[place_of_rank_[static_cast<size_t>(rank)]];
    if (part != nullptr && part->ready) continue;
    missing.push_back(DescribeRank(rank));
    if (part != nullptr) missing.back() += " whose stream is busy with earlier operations";
  }
  if (missing.empty()) return;              // all of this host are here
  operation.next_report_ns = now_ns + age;  // twice as long a wait until the next report
  Notify(operation.parts, WaitNotice(*witness, age, fmt::format("{}", fmt::join(missing, ", "))));
}

// Ranks that have posted a collective and do not get on with copying what they have for it. All
// others wait, on all hosts, and the home tells them.
void Communicator::ReportFilling(uint64_t now_ns, uint64_t late_after_ns) {
  if (state_ != State::kReady) return;
  for (MatchedOperation* operation : in_flight_) {
    if (operation->feed.empty()) continue;
    const uint64_t age = AgeOf(operation->started_ns, now_ns);
    if (age < late_after_ns || now_ns < operation->next_report_ns) continue;
    const std::vector<int> filling = operation->feed.Filling();
    if (filling.empty()) continue;
    operation->next_report_ns = now_ns + age;
    const std::string notice =
        WaitNotice(*operation->parts.front(), age, "the data of " + RankList(filling));
    host_group_->TellHome(
        LateMessage{host_group_->roster().key, operation->sequence, notice, filling});
  }
}

// Ranks may wait for each other in as many pairs as the square of their number.
void Communicator::ReportLatePairs(uint64_t now_ns, uint64_t late_after_ns) {
  int notices = 0;
  const auto report = [&](PostedOperation* part, uint64_t* next_report_ns) {
    if (!part->ready || notices >= kPairNotices) return;
    const uint64_t age = AgeOf(part->ready_ns, now_ns);
    if (age < late_after_ns || now_ns < *next_report_ns) return;
    *next_report_ns = now_ns + age;
    ++notices;
    Notify({part}, WaitNotice(*part, age, DescribeRank(part->descriptor.root)));
  };
  pairs_.LookAtSome(kPairsLookedAt, report);
  if (remote_pairs_ == nullptr) return;
  remote_pairs_->ForEachWaiting(
      [&](PostedOperation* part) { report(part, &part->next_report_ns); });
}

WaitingOperations Communicator::Waiting(uint64_t now_ns) const {
  WaitingOperations waiting;
  const auto add_part = [&](const PostedOperation* part) {
    if (!part->ready || !waiting.MayList()) return;
    waiting.listed.push_back({NameOf(part->descriptor, part->member->rank),
                              AgeInSeconds(part->ready_ns, now_ns),
                              {part->descriptor.root}});
  };
  // Those behind the first ones count as waiting for a rank, though some may wait for their stream.
  waiting.not_listed +=
      window_.ForFirst(kOperationsLookedAt, [&](const MatchedOperation& operation) {
        const PostedOperation* const first = FirstReady(operation);
        if (first != nullptr && waiting.MayList())
          waiting.listed.push_back(Describe(operation, *first, now_ns));
      });
  waiting.not_listed += pairs_.ForFirst(kOperationsLookedAt, add_part);
  if (remote_pairs_ == nullptr) return waiting;
  ForEachBegun([&](const MatchedOperation* operation) {
    if (operation->late_ranks.empty() || !waiting.MayList()) return;
    const PostedOperation& first = *operation->parts.front();
    waiting.listed.push_back({NameOf(first.descriptor, first.member->rank),
                              AgeInSeconds(operation->first_arrival_ns, now_ns),
                              operation->late_ranks});
  });
  remote_pairs_->ForEachWaiting(add_part);
  return waiting;
}

// A collective that waits for ranks of this host, and which these are.
WaitingOperation Communicator::Describe(const MatchedOperation& operation,
                                        const PostedOperation& first_ready, uint64_t now_ns) const {
  WaitingOperation entry{.operation = NameOf(first_ready.descriptor, first_ready.member->rank),
                         .for_seconds = AgeInSeconds(first_ready.ready_ns, now_ns),
                         .missing_ranks = {}};
  for (int rank = 0; rank < ranks(); ++rank) {
    if (IsRemote(rank)) continue;
    const PostedOperation* part = operation.parts[place_of_rank_[static_cast<size_t>(rank)]];
    const bool missing = part == nullptr || !part->ready;
    if (missing && entry.missing_ranks.size() < WaitingOperations::kMostRanks) {
      entry.missing_ranks.push_back(rank);
    }
  }
  return entry;
}

}  // namespace harmonaize::daemon
