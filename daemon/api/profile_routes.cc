#include "daemon/api/profile_routes.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/engine_answer.h"
#include "daemon/api/named_job.h"
#include "daemon/api/route_row.h"
#include "daemon/jobs/job_table.h"
#include "daemon/profiles/profiles.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

double Seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

json TextOrNull(std::string_view text) {
  return text.empty() ? json(nullptr) : json(text);
}

json NumberOrNull(int64_t number) {
  return number == 0 ? json(nullptr) : json(number);
}

json Describe(const ProfileRowKey& key, const ProfileRow& row) {
  return {{"kind", ProfileKindName(key.kind)},
          {"function", TextOrNull(ProfileFunctionName(key.function))},
          {"algorithm", TextOrNull(ProfileAlgorithmName(key.algorithm))},
          {"protocol", TextOrNull(ProfileProtocolName(key.protocol))},
          {"timed", key.timed_by_kernels ? "gpu" : "host"},
          {"events", row.events},
          {"bytes", row.bytes},
          {"seconds", Seconds(row.total_ns)},
          {"largest_seconds", Seconds(row.largest_ns)},
          {"histogram", row.histogram}};
}

json RowsOf(const CommunicatorProfile& communicator) {
  json rows = json::array();
  for (const auto& [key, row] : communicator.rows) rows.push_back(Describe(key, row));
  return rows;
}

json Describe(const CommunicatorProfile& communicator) {
  const bool has_id = communicator.id != 0;
  return {{"id", has_id ? json(fmt::format("{:016x}", communicator.id)) : json(nullptr)},
          {"name", communicator.name},
          {"ranks", NumberOrNull(communicator.ranks)},
          {"hosts", NumberOrNull(communicator.hosts)},
          {"processes", communicator.processes},
          {"rows", RowsOf(communicator)}};
}

/// A job as the engine finds it, apart from its statistics.
struct JobHead {
  std::string id;
  std::string name;
  std::string tenant;  ///< "": the reader is a tenant.
};

JobHead HeadOf(const Job& job, bool for_operators) {
  return {.id = job.id.text(),
          .name = job.name,
          .tenant = for_operators ? job.tenant->name() : std::string()};
}

json Describe(const JobHead& head, const ProfileReport& report) {
  json document = {{"job", head.id},
                   {"name", head.name},
                   {"processes", report.processes},
                   {"events", report.events},
                   {"lost", report.lost},
                   {"malformed", report.malformed},
                   {"merged_communicators", report.merged_communicators}};
  if (!head.tenant.empty()) document["tenant"] = head.tenant;
  return document;
}

json BoundsInSeconds() {
  json bounds = json::array();
  for (const uint64_t bound : kProfileBounds) bounds.push_back(Seconds(bound));
  return bounds;
}

std::optional<uint32_t> TenantOf(const HttpCaller& caller) {
  if (caller.is_operator()) return std::nullopt;
  return caller.tenant.number;
}

// The statistics are copied and described apart from the engine's thread.

void ServeProfiles(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                   const HttpParameters& /*parameters*/) {
  const HttpCaller caller = exchange->request().caller;
  AnswerWithMaker(services, std::move(exchange), [caller](EngineRooms& rooms) {
    std::vector<std::pair<JobHead, std::shared_ptr<const JobProfile>>> found;
    for (const Profiles::Known& known : rooms.profiles().All(TenantOf(caller))) {
      found.emplace_back(HeadOf(*known.job, caller.is_operator()), known.profile);
    }
    return DocumentMaker([found = std::move(found)] {
      json list = json::array();
      for (const auto& [head, profile] : found) {
        const ProfileReport report = profile->Report();
        json one = Describe(head, report);
        one["communicators"] = report.communicators.size();
        list.push_back(std::move(one));
      }
      return json{{"jobs", std::move(list)}};
    });
  });
}

void ServeProfile(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                  const HttpParameters& parameters) {
  const HttpCaller caller = exchange->request().caller;
  AnswerWithMaker(
      services, std::move(exchange),
      [caller, which = parameters.at("job")](EngineRooms& rooms) -> Result<DocumentMaker> {
        HZ_ASSIGN_OR_RETURN(const Job* job, NamedJob(rooms, TenantOf(caller), which));
        const std::shared_ptr<const JobProfile> profile = rooms.profiles().Find(*job);
        return DocumentMaker([head = HeadOf(*job, caller.is_operator()), profile] {
          const ProfileReport report = profile == nullptr ? ProfileReport() : profile->Report();
          json document = Describe(head, report);
          json communicators = json::array();
          for (const CommunicatorProfile& one : report.communicators) {
            communicators.push_back(Describe(one));
          }
          document["communicators"] = std::move(communicators);
          document["others"] = RowsOf(report.others);
          document["histogram_bounds_seconds"] = BoundsInSeconds();
          return document;
        });
      });
}

}  // namespace

std::vector<HttpRoute> ProfileRoutes(const ApiServices& services) {
  static constexpr RouteRow kRows[] = {
      {"GET", "/v1/profiles", HttpAudience::kTenants, ServeProfiles},
      {"GET", "/v1/jobs/{job}/profile", HttpAudience::kTenants, ServeProfile}};
  return MakeRoutes(services, kRows);
}

}  // namespace harmonaize::daemon
