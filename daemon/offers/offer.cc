#include "daemon/offers/offer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

constexpr std::string_view kKinds[] = {"grow", "reclaim", "move", "slow_down"};
static_assert(std::size(kKinds) == kOfferKindCount);
constexpr std::string_view kStates[] = {"offered", "countered", "accepted",  "declined",
                                        "expired", "withdrawn", "fulfilled", "broken"};
static_assert(std::size(kStates) == kOfferStateCount);
constexpr std::string_view kParties[] = {"nobody", "provider", "tenant"};
static_assert(std::size(kParties) == kOfferPartyCount);
constexpr std::string_view kUrgencies[] = {"low", "normal", "high"};
static_assert(std::size(kUrgencies) == kOfferUrgencyCount);

constexpr std::string_view kIdPrefix = "offer-";
constexpr size_t kIdDigits = 16;

template <typename Enum, size_t kCount>
std::optional<Enum> Named(const std::string_view (&names)[kCount], std::string_view name) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Enum>(found - std::begin(names));
}

}  // namespace

std::string_view NameOf(OfferKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::string_view NameOf(OfferState state) {
  return kStates[static_cast<size_t>(state)];
}

std::string_view NameOf(OfferParty party) {
  return kParties[static_cast<size_t>(party)];
}

std::string_view NameOf(OfferUrgency urgency) {
  return kUrgencies[static_cast<size_t>(urgency)];
}

std::optional<OfferKind> OfferKindNamed(std::string_view name) {
  return Named<OfferKind>(kKinds, name);
}

std::optional<OfferUrgency> OfferUrgencyNamed(std::string_view name) {
  return Named<OfferUrgency>(kUrgencies, name);
}

int32_t Offer::RanksAfter() const {
  if (kind == OfferKind::kGrow) return ranks_before + terms.ranks;
  return takes_ranks() ? std::max(0, ranks_before - terms.ranks) : ranks_before;
}

// A tenant is the same whose name is: the numbers of containers differ after a restart.
bool Offer::operator==(const Offer& other) const {
  const auto same_tenant = tenant.name == other.tenant.name && tenant.number == other.tenant.number;
  return id == other.id && revision == other.revision && job == other.job &&
         job_name == other.job_name && same_tenant && kind == other.kind && state == other.state &&
         terms == other.terms && counter == other.counter && communicator == other.communicator &&
         of_ranks == other.of_ranks && concession == other.concession && rounds == other.rounds &&
         most_rounds == other.most_rounds && made_seconds == other.made_seconds &&
         deadline_seconds == other.deadline_seconds && ended_seconds == other.ended_seconds &&
         can_be_refused == other.can_be_refused && is_enforced == other.is_enforced &&
         urgency == other.urgency && purpose == other.purpose && expected == other.expected &&
         reason == other.reason && broken_by == other.broken_by &&
         quiet_until_seconds == other.quiet_until_seconds && ranks_before == other.ranks_before &&
         last_answer == other.last_answer && notice == other.notice;
}

std::string MakeOfferId() {
  return fmt::format("{}{:016x}", kIdPrefix, RandomNumber());
}

bool IsOfferId(std::string_view id) {
  return id.size() == kIdPrefix.size() + kIdDigits && id.starts_with(kIdPrefix) &&
         id.find_first_not_of("0123456789abcdef", kIdPrefix.size()) == std::string_view::npos;
}

}  // namespace harmonaize::daemon
