#include "daemon/reports/flight_report.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/diagnosis/diagnosis.h"
#include "daemon/jobs/job_table.h"
#include "daemon/reports/communicator_parts.h"
#include "daemon/reports/stuck_report.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/session.h"
#include "src/base/clock.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Most operations of ranks in a report: it bounds the engine's time for it, some milliseconds.
constexpr size_t kMostEntries = 4096;
/// Most ranks in a report, for the same reason.
constexpr size_t kMostRanks = 4096;
/// Most ranks that a report looks at, which may be at other hosts: a tenant may have communicators
/// of a million.
constexpr size_t kMostLooks = 1 << 18;
/// Most places of a communicator's window that are looked at: those behind wait for these.
constexpr size_t kMostWindow = 64;

/// The time of the report, by both clocks.
struct Now {
  uint64_t monotonic_ns = MonotonicNanoseconds();
  int64_t unix_ns = static_cast<int64_t>(UnixSeconds() * 1e9);

  int64_t UnixAt(uint64_t at_ns) const {
    return unix_ns - static_cast<int64_t>(AgeAt(at_ns, monotonic_ns));
  }
};

/// How much a report may still list.
struct Left {
  size_t entries = kMostEntries;
  size_t ranks = kMostRanks;
  size_t looks = kMostLooks;
};

/// Makes the description of one communicator.
class Flight {
 public:
  Flight(const Communicator& communicator, const Now& now, Left* left)
      : communicator_(communicator), now_(now), left_(left) {}

  /// Lists the ranks of this host, and those that have left.
  void ListRanks(bool for_operator, json* ranks, json* gone);
  bool whole() const { return whole_; }

 private:
  void Gather();
  void Add(const PostedOperation& part, const char* state);
  json Describe(const Member& member, bool for_operator);

  const Communicator& communicator_;
  const Now& now_;
  Left* const left_;
  bool whole_ = true;
  std::map<int, json> operations_;  // by rank
  std::map<int, uint64_t> first_;   // by rank: the first collective that has not ended
};

void Flight::Add(const PostedOperation& part, const char* state) {
  const OperationDescriptor& descriptor = part.descriptor;
  const int rank = part.member->rank;
  const bool pair = IsPointToPoint(descriptor.collective);
  if (!pair) {
    const auto [found, is_new] = first_.emplace(rank, descriptor.sequence);
    if (!is_new) found->second = std::min(found->second, descriptor.sequence);
  }
  if (left_->entries == 0) {
    whole_ = false;
    return;
  }
  --left_->entries;
  json one = {{"name", NameOf(descriptor, rank)},
              {"collective", CollectiveName(descriptor.collective)},
              {"count", descriptor.count},
              {"type", DataTypeName(descriptor.type)},
              {"state", state},
              {"posted_unix_ns", now_.UnixAt(part.arrived_ns)}};
  if (pair) {
    one["peer"] = descriptor.root;
  } else {
    one["sequence"] = descriptor.sequence;
  }
  if (HasRoot(descriptor.collective)) one["root"] = descriptor.root;
  if (part.ready) one["ready_unix_ns"] = now_.UnixAt(part.ready_ns);
  json& list = operations_[rank];
  if (list.is_null()) list = json::array();
  list.push_back(std::move(one));
}

void Flight::Gather() {
  const CommunicatorWaits waits = communicator_.waits().List(now_.monotonic_ns, 0);
  whole_ = !waits.full();
  for (const CommunicatorWait& wait : waits.listed) {
    // Collectives that have not begun are in the window.
    const bool begun = wait.all_posted && wait.begun;
    if (!begun && !wait.key.pair) continue;
    for (const PostedOperation* part : wait.waiting) Add(*part, begun ? "started" : "scheduled");
  }
  const size_t behind =
      communicator_.window().ForFirst(kMostWindow, [this](const MatchedOperation& operation) {
        for (const PostedOperation* part : operation.parts) {
          if (part != nullptr) Add(*part, "scheduled");
        }
      });
  if (behind > 0) whole_ = false;
}

json Flight::Describe(const Member& member, bool for_operator) {
  json counts = json::object();
  for (int kind = 0; kind < kCollectiveCount; ++kind) {
    counts[std::string(CollectiveName(static_cast<Collective>(kind)))] =
        member.posted[static_cast<size_t>(kind)];
  }
  const auto first = first_.find(member.rank);
  json one = {{"rank", member.rank},
              {"posted", member.next_sequence},
              {"ended", first == first_.end() ? member.next_sequence : first->second},
              {"counts", std::move(counts)},
              {"operations", json::array()}};
  const auto operations = operations_.find(member.rank);
  if (operations != operations_.end()) one["operations"] = std::move(operations->second);
  if (for_operator) one["process"] = member.session->process();
  return one;
}

void Flight::ListRanks(bool for_operator, json* ranks, json* gone) {
  if (communicator_.state() == Communicator::State::kReady) Gather();
  for (int rank = 0; rank < communicator_.ranks(); ++rank) {
    if (left_->looks == 0 || left_->ranks == 0) {
      whole_ = false;
      return;
    }
    --left_->looks;
    const Member* const member = communicator_.member(rank);
    if (member != nullptr) {
      ranks->push_back(Describe(*member, for_operator));
    } else if (communicator_.HasLeft(rank)) {
      gone->push_back(rank);
    } else {
      continue;
    }
    --left_->ranks;
  }
}

json Describe(const ReportSources& sources, const Communicator& communicator, const Now& now,
              bool for_operator, Left* left) {
  Flight flight(communicator, now, left);
  json ranks = json::array();
  json gone = json::array();
  flight.ListRanks(for_operator, &ranks, &gone);
  const InlineSegment* const segment = communicator.inline_segment();
  const Verdict* const verdict = sources.diagnosis->Of(communicator);
  return {
      {"id", communicator.handle()},
      {"name", communicator.name()},
      {"size", communicator.ranks()},
      {"state", StateName(communicator.state())},
      {"begun", communicator.collectives_begun()},
      {"inline_operations", segment == nullptr ? 0 : segment->operations()},
      {"ranks", std::move(ranks)},
      {"left", std::move(gone)},
      {"whole", flight.whole()},
      {"stuck", verdict == nullptr ? json(nullptr)
                                   : DescribeVerdict(communicator, *verdict, now.monotonic_ns)}};
}

}  // namespace

json FlightReport(const ReportSources& sources, const Reader& reader) {
  const Now now;
  std::unordered_map<const Job*, json> jobs;
  Left left;
  for (const auto& [key, job] : sources.jobs->all()) {
    if (!reader.is_operator && key.first != reader.tenant) continue;
    jobs[job.get()] = {
        {"id", job->id.text()}, {"name", job->name}, {"communicators", json::array()}};
  }
  for (const auto& [id, communicator] : sources.communicators->all()) {
    const auto job = jobs.find(communicator->job());
    if (job == jobs.end() || !communicator->has_ranks_here()) continue;
    job->second["communicators"].push_back(
        Describe(sources, *communicator, now, reader.is_operator, &left));
  }
  json list = json::array();
  for (auto& [job, description] : jobs) list.push_back(std::move(description));
  return list;
}

}  // namespace harmonaize::daemon
