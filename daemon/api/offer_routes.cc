#include "daemon/api/offer_routes.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/engine_answer.h"
#include "daemon/api/named_job.h"
#include "daemon/api/offer_documents.h"
#include "daemon/api/route_row.h"
#include "daemon/jobs/job_table.h"
#include "daemon/offers/offers.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Returns whether an offer is one that the query asks for: of a job, by its id or name, and in a
/// state, or `open` for all that have not ended.
bool IsAskedFor(const Offer& offer, const std::string& job, const std::string& state) {
  const bool of_job = job.empty() || offer.job.text() == job || offer.job_name == job;
  const bool in_state =
      state.empty() || NameOf(offer.state) == state || (state == "open" && !offer.has_ended());
  return of_job && in_state;
}

std::string QueryOf(const HttpRequest& request, const char* name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? std::string() : found->second;
}

/// Errors: kInvalidArgument for a state that no offer can have.
Status CheckState(const std::string& state) {
  std::string known = "open";
  for (int i = 0; i < kOfferStateCount; ++i) {
    const std::string_view name = NameOf(static_cast<OfferState>(i));
    if (name == state) return Status::Ok();
    known.append(", ").append(name);
  }
  if (state.empty() || state == "open") return Status::Ok();
  return InvalidArgument("'state' is one of {}", known);
}

void ServeOffers(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const HttpParameters& /*parameters*/) {
  const HttpCaller caller = exchange->request().caller;
  const std::string job = QueryOf(exchange->request(), "job");
  const std::string state = QueryOf(exchange->request(), "state");
  if (const Status status = CheckState(state); !status.ok()) {
    return exchange->Respond(HttpProblem(status));
  }
  AnswerWithMaker(
      services, std::move(exchange),
      [caller, job, state](EngineRooms& rooms) -> Result<DocumentMaker> {
        const bool for_operators = caller.is_operator();
        return DocumentMaker([offers = rooms.offers().All(for_operators ? nullptr : &caller.tenant),
                              job, state, for_operators] {
          json list = json::array();
          for (const Offer& offer : offers) {
            if (IsAskedFor(offer, job, state)) list.push_back(Describe(offer, for_operators));
          }
          return json{{"offers", std::move(list)}};
        });
      });
}

void ServeOne(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
              const HttpParameters& parameters) {
  const HttpCaller caller = exchange->request().caller;
  AnswerFromEngine(services, std::move(exchange),
                   [caller, id = parameters.at("id")](EngineRooms& rooms) -> Result<json> {
                     const bool for_operators = caller.is_operator();
                     HZ_ASSIGN_OR_RETURN(
                         const Offer offer,
                         rooms.offers().Find(for_operators ? nullptr : &caller.tenant, id));
                     return Describe(offer, for_operators);
                   });
}

void ServeNewOffer(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                   const HttpParameters& /*parameters*/) {
  const Result<NamedOrder> named = OfferOrderIn(exchange->request().body);
  if (!named.ok()) return exchange->Respond(HttpProblem(named.status()));
  AnswerOnceKept(services, std::move(exchange),
                 [named = *named](EngineRooms& rooms) -> Result<json> {
                   HZ_ASSIGN_OR_RETURN(Job* const job, NamedJob(rooms, std::nullopt, named.job));
                   HZ_ASSIGN_OR_RETURN(const Offer offer, rooms.offers().Make(*job, named.order));
                   return Describe(offer, true);
                 });
}

/// Answers for the tenant who calls: an operator answers for nobody else.
using AnswerReader = Result<OfferAnswer> (*)(const std::string& body);
template <AnswerReader kRead>
void ServeAnswer(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                 const HttpParameters& parameters) {
  const Result<OfferAnswer> answer = kRead(exchange->request().body);
  if (!answer.ok()) return exchange->Respond(HttpProblem(answer.status()));
  const TenantIdentity tenant = exchange->request().caller.tenant;
  AnswerLater(
      services, std::move(exchange), 200,
      [tenant, id = parameters.at("id"), answer = *answer](EngineRooms& rooms, AnswerDone done) {
        rooms.offers().Answer(tenant, id, answer, [done](const Result<Offer>& offer) {
          done(offer.ok() ? Result<json>(Describe(*offer, false)) : Result<json>(offer.status()));
        });
      });
}

template <OfferStep::Kind kKind>
void ServeStep(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
               const HttpParameters& parameters) {
  const Result<OfferStep> step = StepIn(exchange->request().body, kKind);
  if (!step.ok()) return exchange->Respond(HttpProblem(step.status()));
  AnswerOnceKept(services, std::move(exchange),
                 [id = parameters.at("id"), step = *step](EngineRooms& rooms) -> Result<json> {
                   HZ_ASSIGN_OR_RETURN(const Offer offer, rooms.offers().Step(id, step));
                   return Describe(offer, true);
                 });
}

void ServePropose(const ApiServices& services, std::shared_ptr<HttpExchange> exchange,
                  const HttpParameters& parameters) {
  const Result<ProposedTerms> proposed = ProposalIn(exchange->request().body);
  if (!proposed.ok()) return exchange->Respond(HttpProblem(proposed.status()));
  AnswerOnceKept(
      services, std::move(exchange),
      [id = parameters.at("id"), proposed = *proposed](EngineRooms& rooms) -> Result<json> {
        HZ_ASSIGN_OR_RETURN(const Offer before, rooms.offers().Find(nullptr, id));
        const OfferStep step{.kind = OfferStep::Kind::kPropose,
                             .terms = Merged(before.terms, proposed.terms),
                             .deadline_seconds = proposed.deadline_seconds,
                             .reason = proposed.reason};
        HZ_ASSIGN_OR_RETURN(const Offer offer, rooms.offers().Step(before.id, step));
        return Describe(offer, true);
      });
}

}  // namespace

std::vector<HttpRoute> OfferRoutes(const ApiServices& services) {
  constexpr HttpAudience kAnyTenant = HttpAudience::kTenants;
  constexpr HttpAudience kAnOperator = HttpAudience::kOperators;
  static constexpr RouteRow kRows[] = {
      {"GET", "/v1/offers", kAnyTenant, ServeOffers},
      {"GET", "/v1/offers/{id}", kAnyTenant, ServeOne},
      {"POST", "/v1/offers", kAnOperator, ServeNewOffer},
      {"POST", "/v1/offers/{id}/accept", kAnyTenant, ServeAnswer<&AcceptIn>},
      {"POST", "/v1/offers/{id}/decline", kAnyTenant, ServeAnswer<&DeclineIn>},
      {"POST", "/v1/offers/{id}/counter", kAnyTenant, ServeAnswer<&CounterIn>},
      {"POST", "/v1/offers/{id}/take", kAnOperator, ServeStep<OfferStep::Kind::kTake>},
      {"POST", "/v1/offers/{id}/keep", kAnOperator, ServeStep<OfferStep::Kind::kKeep>},
      {"POST", "/v1/offers/{id}/withdraw", kAnOperator, ServeStep<OfferStep::Kind::kWithdraw>},
      {"POST", "/v1/offers/{id}/propose", kAnOperator, ServePropose}};
  return MakeRoutes(services, kRows);
}

}  // namespace harmonaize::daemon
