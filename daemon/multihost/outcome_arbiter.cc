#include "daemon/multihost/outcome_arbiter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/rank_list.h"

namespace harmonaize::daemon {
namespace {

/// Most cases that are kept, decided ones included; beyond it the oldest is forgotten.
constexpr size_t kMostCases = 1024;

OperationDescriptor DescriptorOf(const RankRequest& request, uint64_t sequence) {
  OperationDescriptor descriptor;
  descriptor.sequence = sequence;
  descriptor.collective = request.collective;
  descriptor.count = request.count;
  descriptor.type = request.type;
  descriptor.op = request.op;
  descriptor.root = request.root;
  return descriptor;
}

/// Returns whether the host has said what a rank of it asks for. One that is done may have
/// forgotten that; nobody waits for it.
bool HasAsked(const ProgressMessage& host) {
  return !host.requests.empty() || host.state == HostProgress::kDone;
}

// Names the ranks that an operation waits for: "ranks 1, 4, and rank 2 whose stream is busy with
// earlier operations". One of the lists may be empty. Both are sorted afterwards.
std::string DescribeLate(std::vector<int>* missing, std::vector<int>* queued) {
  std::sort(missing->begin(), missing->end());
  std::sort(queued->begin(), queued->end());
  if (queued->empty()) return RankList(*missing);
  const std::string busy =
      fmt::format("{} whose {} busy with earlier operations", RankList(*queued),
                  queued->size() == 1 ? "stream is" : "streams are");
  return missing->empty() ? busy : fmt::format("{}, and {}", RankList(*missing), busy);
}

}  // namespace

OutcomeArbiter::Outcome OutcomeArbiter::Take(int host, const ProgressMessage& progress,
                                             uint64_t now_ns) {
  Outcome outcome;
  if (progress.sequence >= end_) return outcome;
  Case& one = cases_[progress.sequence];
  if (one.begun_ns == 0) one.begun_ns = now_ns;
  one.by_host[host] = progress;
  if (!one.decided) outcome = Judge(progress.sequence, &one, now_ns);
  if (!std::exchange(one.asked, true) && !one.decided) {
    outcome.ask.clear();
    for (int other = 0; other < hosts_; ++other) {
      if (other != host && !gone_(other)) outcome.ask.push_back(other);
    }
  }
  if (AllAre(one, HostProgress::kDone)) {
    cases_.erase(progress.sequence);
  }
  // Decided cases are kept for a while, so that a late report does not open one anew.
  if (cases_.size() > kMostCases) cases_.erase(cases_.begin());
  return outcome;
}

OutcomeArbiter::Outcome OutcomeArbiter::Judge(uint64_t sequence, Case* one, uint64_t now_ns) const {
  Outcome outcome;
  outcome.mismatch = FindMismatch(sequence, *one);
  if (outcome.mismatch.has_value() && WaitsForHosts(one, now_ns)) return {};
  if (outcome.mismatch.has_value()) outcome.verdict = outcome.mismatch->AsError();
  if (outcome.verdict.ok()) {
    const Status failure = Failure(*one);
    // A transport's failure may have its cause in ranks that disagree, or in a failure of another
    // host, which ends its messages. So all hosts are heard first, and those that were still
    // running are asked again.
    const bool transport = failure.code() == Code::kRemoteError;
    if (!failure.ok() && !transport) outcome.verdict = failure;
    if (transport && !std::exchange(one->failing, true)) {
      std::erase_if(one->by_host, [&](const auto& entry) {
        if (entry.second.state != HostProgress::kRunning) return false;
        outcome.ask.push_back(entry.first);
        return true;
      });
    }
    const bool all_posted =
        All(*one, [](const auto& host) { return host.state != HostProgress::kWaiting; });
    if (transport && all_posted) outcome.breaks = failure;
  }
  one->decided = !outcome.verdict.ok() || !outcome.breaks.ok();
  return outcome;
}

// Returns whether a case whose ranks disagree waits for hosts of which no rank has been heard.
bool OutcomeArbiter::WaitsForHosts(Case* one, uint64_t now_ns) const {
  if (All(*one, [](const auto& host) { return HasAsked(host); })) return false;
  if (one->settles_since_ns == 0) one->settles_since_ns = now_ns;
  return now_ns - std::min(now_ns, one->settles_since_ns) < kSettleNanoseconds;
}

std::vector<OutcomeArbiter::LookedAt> OutcomeArbiter::Settle(uint64_t now_ns) {
  std::vector<LookedAt> looked;
  for (auto& [sequence, one] : cases_) {
    if (one.decided || one.settles_since_ns == 0) continue;
    LookedAt& at = looked.emplace_back(LookedAt{sequence, Judge(sequence, &one, now_ns)});
    if (one.decided) continue;
    for (const auto& [host, progress] : one.by_host) {
      if (!HasAsked(progress) && !gone_(host)) at.outcome.ask.push_back(host);
    }
  }
  return looked;
}

bool OutcomeArbiter::settles() const {
  return std::any_of(cases_.begin(), cases_.end(), [](const auto& entry) {
    return entry.second.settles_since_ns != 0 && !entry.second.decided;
  });
}

void OutcomeArbiter::NoteDisagreement(uint64_t sequence) {
  if (sequence < end_) cases_[sequence].known_to_disagree = true;
}

std::vector<Mismatch> OutcomeArbiter::EndFrom(uint64_t sequence) {
  end_ = std::min(end_, sequence);
  std::vector<Mismatch> unsettled;
  const auto first = cases_.lower_bound(sequence);
  for (auto next = first; next != cases_.end(); ++next) {
    const Case& one = next->second;
    if (one.decided || one.settles_since_ns == 0) continue;
    if (auto mismatch = FindMismatch(next->first, one)) unsettled.push_back(std::move(*mismatch));
  }
  cases_.erase(first, cases_.end());
  return unsettled;
}

std::optional<OutcomeArbiter::LookedAt> OutcomeArbiter::LookAgain(uint64_t from, uint64_t now_ns) {
  const auto found = cases_.lower_bound(from);
  if (found == cases_.end()) return std::nullopt;
  Case& one = found->second;
  LookedAt looked{.sequence = found->first, .outcome = {}};
  if (!one.decided) looked.outcome = Judge(looked.sequence, &one, now_ns);
  if (AllAre(one, HostProgress::kDone)) {
    cases_.erase(found);
  }
  return looked;
}

size_t OutcomeArbiter::open() const {
  return static_cast<size_t>(std::count_if(
      cases_.begin(), cases_.end(), [](const auto& entry) { return !entry.second.decided; }));
}

std::optional<Mismatch> OutcomeArbiter::FindMismatch(uint64_t sequence, const Case& one) const {
  Mismatch mismatch{.sequence = sequence};
  for (const auto& [host, progress] : one.by_host) {
    for (const RankRequest& request : progress.requests) {
      mismatch.asked.push_back({request.rank, DescriptorOf(request, sequence)});
    }
  }
  if (AllAgree(mismatch.asked)) {
    mismatch.asked.clear();
    const bool all_heard = All(one, [](const auto&) { return true; });
    if (!one.known_to_disagree || !all_heard) return std::nullopt;
    return mismatch;
  }
  std::sort(mismatch.asked.begin(), mismatch.asked.end(),
            [](const RankAsked& a, const RankAsked& b) { return a.rank < b.rank; });
  return mismatch;
}

// Returns the failure of a case. What a host has met by itself goes before what transports have.
Status OutcomeArbiter::Failure(const Case& one) const {
  Status found;
  for (const auto& [host, progress] : one.by_host) {
    if (progress.state != HostProgress::kFailed) continue;
    const Status failure = progress.status;
    if (!failure.ok() && failure.code() != Code::kRemoteError) return failure;
    if (found.ok()) found = failure;
  }
  return found;
}

// Returns whether all hosts that are not gone have been heard, and `holds` is true for what each
// has said.
bool OutcomeArbiter::All(const Case& one,
                         const std::function<bool(const ProgressMessage&)>& holds) const {
  for (int host = 0; host < hosts_; ++host) {
    if (gone_(host)) continue;
    const auto found = one.by_host.find(host);
    if (found == one.by_host.end() || !holds(found->second)) return false;
  }
  return true;
}

bool OutcomeArbiter::AllAre(const Case& one, HostProgress state) const {
  return All(one, [state](const auto& host) { return host.state == state; });
}

std::vector<OutcomeArbiter::LateOperation> OutcomeArbiter::Late(uint64_t now_ns,
                                                                uint64_t late_after_ns) {
  std::vector<LateOperation> late;
  for (auto& [sequence, one] : cases_) {
    const uint64_t age = now_ns - std::min(now_ns, one.begun_ns);
    if (one.decided || age < late_after_ns || now_ns < one.next_report_ns) continue;
    std::string name = fmt::format("operation #{}", sequence);
    LateOperation operation{.sequence = sequence, .notice = "", .missing = {}, .ask = {}};
    std::vector<int> queued;
    for (const auto& [host, progress] : one.by_host) {
      operation.missing.insert(operation.missing.end(), progress.missing.begin(),
                               progress.missing.end());
      queued.insert(queued.end(), progress.queued.begin(), progress.queued.end());
      if (progress.state == HostProgress::kWaiting) operation.ask.push_back(host);
      if (progress.requests.empty()) continue;
      const RankRequest& request = progress.requests.front();
      name = NameOf(DescriptorOf(request, sequence), request.rank);
    }
    if (!std::exchange(one.asked_who_is_late, true)) {
      operation.missing.clear();
      late.push_back(std::move(operation));
      continue;
    }
    one.asked_who_is_late = false;
    if (operation.missing.empty() && queued.empty()) continue;
    one.next_report_ns = now_ns + age;  // twice as long a wait until the next report
    operation.ask.clear();
    operation.notice =
        fmt::format("{} has waited {:.1f} s for {}", name, static_cast<double>(age) * 1e-9,
                    DescribeLate(&operation.missing, &queued));
    operation.missing.insert(operation.missing.end(), queued.begin(), queued.end());
    late.push_back(std::move(operation));
  }
  return late;
}

}  // namespace harmonaize::daemon
