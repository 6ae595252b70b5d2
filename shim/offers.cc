// harmonaize.h: offers.

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "include/harmonaize.h"
#include "shim/daemon_call.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/job_calls.h"
#include "shim/offer_watch.h"
#include "src/ipc/http_client.h"

namespace harmonaize::shim {
namespace {

/// Most time, in seconds, for which a tenant may want not to be asked, and until which something
/// may be due: what daemons allow.
constexpr double kMostOfferSeconds = 30 * 86400.0;
/// Most ranks of an offer, and largest price, likewise.
constexpr int kMostOfferedRanks = 512;
constexpr double kMostOfferPrice = 1e9;

hzOffer_t View(const OfferView& offer) {
  return {.id = offer.id.c_str(),
          .kind = offer.kind.c_str(),
          .state = offer.state.c_str(),
          .ranks = offer.ranks,
          .can_be_refused = offer.can_be_refused ? 1 : 0,
          .json = offer.json.c_str()};
}

Status NextOffer(ncclComm_t comm, int timeout_ms, hzOffer_t* out) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "offer"));
  *out = {};
  HZ_RETURN_IF_ERROR(CheckHandle(comm));
  if (Forwarding()) return InvalidUsage("calls go to stock NCCL, which has no offers");
  OffersOfHandle& offers = comm->offers;
  if (offers.watch == nullptr) {
    HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(*comm->communicator));
    HZ_ASSIGN_OR_RETURN(offers.watch, OfferWatch::Open(job));
  }
  HZ_ASSIGN_OR_RETURN(std::optional<OfferView> next, offers.watch->Next(timeout_ms));
  if (!next.has_value()) return Status(Code::kInProgress, "no offer");
  offers.last = std::move(*next);
  *out = View(offers.last);
  return Status::Ok();
}

Status CheckTerms(const hzOfferTerms_t& terms) {
  if (terms.size != sizeof(hzOfferTerms_t)) {
    return InvalidArgument("terms->size is {}: begin with HZ_OFFER_TERMS_INITIALIZER", terms.size);
  }
  if (terms.ranks < 0 || terms.ranks > kMostOfferedRanks) {
    return InvalidArgument("terms->ranks is {}, not 0 to {}", terms.ranks, kMostOfferedRanks);
  }
  const auto is_time = [](double seconds) { return seconds >= 0 && seconds <= kMostOfferSeconds; };
  if (!is_time(terms.due_within_seconds) || !is_time(terms.not_again_for_seconds)) {
    return InvalidArgument("times of terms are 0 to {:.0f} seconds", kMostOfferSeconds);
  }
  if (!std::isnan(terms.price) && !(terms.price >= 0 && terms.price <= kMostOfferPrice)) {
    return InvalidArgument("terms->price is {}, not 0 to {:.0f}", terms.price, kMostOfferPrice);
  }
  return Status::Ok();
}

/// Returns the fields of an object, without the braces, that a counter-proposal is made of.
std::string CounterFields(const hzOfferTerms_t& terms) {
  std::string fields;
  const auto add = [&fields](const std::string& field) {
    fields += (fields.empty() ? "" : ",") + field;
  };
  if (terms.ranks > 0) add(fmt::format("\"ranks\":{}", terms.ranks));
  if (terms.due_within_seconds > 0) {
    add(fmt::format("\"due_within_seconds\":{:.3f}", terms.due_within_seconds));
  }
  if (!std::isnan(terms.price)) add(fmt::format("\"price\":{}", terms.price));
  return fields;
}

Status AnswerOffer(const char* id, hzOfferAnswer_t answer, const hzOfferTerms_t* given) {
  HZ_RETURN_IF_ERROR(CheckPointer(id, "id"));
  if (Forwarding()) return InvalidUsage("calls go to stock NCCL, which has no offers");
  const hzOfferTerms_t terms =
      given == nullptr ? hzOfferTerms_t HZ_OFFER_TERMS_INITIALIZER : *given;
  HZ_RETURN_IF_ERROR(CheckTerms(terms));
  HttpCall call{.method = "POST", .target = "/v1/offers/" + EncodeForUrl(id), .body = "{}"};
  switch (Number(answer)) {
    case hzAccept: call.target += "/accept"; break;
    case hzDecline:
      call.target += "/decline";
      if (terms.not_again_for_seconds > 0) {
        call.body = fmt::format("{{\"not_again_for_seconds\":{}}}", terms.not_again_for_seconds);
      }
      break;
    case hzCounter:
      call.target += "/counter";
      call.body = "{" + CounterFields(terms) + "}";
      break;
    default:
      return InvalidArgument("the answer is {}, not hzAccept, hzDecline or hzCounter",
                             Number(answer));
  }
  return CallDaemon(call).status();
}

}  // namespace
}  // namespace harmonaize::shim

using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_API(ncclResult_t) hzNextOffer(ncclComm_t comm, int timeout_ms, hzOffer_t* offer) {
  return Call("hzNextOffer", comm, [&] { return NextOffer(comm, timeout_ms, offer); });
}

HZ_API(ncclResult_t)
hzAnswerOffer(const char* id, hzOfferAnswer_t answer, const hzOfferTerms_t* terms) {
  return Call("hzAnswerOffer", nullptr, [&] { return AnswerOffer(id, answer, terms); });
}
