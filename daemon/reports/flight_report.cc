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

/// Makes the description of one communicator.
class Flight {
 public:
  Flight(const Communicator& communicator, const Now& now, size_t* entries_left)
      : communicator_(communicator), now_(now), entries_left_(entries_left) {}

  /// Lists `*ranks_left` ranks at most.
  json Ranks(bool for_operator, size_t* ranks_left);
  bool whole() const { return whole_; }

 private:
  void Gather();
  void Add(const PostedOperation& part, const char* state);

  const Communicator& communicator_;
  const Now& now_;
  size_t* const entries_left_;
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
  if (*entries_left_ == 0) {
    whole_ = false;
    return;
  }
  --*entries_left_;
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

json Flight::Ranks(bool for_operator, size_t* ranks_left) {
  if (communicator_.state() == Communicator::State::kReady) Gather();
  json ranks = json::array();
  for (int rank = 0; rank < communicator_.ranks(); ++rank) {
    const Member* const member = communicator_.member(rank);
    if (member == nullptr) continue;
    if (*ranks_left == 0) {
      whole_ = false;
      break;
    }
    --*ranks_left;
    json counts = json::object();
    for (int kind = 0; kind < kCollectiveCount; ++kind) {
      counts[std::string(CollectiveName(static_cast<Collective>(kind)))] =
          member->posted[static_cast<size_t>(kind)];
    }
    const auto first = first_.find(rank);
    json one = {{"rank", rank},
                {"posted", member->next_sequence},
                {"ended", first == first_.end() ? member->next_sequence : first->second},
                {"counts", std::move(counts)},
                {"operations", json::array()}};
    const auto operations = operations_.find(rank);
    if (operations != operations_.end()) one["operations"] = std::move(operations->second);
    if (for_operator) one["process"] = member->session->process();
    ranks.push_back(std::move(one));
  }
  return ranks;
}

json Describe(const ReportSources& sources, const Communicator& communicator, const Now& now,
              bool for_operator, size_t* ranks_left, size_t* entries_left) {
  Flight flight(communicator, now, entries_left);
  json ranks = flight.Ranks(for_operator, ranks_left);
  json left = json::array();
  for (int rank = 0; rank < std::min(communicator.ranks(), static_cast<int>(kMostRanks)); ++rank) {
    if (communicator.HasLeft(rank)) left.push_back(rank);
  }
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
      {"left", std::move(left)},
      {"whole", flight.whole()},
      {"stuck", verdict == nullptr ? json(nullptr)
                                   : DescribeVerdict(communicator, *verdict, now.monotonic_ns)}};
}

}  // namespace

json FlightReport(const ReportSources& sources, const Reader& reader) {
  const Now now;
  std::unordered_map<const Job*, json> jobs;
  size_t ranks_left = kMostRanks;
  size_t entries_left = kMostEntries;
  for (const auto& [key, job] : sources.jobs->all()) {
    if (!reader.is_operator && key.first != reader.tenant) continue;
    jobs[job.get()] = {
        {"id", job->id.text()}, {"name", job->name}, {"communicators", json::array()}};
  }
  for (const auto& [id, communicator] : sources.communicators->all()) {
    const auto job = jobs.find(communicator->job());
    if (job == jobs.end() || !communicator->has_ranks_here()) continue;
    job->second["communicators"].push_back(
        Describe(sources, *communicator, now, reader.is_operator, &ranks_left, &entries_left));
  }
  json list = json::array();
  for (auto& [job, description] : jobs) list.push_back(std::move(description));
  return list;
}

}  // namespace harmonaize::daemon
