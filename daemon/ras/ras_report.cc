#include "daemon/ras/ras_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/diagnosis/diagnosis.h"
#include "daemon/formation/pending_formations.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/reports/communicator_parts.h"
#include "daemon/tenant/session_table.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Most communicators of a report. It bounds the engine's time for it, as the next two do.
constexpr size_t kMostCommunicators = 1024;
/// Most ranks that a report lists, all communicators together.
constexpr size_t kMostRanks = 8192;
/// Most ranks that a report looks at: a tenant may have communicators of a million.
constexpr size_t kMostLooks = 1 << 18;

/// How much a report may still list.
struct Room {
  size_t communicators = kMostCommunicators;
  size_t ranks = kMostRanks;
  size_t looks = kMostLooks;

  /// Counts a rank that is looked at; returns false if it is one too many.
  bool Look() { return looks > 0 && looks-- > 0; }
  bool List() { return ranks > 0 && ranks-- > 0; }
};

/// Returns the number that NCCL has for the failure (ncclResult_t).
int ResultOf(const Status& failure) {
  switch (failure.code()) {
    case Code::kOk: return 0;
    case Code::kInvalidArgument: return 4;
    case Code::kInvalidUsage: return 5;
    case Code::kSystemError:
    case Code::kUnavailable: return 2;
    case Code::kRemoteError: return 6;
    case Code::kInternalError: return 3;
    case Code::kInProgress: return 7;
  }
  return 3;
}

json CountsOf(const Member& member) {
  json counts = json::object();
  for (int kind = 0; kind < kCollectiveCount; ++kind) {
    counts[std::string(CollectiveName(static_cast<Collective>(kind)))] =
        member.posted[static_cast<size_t>(kind)];
  }
  return counts;
}

/// Lists the ranks of a communicator by where they are.
class Ranks {
 public:
  Ranks(const Communicator& communicator, Room* room)
      : communicator_(communicator),
        roster_(communicator.host_group() == nullptr ? nullptr
                                                     : &communicator.host_group()->roster()) {
    for (int rank = 0; rank < communicator.ranks() && room->Look(); ++rank) Add(rank, room);
  }

  void DescribeTo(json* description) {
    int least = 0;
    int most = 0;
    for (const auto& [host, ranks] : on_host_) {
      least = least == 0 ? ranks : std::min(least, ranks);
      most = std::max(most, ranks);
    }
    (*description)["hosts"] = std::max<size_t>(on_host_.size(), 1);
    (*description)["ranks_per_host"] = {least, most};
    (*description)["ranks"] = std::move(here_);
    (*description)["elsewhere"] = std::move(elsewhere_);
    (*description)["gone"] = std::move(gone_);
    (*description)["missing"] = json::array();
  }

 private:
  void Add(int rank, Room* room) {
    const Member* const member = communicator_.member(rank);
    if (member == nullptr && communicator_.HasLeft(rank)) {
      if (room->List()) gone_.push_back(rank);
      return;
    }
    // Hosts are numbered in the order of their first ranks: the roster's own order is not for
    // tenants.
    const int host = roster_ == nullptr ? 0 : roster_->host_of_rank[static_cast<size_t>(rank)];
    const int number = numbers_.emplace(host, static_cast<int>(numbers_.size())).first->second;
    ++on_host_[number];
    if (!room->List()) return;
    if (member == nullptr) return elsewhere_.push_back({{"rank", rank}, {"host", number}});
    const pid_t process = member->session->process();
    here_.push_back({{"rank", rank},
                     {"pid", process},
                     {"device", devices_[process]++},
                     {"counts", CountsOf(*member)},
                     {"aborted", member->aborted},
                     {"leaving", member->gone}});
  }

  const Communicator& communicator_;
  const Roster* const roster_;
  std::map<int, int> numbers_;  // by the roster's number of a host
  std::map<int, int> on_host_;  // ranks by number of a host
  std::map<pid_t, int> devices_;
  json here_ = json::array();
  json elsewhere_ = json::array();
  json gone_ = json::array();
};

json Describe(const ReportSources& sources, const Communicator& communicator, uint64_t now_ns,
              Room* room) {
  const Job* const job = communicator.job();
  json description = {
      {"hash", communicator.handle()},
      {"job", job == nullptr ? std::string() : job->id.text()},
      {"name", communicator.label()},
      {"size", communicator.ranks()},
      {"state", communicator.state() == Communicator::State::kRevoked ? "abort" : "running"},
      {"result", ResultOf(communicator.failure())},
      {"failure", communicator.failure().message()},
      {"waiting", DescribeWaiting(communicator.Waiting(now_ns))}};
  Ranks(communicator, room).DescribeTo(&description);
  const Verdict* const verdict =
      sources.diagnosis == nullptr ? nullptr : sources.diagnosis->Of(communicator);
  description["stuck"] = verdict == nullptr ? std::string() : verdict->text;
  return description;
}

/// Describes a communicator that forms at this home.
json Describe(const PendingFormation& pending, uint64_t now_ns, Room* room) {
  const Formation& formation = *pending.formation;
  json ranks = json::array();
  json elsewhere = json::array();
  std::map<pid_t, int> devices;
  for (const auto& [place, applicant] : formation.taken()) {
    if (!room->List()) break;
    if (applicant.member == nullptr) {
      elsewhere.push_back({{"rank", place}, {"host", 1}});
      continue;
    }
    const pid_t process = applicant.member->session->process();
    ranks.push_back({{"rank", place},
                     {"pid", process},
                     {"device", devices[process]++},
                     {"counts", json::object()},
                     {"aborted", false},
                     {"leaving", false}});
  }
  const size_t named = std::min<size_t>(room->ranks, 64);
  const int here = static_cast<int>(ranks.size());
  return {{"hash", ""},
          {"job", pending.job.job() == nullptr ? std::string() : pending.job.job()->id.text()},
          {"name", formation.label()},
          {"size", formation.places()},
          {"hosts", elsewhere.empty() ? 1 : 2},
          {"ranks_per_host", {here, here}},
          {"state", "init"},
          {"result", 0},
          {"failure", ""},
          {"ranks", std::move(ranks)},
          {"elsewhere", std::move(elsewhere)},
          {"gone", json::array()},
          {"missing", formation.MissingRanks(named)},
          {"waiting", json::array()},
          {"stuck", formation.WaitText(now_ns)}};
}

/// Adds how many ranks each process has, in its communicator with most of them.
json ProcessesOf(const ReportSources& sources, const Reader& reader, const json& communicators) {
  std::map<pid_t, int> ranks;
  for (const auto& [id, session] : sources.sessions->all()) {
    const bool is_for_reader =
        reader.is_operator || session->tenant().identity.number == reader.tenant;
    if (is_for_reader && !session->gone() && ranks.size() < kMostRanks) {
      ranks.emplace(session->process(), 0);
    }
  }
  for (const json& communicator : communicators) {
    std::map<pid_t, int> here;
    for (const json& rank : communicator["ranks"]) ++here[rank["pid"].get<pid_t>()];
    for (const auto& [process, count] : here) {
      ranks[process] = std::max(ranks[process], count);
    }
  }
  json processes = json::array();
  for (const auto& [process, count] : ranks) {
    processes.push_back({{"pid", process}, {"ranks", count}});
  }
  return processes;
}

}  // namespace

json RasReport(const ReportSources& sources, const Reader& reader) {
  const uint64_t now_ns = MonotonicNanoseconds();
  Room room;
  size_t not_listed = 0;
  json communicators = json::array();
  const auto may_list = [&](const Tenant& tenant) {
    if (!reader.is_operator && tenant.identity.number != reader.tenant) return false;
    if (room.communicators == 0) {
      ++not_listed;
      return false;
    }
    --room.communicators;
    return true;
  };
  for (const auto& [id, communicator] : sources.communicators->all()) {
    // At a home without ranks there is nothing to tell of them.
    if (!communicator->has_ranks_here() || !may_list(communicator->tenant())) continue;
    communicators.push_back(Describe(sources, *communicator, now_ns, &room));
  }
  for (const auto& [key, pending] : sources.forming->all()) {
    if (!may_list(pending.formation->tenant())) continue;
    communicators.push_back(Describe(pending, now_ns, &room));
  }
  json processes = ProcessesOf(sources, reader, communicators);
  return {{"processes", std::move(processes)},
          {"communicators", std::move(communicators)},
          {"not_listed", not_listed}};
}

}  // namespace harmonaize::daemon
