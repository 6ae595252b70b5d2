#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/identity/job_identity.h"
#include "daemon/identity/tenant_identity.h"

namespace harmonaize::daemon {

/// What an offer is about. All of it concerns the ranks of one job on one host.
enum class OfferKind : uint8_t {
  kGrow,      ///< Places for more ranks.
  kReclaim,   ///< Ranks are to leave.
  kMove,      ///< Ranks are to leave, and have places on another host.
  kSlowDown,  ///< The job is to send no more than a rate for a while.
};
inline constexpr int kOfferKindCount = 4;

/// Returns whether ranks are to leave by an offer of this kind.
constexpr bool TakesRanks(OfferKind kind) {
  return kind == OfferKind::kReclaim || kind == OfferKind::kMove;
}

/// How far an offer has come. The last five are ends: what has ended never changes again.
enum class OfferState : uint8_t {
  kOffered,    ///< The tenant is asked.
  kCountered,  ///< The tenant has proposed other terms, and the provider is asked.
  kAccepted,   ///< Both have agreed, and what was agreed is to be done.
  kDeclined,
  kExpired,  ///< Nobody agreed before the deadline.
  kWithdrawn,
  kFulfilled,  ///< What was agreed has been done.
  kBroken,     ///< What was agreed has not been done: Offer::broken_by says by whom.
};
inline constexpr int kOfferStateCount = 8;

/// One of the two parties of an offer.
enum class OfferParty : uint8_t { kNobody, kProvider, kTenant };
inline constexpr int kOfferPartyCount = 3;

/// How much the provider wants it, for people and for programs that weigh offers.
enum class OfferUrgency : uint8_t { kLow, kNormal, kHigh };
inline constexpr int kOfferUrgencyCount = 3;

// Names, as "grow", "offered", "provider" and "normal"; and back, nullopt for another text.

std::string_view NameOf(OfferKind kind);
std::string_view NameOf(OfferState state);
std::string_view NameOf(OfferParty party);
std::string_view NameOf(OfferUrgency urgency);
std::optional<OfferKind> OfferKindNamed(std::string_view name);
std::optional<OfferUrgency> OfferUrgencyNamed(std::string_view name);

/// What one party proposes. A plain value.
struct OfferTerms {
  int32_t ranks = 0;  ///< How many ranks come, leave or move; 0 for kSlowDown.
  /// The ranks that leave or move, as the job's largest communicator numbers them, sorted. In a
  /// proposal, empty: whichever; the daemon names some then.
  std::vector<int32_t> which = {};
  /// Since 1970. kGrow: until when the places are kept. kReclaim and kMove: until when the ranks
  /// have left. kSlowDown: until when it holds.
  double due_seconds = 0;
  /// Of one rank for an hour, in credits; nullopt: nothing is said.
  std::optional<double> price = {};
  /// kSlowDown: the most that the job sends from this host over any of its devices, in bytes per
  /// second.
  double bytes_per_second = 0;

  bool operator==(const OfferTerms&) const = default;
};

/// How far the provider goes along with a counter-proposal without being asked. What is left out
/// has the value of the terms that were offered.
struct OfferConcession {
  std::optional<int32_t> least_ranks = {};
  std::optional<double> latest_due_seconds = {};
  std::optional<double> least_price = {};

  bool operator==(const OfferConcession&) const = default;
};

/// What the provider expects of the job once an offer is fulfilled. A plain value.
struct OfferForecast {
  double step_seconds = 0;  ///< How long a step of the job takes then; 0: nothing is said.
  double confidence = 0;    ///< In that, from 0 to 1.

  bool operator==(const OfferForecast&) const = default;
};

/// An offer of the provider to a job, made at the host that it concerns. A plain value. Each change
/// gives it a higher revision, so that of two copies the newer one is known.
struct Offer {
  std::string id;  ///< "offer-" and 16 hexadecimal digits.
  uint64_t revision = 1;
  JobIdentity job = {};
  std::string job_name = {};
  TenantIdentity tenant = {};
  OfferKind kind = OfferKind::kGrow;
  OfferState state = OfferState::kOffered;
  /// What the provider proposes, or what both have agreed.
  OfferTerms terms = {};
  OfferTerms counter = {};  ///< In kCountered: what the tenant proposes.
  /// The communicator whose ranks `terms.which` are, by its name and its size, which tells it from
  /// earlier ones of a job that shrinks and grows; 0 ranks: none are named.
  std::string communicator = {};
  int32_t of_ranks = 0;
  OfferConcession concession = {};
  int rounds = 0;       ///< Counter-proposals so far.
  int most_rounds = 4;  ///< Counter-proposals that there may be.
  double made_seconds = 0;
  double deadline_seconds = 0;  ///< Since 1970: until when it may be answered.
  double ended_seconds = 0;     ///< Since 1970; 0: it has not ended.
  bool can_be_refused = true;
  /// Whether the daemon ends ranks that have not left when they were to.
  bool is_enforced = false;
  OfferUrgency urgency = OfferUrgency::kNormal;
  std::string purpose = {};  ///< For the tenant; "": none was given.
  OfferForecast expected = {};
  std::string reason = {};  ///< Why it ended, or was answered so; "": nothing is said.
  OfferParty broken_by = OfferParty::kNobody;
  /// kDeclined: the tenant does not want to be asked for this again before then, since 1970.
  double quiet_until_seconds = 0;
  /// Ranks of the job on this host when the offer was made, or accepted.
  int32_t ranks_before = 0;
  uint64_t last_answer = 0;  ///< OfferAnswer::unique of the last answer that counted.
  /// The id of the announcement that it follows from; "": none.
  std::string notice = {};

  /// Returns whether it has ended.
  bool has_ended() const { return state >= OfferState::kDeclined; }
  /// Returns whether the tenant may answer it before the deadline.
  bool is_open() const { return state == OfferState::kOffered || state == OfferState::kCountered; }
  /// Returns whether ranks are to leave by it.
  bool takes_ranks() const { return TakesRanks(kind); }
  /// Returns how many ranks of the job are on this host once it is fulfilled.
  int32_t RanksAfter() const;

  bool operator==(const Offer& other) const;
};

// Bounds of what an offer may say.

/// Most ranks of an offer: as many as a host holds of one communicator (RankLimits).
inline constexpr int32_t kMostOfferedRanks = 512;
/// Most ranks that are named one by one, so that an offer with its counter-proposal fits a record.
inline constexpr size_t kMostNamedOfferRanks = 256;
/// Most counter-proposals that an offer may allow: people and programs that have not agreed by then
/// will not.
inline constexpr int kMostOfferRounds = 16;
/// Longest time, in seconds, between an offer and its deadline, and between that and what is due:
/// thirty days.
inline constexpr double kMostOfferSeconds = 30 * 86400.0;
/// Longest purpose or reason, in bytes: a line that people read.
inline constexpr size_t kMostOfferTextBytes = 160;
/// Largest rate of a slow_down, in bytes per second: 1.6 Tbit/s, above any host's devices.
inline constexpr double kMostOfferRate = 2e11;
/// Longest step that is forecast, in seconds: a day.
inline constexpr double kMostForecastSeconds = 86400;
/// Largest price, in credits for a rank and an hour, as of [[market.launch]].
inline constexpr double kMostOfferPrice = 1e9;

/// Returns a fresh id.
std::string MakeOfferId();
/// Returns whether a text can be an offer's id.
bool IsOfferId(std::string_view id);

}  // namespace harmonaize::daemon
