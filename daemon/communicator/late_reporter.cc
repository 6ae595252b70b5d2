#include "daemon/communicator/late_reporter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/late_explainer.h"
#include "daemon/tenant/operation_text.h"

namespace harmonaize::daemon {
namespace {

/// Most pairs of ranks of a communicator that one look for late ranks looks at, and most sends and
/// receives with other hosts; the next look goes on behind them.
constexpr size_t kPairsLookedAt = 256;
/// Most notices of one look about pairs of a communicator.
constexpr int kPairNotices = 8;

/// Most operations of each kind that a report of waiting operations looks at.
constexpr size_t kOperationsLookedAt = 1024;

uint64_t AgeOf(uint64_t since_ns, uint64_t now_ns) {
  return now_ns - std::min(now_ns, since_ns);
}

// Returns what is known of why these ranks keep an operation waiting, to be put behind their names.
std::string WhyLate(const Communicator& communicator, const PostedOperation& waits,
                    const std::vector<int>& ranks) {
  const LateExplainer* const explainer = communicator.explainer();
  return explainer == nullptr ? "" : explainer->Explain(communicator, KeyOf(waits), ranks);
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

}  // namespace

double AgeInSeconds(uint64_t since_ns, uint64_t now_ns) {
  return static_cast<double>(AgeOf(since_ns, now_ns)) * 1e-9;
}

std::string WaitNotice(const PostedOperation& waits, uint64_t age_ns, const std::string& what_for) {
  return fmt::format("{} has waited {:.1f} s for {}", NameOf(waits.descriptor, waits.member->rank),
                     static_cast<double>(age_ns) * 1e-9, what_for);
}

void LateReporter::Report(uint64_t now_ns, uint64_t late_after_ns) {
  ReportCollective(now_ns, late_after_ns);
  ReportFilling(now_ns, late_after_ns);
  ReportPairs(now_ns, late_after_ns);
}

void LateReporter::ReportCollective(uint64_t now_ns, uint64_t late_after_ns) {
  if (window_->front() == nullptr) return;
  MatchedOperation& operation = *window_->front();
  const PostedOperation* const witness = FirstReady(operation);
  if (witness == nullptr) return;
  const uint64_t age = AgeOf(witness->ready_ns, now_ns);
  if (age < late_after_ns || now_ns < operation.next_report_ns) return;
  std::vector<std::string> missing;
  std::vector<int> ranks;
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (communicator_->IsRemote(rank)) continue;
    const PostedOperation* part = communicator_->PartOf(operation, rank);
    if (part != nullptr && part->ready) continue;
    ranks.push_back(rank);
    missing.push_back(communicator_->DescribeRank(rank));
    if (part != nullptr) missing.back() += " whose stream is busy with earlier operations";
  }
  if (missing.empty()) return;              // all ranks of this host are here
  operation.next_report_ns = now_ns + age;  // twice as long a wait until the next report
  communicator_->Notify(operation.parts,
                        WaitNotice(*witness, age,
                                   fmt::format("{}{}", fmt::join(missing, ", "),
                                               WhyLate(*communicator_, *witness, ranks))));
}

// Reports ranks that have posted an operation and do not get on with copying their data for it.
void LateReporter::ReportFilling(uint64_t now_ns, uint64_t late_after_ns) {
  for (MatchedOperation* operation : communicator_->sliced()) {
    const uint64_t age = AgeOf(operation->started_ns, now_ns);
    if (age < late_after_ns || now_ns < operation->next_report_ns) continue;
    std::vector<std::string> filling;
    const std::vector<int> ranks = operation->feed.Filling();
    for (const int rank : ranks) {
      filling.push_back(communicator_->DescribeRank(rank));
    }
    if (filling.empty()) continue;
    operation->next_report_ns = now_ns + age;
    communicator_->Notify(
        operation->parts,
        WaitNotice(*operation->parts.front(), age,
                   fmt::format("the data of {}{}", fmt::join(filling, ", "),
                               WhyLate(*communicator_, *operation->parts.front(), ranks))));
  }
}

// Looks at some pairs only: ranks may wait for each other in as many pairs as the square of their
// number, and for ranks of other hosts in tens of thousands of transfers.
void LateReporter::ReportPairs(uint64_t now_ns, uint64_t late_after_ns) {
  int notices = 0;
  const auto report = [&](const OtherHosts::WaitingPair& pair, uint64_t* next_report_ns) {
    if (!pair.part->ready || notices >= kPairNotices) return;
    const uint64_t age = AgeOf(pair.since_ns, now_ns);
    if (age < late_after_ns || now_ns < *next_report_ns) return;
    *next_report_ns = now_ns + age;
    ++notices;
    const int root = pair.part->descriptor.root;
    const std::string peer =
        communicator_->DescribeRank(root) + WhyLate(*communicator_, *pair.part, {root});
    communicator_->Notify(
        {pair.part}, WaitNotice(*pair.part, age, pair.for_data ? "the data of " + peer : peer));
  };
  pairs_->LookAtSome(kPairsLookedAt, [&](PostedOperation* part, uint64_t* next_report_ns) {
    report({part, part->ready_ns, false}, next_report_ns);
  });
  if (communicator_->other_hosts() == nullptr) return;
  communicator_->other_hosts()->LookAtSomePairs(
      kPairsLookedAt, now_ns,
      [&](const OtherHosts::WaitingPair& pair) { report(pair, &pair.part->next_report_ns); });
}

WaitingOperations LateReporter::Waiting(uint64_t now_ns) const {
  WaitingOperations waiting;
  const auto add_part = [&](const PostedOperation* part) {
    if (!part->ready || !waiting.MayList()) return;
    waiting.listed.push_back({NameOf(part->descriptor, part->member->rank),
                              AgeInSeconds(part->ready_ns, now_ns),
                              {part->descriptor.root}});
  };
  // Operations behind the first ones count as waiting for a rank, though some may wait for their
  // stream.
  waiting.not_listed +=
      window_->ForFirst(kOperationsLookedAt, [&](const MatchedOperation& operation) {
        const PostedOperation* const first = FirstReady(operation);
        if (first != nullptr && waiting.MayList())
          waiting.listed.push_back(Describe(operation, *first, now_ns));
      });
  for (const MatchedOperation* sliced : communicator_->sliced()) {
    const std::vector<int> filling = sliced->feed.Filling();
    if (filling.empty() || !waiting.MayList()) continue;
    const PostedOperation& first = *sliced->parts.front();
    waiting.listed.push_back({NameOf(first.descriptor, first.member->rank),
                              AgeInSeconds(sliced->started_ns, now_ns), filling});
  }
  waiting.not_listed += pairs_->ForFirst(kOperationsLookedAt, add_part);
  if (communicator_->other_hosts() == nullptr) return waiting;
  communicator_->other_hosts()->AddWaiting(now_ns, &waiting);
  waiting.not_listed += communicator_->other_hosts()->ForFirstPairs(kOperationsLookedAt, add_part);
  return waiting;
}

// Describes a collective that waits for ranks of this host, and which ranks these are.
WaitingOperation LateReporter::Describe(const MatchedOperation& operation,
                                        const PostedOperation& first_ready, uint64_t now_ns) const {
  WaitingOperation entry{.operation = NameOf(first_ready.descriptor, first_ready.member->rank),
                         .for_seconds = AgeInSeconds(first_ready.ready_ns, now_ns),
                         .missing_ranks = {}};
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (communicator_->IsRemote(rank)) continue;
    const PostedOperation* part = communicator_->PartOf(operation, rank);
    const bool missing = part == nullptr || !part->ready;
    if (missing && entry.missing_ranks.size() < WaitingOperations::kMostRanks) {
      entry.missing_ranks.push_back(rank);
    }
  }
  return entry;
}

}  // namespace harmonaize::daemon
