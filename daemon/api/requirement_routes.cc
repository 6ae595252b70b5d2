#include "daemon/api/requirement_routes.h"

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/adaptation/job_advisor.h"
#include "daemon/api/engine_answer.h"
#include "daemon/api/json_body.h"
#include "daemon/api/named_job.h"
#include "daemon/api/requirement_documents.h"
#include "daemon/api/route_row.h"
#include "daemon/config/policy.h"
#include "daemon/jobs/job_table.h"
#include "daemon/requirements/requirements_book.h"
#include "daemon/requirements/statements.h"
#include "daemon/runtime/background.h"
#include "daemon/tenant/tenant.h"
#include "src/base/toml_depth.h"
#include "src/base/toml_reader.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

const std::vector<std::string> kToml = {"application/toml"};
/// The document's name in errors.
constexpr char kBodyName[] = "requirements";
constexpr char kPolicyName[] = "policy";

/// Returns the job that the path names: the caller's own or, for operators, anybody's.
Result<Job*> FindJob(EngineRooms& rooms, const HttpCaller& caller, const std::string& which) {
  std::optional<uint32_t> tenant;
  if (!caller.is_operator()) tenant = caller.tenant.number;
  return NamedJob(rooms, tenant, which);
}

/// Answers with a document about the job in the path.
using JobView = DocumentMaker (*)(EngineRooms& rooms, const Job& job);
template <JobView kView>
void ServeView(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
               const HttpParameters& parameters) {
  const HttpCaller caller = exchange->request().caller;
  AnswerWithMaker(
      services, std::move(exchange),
      [caller, which = parameters.at("job")](EngineRooms& rooms) -> Result<DocumentMaker> {
        HZ_ASSIGN_OR_RETURN(const Job* const job, FindJob(rooms, caller, which));
        return kView(rooms, *job);
      });
}

DocumentMaker Stated(EngineRooms& rooms, const Job& job) {
  return [view = rooms.requirements().View(job)] { return StatedDocument(view); };
}

DocumentMaker Granted(EngineRooms& rooms, const Job& job) {
  return [view = rooms.requirements().View(job)] { return GrantedDocument(view); };
}

DocumentMaker Progress(EngineRooms& rooms, const Job& job) {
  return [document = ProgressDocument(rooms.advisor(), job)] { return document; };
}

/// Changes what is known of the job in the path, and answers with what is granted then.
using JobChange = std::function<Status(RequirementsBook& book, Job& job)>;
void ServeChange(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const std::string& which, JobChange change) {
  const HttpCaller caller = exchange->request().caller;
  AnswerWithMaker(
      services, std::move(exchange),
      [caller, which, change = std::move(change)](EngineRooms& rooms) -> Result<DocumentMaker> {
        HZ_ASSIGN_OR_RETURN(Job* const job, FindJob(rooms, caller, which));
        HZ_RETURN_IF_ERROR(change(rooms.requirements(), *job));
        return Granted(rooms, *job);
      });
}

/// Reads the body apart from all threads that others wait for, and goes on with what it says.
template <typename Next>
void ReadBody(const ApiServices& services, std::shared_ptr<HttpExchange> exchange, Next next) {
  const uint32_t tenant = exchange->request().caller.tenant.number;
  services.work->Post(
      [exchange, next = std::move(next)] {
        Result<Requirements> read = ReadStatement(exchange->request().body, kBodyName);
        if (!read.ok()) return exchange->Respond(HttpProblem(read.status()));
        next(exchange, std::move(*read));
      },
      tenant);
}

void ServePut(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
              const HttpParameters& parameters) {
  ReadBody(services, std::move(exchange),
           [services, which = parameters.at("job")](std::shared_ptr<HttpExchange> read_from,
                                                    Requirements statement) {
             ServeChange(services, std::move(read_from), which,
                         [statement = std::move(statement)](RequirementsBook& book, Job& job) {
                           return book.State(job, statement);
                         });
           });
}

void ServeForget(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const HttpParameters& parameters) {
  ServeChange(services, std::move(exchange), parameters.at("job"),
              [](RequirementsBook& book, Job& job) { return book.Forget(job); });
}

void ServeCheck(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                const HttpParameters& /*parameters*/) {
  ReadBody(services, std::move(exchange),
           [services](std::shared_ptr<HttpExchange> read_from, Requirements statement) {
             const TenantIdentity tenant = read_from->request().caller.tenant;
             const auto asked = std::make_shared<const Requirements>(std::move(statement));
             AnswerWithMaker(services, std::move(read_from),
                             [tenant, asked](EngineRooms& rooms) -> Result<DocumentMaker> {
                               const GrantBasis basis = rooms.requirements().BasisFor(tenant);
                               return DocumentMaker(
                                   [basis, asked] { return DescribeGrant(basis.For(*asked)); });
                             });
           });
}

/// Most steps of a job, and most samples that it has processed: whole numbers that a double holds.
constexpr double kMostSteps = 0x1p53;
/// Least factor of a learning rate; its inverse is the largest.
constexpr double kLeastFactor = 1e-9;
/// Largest magnitude of a loss.
constexpr double kMostLoss = 1e300;

Result<ProgressReport> ProgressIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"step",
                                                 "samples",
                                                 "loss",
                                                 "accuracy",
                                                 "batch_size",
                                                 "accumulation",
                                                 "synchronisation_interval",
                                                 "learning_rate_factor",
                                                 "gradient_noise_scale",
                                                 "samples_in_all"};
  JsonBody body(text, kFields);
  body.Need("step", "the number of the step that is done");
  ProgressReport report;
  const std::optional<double> step = body.Number("step", 0, kMostSteps);
  report.samples = body.Number("samples", 0, kMostSteps);
  report.loss = body.Number("loss", -kMostLoss, kMostLoss);
  report.accuracy = body.Number("accuracy", 0, 1);
  report.settings.batch_size = body.Number("batch_size", 1, kMostSteps);
  report.settings.accumulation = body.Number("accumulation", 1, kMostSteps);
  report.settings.synchronisation_interval = body.Number("synchronisation_interval", 1, kMostSteps);
  report.settings.learning_rate_factor =
      body.Number("learning_rate_factor", kLeastFactor, 1 / kLeastFactor);
  report.gradient_noise_scale = body.Number("gradient_noise_scale", 0, kMostSteps);
  report.samples_in_all = body.Number("samples_in_all", 0, kMostSteps);
  HZ_RETURN_IF_ERROR(body.status());
  if (std::floor(*step) != *step) {
    return InvalidArgument("'step' must be a whole number, and is {:g}", *step);
  }
  report.step = static_cast<uint64_t>(*step);
  return report;
}

void ServeProgress(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                   const HttpParameters& parameters) {
  const Result<ProgressReport> report = ProgressIn(exchange->request().body);
  if (!report.ok()) return exchange->Respond(HttpProblem(report.status()));
  const HttpCaller caller = exchange->request().caller;
  AnswerFromEngine(
      services, std::move(exchange),
      [caller, which = parameters.at("job"), report = *report](EngineRooms& rooms) -> Result<json> {
        HZ_ASSIGN_OR_RETURN(Job* const job, FindJob(rooms, caller, which));
        HZ_RETURN_IF_ERROR(rooms.advisor().Report(*job, report));
        return ProgressDocument(rooms.advisor(), *job);
      });
}

void ServePolicy(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const HttpParameters& /*parameters*/) {
  const HttpCaller caller = exchange->request().caller;
  AnswerWithMaker(services, std::move(exchange), [caller](EngineRooms& rooms) {
    return DocumentMaker([caller, policy = rooms.requirements().policy()] {
      if (caller.is_operator()) return DescribePolicies(*policy);
      return json{{"policy", DescribePolicy(policy->For(caller.tenant.across_hosts))}};
    });
  });
}

Result<PolicyConfig> PolicyIn(const std::string& text, const TenantsConfig& tenants) {
  if (TomlDepth(text) > kMostRequirementsDepth) {
    return InvalidArgument("{}:1:1: the document nests tables or lists more than {} deep",
                           kPolicyName, kMostRequirementsDepth);
  }
  HZ_ASSIGN_OR_RETURN(TomlReader reader, TomlReader::FromString(text, kPolicyName));
  PolicyConfig policy;
  ReadPolicy(reader, &policy);
  HZ_RETURN_IF_ERROR(reader.Finish());
  return FindPolicyTenants(std::move(policy), tenants);
}

void ServeSetPolicy(const ApiServices& services, const TenantsConfig& tenants,
                    std::shared_ptr<HttpExchange> exchange) {
  services.work->Post([services, tenants, exchange] {
    const Result<PolicyConfig> policy = PolicyIn(exchange->request().body, tenants);
    if (!policy.ok()) return exchange->Respond(HttpProblem(policy.status()));
    AnswerWithMaker(services, exchange, [policy = *policy](EngineRooms& rooms) {
      rooms.SetPolicy(policy);
      return DocumentMaker([policy] { return DescribePolicies(policy); });
    });
  });
}

constexpr RouteRow kTenantRoutes[] = {
    {"GET", "/v1/jobs/{job}/requirements", HttpAudience::kTenants, ServeView<Stated>},
    {"DELETE", "/v1/jobs/{job}/requirements", HttpAudience::kTenants, ServeForget},
    {"GET", "/v1/jobs/{job}/granted", HttpAudience::kTenants, ServeView<Granted>},
    {"GET", "/v1/jobs/{job}/progress", HttpAudience::kTenants, ServeView<Progress>},
    {"POST", "/v1/jobs/{job}/progress", HttpAudience::kTenants, ServeProgress},
    {"GET", "/v1/policy", HttpAudience::kTenants, ServePolicy}};

/// Routes whose bodies are TOML.
constexpr RouteRow kTomlRoutes[] = {
    {"PUT", "/v1/jobs/{job}/requirements", HttpAudience::kTenants, ServePut},
    {"POST", "/v1/requirements/check", HttpAudience::kTenants, ServeCheck}};

}  // namespace

std::vector<HttpRoute> RequirementRoutes(const ApiServices& services, const Config& config) {
  std::vector<HttpRoute> routes = MakeRoutes(services, kTenantRoutes);
  for (const RouteRow& row : kTomlRoutes) {
    routes.push_back(MakeRoute(services, row));
    routes.back().media_types = kToml;
  }
  routes.push_back({.method = "PUT",
                    .pattern = "/v1/policy",
                    .audience = HttpAudience::kOperators,
                    .serve =
                        [services, tenants = config.tenants](std::shared_ptr<HttpExchange> exchange,
                                                             const HttpParameters&) {
                          ServeSetPolicy(services, tenants, std::move(exchange));
                        },
                    .media_types = kToml});
  return routes;
}

}  // namespace harmonaize::daemon
