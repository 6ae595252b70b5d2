#include "daemon/api/metric_routes.h"

#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/json_body.h"
#include "daemon/metrics/metrics_page.h"
#include "daemon/metrics/metrics_source.h"
#include "src/base/time_text.h"
#include "src/base/wall_clock.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

std::string TimeOfSeconds(double unix_seconds) {
  return TimeText(static_cast<int64_t>(unix_seconds * 1e9));
}

json Describe(const TenantUsage& usage) {
  return {{"tenant", usage.name},
          {"identity", usage.key},
          {"since", TimeOfSeconds(usage.since_seconds)},
          {"operations", usage.operations},
          {"bytes", usage.bytes},
          {"claimed_inline_operations", usage.claimed_operations},
          {"claimed_inline_bytes", usage.claimed_bytes},
          {"worker_seconds", static_cast<double>(usage.worked_ns) * 1e-9},
          {"request_seconds", static_cast<double>(usage.request_ns) * 1e-9}};
}

/// Returns the usage that the caller may see: an operator all, a tenant its own.
HttpResponse UsageFor(const HttpCaller& caller, const EngineFacts& facts) {
  json list = json::array();
  for (const TenantUsage& usage : facts.usage) {
    const bool own = usage.here && usage.number == caller.tenant.number;
    if (caller.is_operator() || own) list.push_back(Describe(usage));
  }
  const json document = {{"at", TimeOfSeconds(UnixSeconds())}, {"usage", std::move(list)}};
  return {.body = DumpJson(document)};
}

HttpResponse Ending() {
  return HttpProblem(503, "the daemon ends, or could not gather this; ask again");
}

}  // namespace

std::vector<HttpRoute> MetricsRoutes(const ApiServices& services) {
  const auto source = std::make_shared<MetricsSource>(MetricsSource::Services{
      .ask =
          [gate = services.gate](std::function<void(const ReportSources&)> call) {
            return gate->Post(
                [call = std::move(call)](EngineRooms& rooms) { call(rooms.report_sources()); });
          },
      .bus = services.bus,
      .work = services.work});
  const auto metrics = [source](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
    source->Get([exchange](const MetricsSource::Snapshot& snapshot) {
      if (snapshot == nullptr) return exchange->Respond(Ending());
      exchange->Respond({.content_type = kMetricsType, .body = snapshot->page});
    });
  };
  const auto usage = [source](std::shared_ptr<HttpExchange> exchange, const HttpParameters&) {
    source->Get([exchange](const MetricsSource::Snapshot& snapshot) {
      exchange->Respond(
          snapshot == nullptr ? Ending() : UsageFor(exchange->request().caller, snapshot->facts));
    });
  };
  return {{.method = "GET",
           .pattern = "/metrics",
           .audience = HttpAudience::kMetrics,
           .serve = metrics},
          {.method = "GET",
           .pattern = "/v1/usage",
           .audience = HttpAudience::kTenants,
           .serve = usage}};
}

}  // namespace harmonaize::daemon
