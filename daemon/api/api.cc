#include "daemon/api/api.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/api/agent_routes.h"
#include "daemon/api/checkpoint_routes.h"
#include "daemon/api/elasticity_routes.h"
#include "daemon/api/event_routes.h"
#include "daemon/api/health_routes.h"
#include "daemon/api/job_routes.h"
#include "daemon/api/job_snapshots.h"
#include "daemon/api/metric_routes.h"
#include "daemon/api/notice_routes.h"
#include "daemon/api/offer_routes.h"
#include "daemon/api/operator_routes.h"
#include "daemon/api/page_routes.h"
#include "daemon/api/profile_routes.h"
#include "daemon/api/requirement_routes.h"
#include "daemon/api/ticket_routes.h"
#include "daemon/api/token_routes.h"
#include "daemon/http/entity_tags.h"
#include "daemon/http/http_router.h"
#include "daemon/reports/flight_report.h"
#include "daemon/reports/job_report.h"
#include "daemon/runtime/background.h"

namespace harmonaize::daemon {
namespace {

/// Age, in nanoseconds, up to which what was said of jobs serves: people see no difference, and a
/// tenant's requests ask the engine five times a second at most.
constexpr uint64_t kJobsFreshNs = 200'000'000;
/// The same for operations in flight, whose list takes the engine longer.
constexpr uint64_t kFlightsFreshNs = 1'000'000'000;

}  // namespace

/// Parts of the API to which its routes have pointers.
struct Api::Parts {
  Parts(const std::shared_ptr<EngineGate>& gate, EntityTags its_tags)
      : jobs(gate, JobReport, kJobsFreshNs),
        flights(gate, FlightReport, kFlightsFreshNs),
        tags(std::move(its_tags)) {}

  JobSnapshots jobs;
  JobSnapshots flights;
  EntityTags tags;
  Background work;
};

Api::Api() = default;
Api::~Api() = default;

Background& Api::work() {
  return parts_->work;
}

Result<std::unique_ptr<Api>> Api::Create(const Config& config, std::shared_ptr<EngineGate> gate,
                                         EventBus* bus, std::shared_ptr<TokenStore> tokens) {
  std::unique_ptr<Api> api(new Api());
  HZ_ASSIGN_OR_RETURN(EntityTags tags, EntityTags::Create());
  api->parts_ = std::make_unique<Parts>(gate, std::move(tags));
  const ApiServices services{.gate = std::move(gate),
                             .bus = bus,
                             .jobs = &api->parts_->jobs,
                             .flights = &api->parts_->flights,
                             .tags = &api->parts_->tags,
                             .tokens = std::move(tokens),
                             .work = &api->parts_->work};
  HZ_ASSIGN_OR_RETURN(StatusPage page, MakeStatusPage());
  HZ_ASSIGN_OR_RETURN(api->handler_, HttpRouter::Create(Routes(config, services, std::move(page))));
  return api;
}

std::vector<HttpRoute> Api::Routes(const Config& config, const ApiServices& services,
                                   StatusPage page) {
  std::vector<HttpRoute> routes;
  for (std::vector<HttpRoute> some :
       {EventRoutes(services), JobRoutes(services), HealthRoutes(services), MetricsRoutes(services),
        TokenRoutes(services, config.tenants), OperatorRoutes(services), NoticeRoutes(services),
        RequirementRoutes(services, config), OfferRoutes(services), TicketRoutes(services),
        CheckpointRoutes(services), AgentRoutes(services), ElasticityRoutes(services),
        ProfileRoutes(services), PageRoutes(services, std::move(page))}) {
    std::move(some.begin(), some.end(), std::back_inserter(routes));
  }
  return routes;
}

}  // namespace harmonaize::daemon
