#include "shim/offer_watch.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>

#include <nlohmann/json.hpp>

#include "shim/daemon_call.h"
#include "src/base/json_text.h"
#include "src/ipc/http_client.h"
#include "src/ipc/socket_path.h"

namespace harmonaize::shim {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Most offers whose revisions are remembered: more than a daemon has of one job. Beyond it all are
/// told once more.
constexpr size_t kMostTold = 1024;

std::string TextAt(const json& document, const char* field) {
  const auto found = document.find(field);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

uint64_t CountAt(const json& document, const char* field) {
  const auto found = document.find(field);
  return found != document.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

/// Returns nullopt for what is no offer.
std::optional<OfferView> ViewOf(const json& document) {
  if (!document.is_object()) return std::nullopt;
  OfferView view{.id = TextAt(document, "id"),
                 .kind = TextAt(document, "kind"),
                 .state = TextAt(document, "state"),
                 .revision = CountAt(document, "revision"),
                 .ranks = static_cast<int>(std::min<uint64_t>(CountAt(document, "ranks"), INT_MAX)),
                 .json = JsonText(document)};
  const auto refusable = document.find("can_be_refused");
  if (refusable != document.end() && refusable->is_boolean()) {
    view.can_be_refused = refusable->get<bool>();
  }
  return view.id.empty() ? std::nullopt : std::optional(std::move(view));
}

int Left(int timeout_ms, Clock::time_point since) {
  if (timeout_ms < 0) return timeout_ms;
  const auto passed =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since).count();
  return static_cast<int>(std::max<int64_t>(0, timeout_ms - passed));
}

}  // namespace

// The stream is opened first, so that nothing that changes meanwhile is missed.
Result<std::unique_ptr<OfferWatch>> OfferWatch::Open(const std::string& job) {
  HZ_ASSIGN_OR_RETURN(
      auto changes,
      EventSubscription::Open(ClientSocketPlaces(), {.types = "offer.changed", .job = job}));
  std::unique_ptr<OfferWatch> watch(new OfferWatch(std::move(changes)));
  HZ_ASSIGN_OR_RETURN(const std::string listed,
                      CallDaemon({.target = "/v1/offers?state=open&job=" + EncodeForUrl(job)}));
  const json document = ReadJson(listed);
  const auto offers = document.is_object() ? document.find("offers") : document.end();
  if (offers == document.end() || !offers->is_array()) return watch;
  for (auto one = offers->rbegin(); one != offers->rend(); ++one) {
    std::optional<OfferView> view = ViewOf(*one);
    if (view.has_value() && watch->IsNew(*view)) watch->waiting_.push_back(std::move(*view));
  }
  return watch;
}

bool OfferWatch::IsNew(const OfferView& offer) {
  if (told_.size() >= kMostTold) told_.clear();
  uint64_t& told = told_[offer.id];
  if (offer.revision <= told) return false;
  told = offer.revision;
  return true;
}

// The event says that an offer has changed, and the daemon says how it is now: several changes that
// came together are one.
Result<std::optional<OfferView>> OfferWatch::Next(int timeout_ms) {
  const Clock::time_point began = Clock::now();
  while (waiting_.empty()) {
    HZ_ASSIGN_OR_RETURN(const std::optional<ServerSentEvent> event,
                        changes_->Next(Left(timeout_ms, began)));
    if (!event.has_value()) return std::optional<OfferView>();
    const json told = ReadJson(event->data);
    const auto data = told.is_object() ? told.find("data") : told.end();
    if (data == told.end() || !data->is_object()) continue;
    HZ_ASSIGN_OR_RETURN(
        const HttpReply reply,
        AskDaemon({.target = "/v1/offers/" + EncodeForUrl(TextAt(*data, "offer"))}));
    if (reply.status != 200) continue;  // It is kept no more.
    std::optional<OfferView> view = ViewOf(ReadJson(reply.body));
    if (view.has_value() && IsNew(*view)) waiting_.push_back(std::move(*view));
  }
  std::optional<OfferView> next(std::move(waiting_.front()));
  waiting_.pop_front();
  return next;
}

}  // namespace harmonaize::shim
