#include "daemon/api/api.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/api/event_routes.h"
#include "daemon/api/health_routes.h"
#include "daemon/api/job_routes.h"
#include "daemon/api/job_snapshots.h"
#include "daemon/api/metric_routes.h"
#include "daemon/api/notice_routes.h"
#include "daemon/api/operator_routes.h"
#include "daemon/api/token_routes.h"
#include "daemon/http/entity_tags.h"
#include "daemon/http/http_router.h"
#include "daemon/runtime/background.h"

namespace harmonaize::daemon {

/// Parts of the API to which its routes have pointers.
struct Api::Parts {
  Parts(std::shared_ptr<EngineGate> gate, EntityTags its_tags)
      : jobs(std::move(gate)), tags(std::move(its_tags)) {}

  JobSnapshots jobs;
  EntityTags tags;
  Background work;
};

Api::Api() = default;
Api::~Api() = default;

Result<std::unique_ptr<Api>> Api::Create(const Config& config, std::shared_ptr<EngineGate> gate,
                                         EventBus* bus, std::shared_ptr<TokenStore> tokens) {
  std::unique_ptr<Api> api(new Api());
  HZ_ASSIGN_OR_RETURN(EntityTags tags, EntityTags::Create());
  api->parts_ = std::make_unique<Parts>(gate, std::move(tags));
  const ApiServices services{.gate = std::move(gate),
                             .bus = bus,
                             .jobs = &api->parts_->jobs,
                             .tags = &api->parts_->tags,
                             .tokens = std::move(tokens),
                             .work = &api->parts_->work};
  HZ_ASSIGN_OR_RETURN(api->handler_, HttpRouter::Create(Routes(config, services)));
  return api;
}

std::vector<HttpRoute> Api::Routes(const Config& config, const ApiServices& services) {
  std::vector<HttpRoute> routes;
  for (std::vector<HttpRoute> some :
       {EventRoutes(services), JobRoutes(services), HealthRoutes(services), MetricsRoutes(services),
        TokenRoutes(services, config.tenants), OperatorRoutes(services), NoticeRoutes(services)}) {
    std::move(some.begin(), some.end(), std::back_inserter(routes));
  }
  return routes;
}

}  // namespace harmonaize::daemon
