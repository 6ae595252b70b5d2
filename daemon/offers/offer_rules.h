#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/offers/offer.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// The rules by which an offer goes from one state to the next. They are functions of values: the
// daemon that made the offer alone applies them, by its own clock, so an answer that comes late,
// twice or not at all cannot leave the two parties with different ends.
//
//     offered ── accept ──> accepted ──> fulfilled, or broken by one of the parties
//        │ ^ └── decline ─> declined
//        │ └─ keep, propose ── countered ── take ──> accepted
//        └──── counter ───────────^
//     offered, countered ── deadline ──> expired
//     offered, countered ── withdraw ──> withdrawn      (also what takes ranks and was accepted)
//
// A reclaim that cannot be refused does not expire: at its due time the ranks are gone, or are
// taken.

/// What a tenant answers.
struct OfferAnswer {
  enum class Kind : uint8_t { kAccept, kDecline, kCounter } kind = Kind::kAccept;
  /// Random, not 0. An answer that is given again under the same number has no second effect.
  uint64_t unique = 0;
  /// Offer::revision that was read; 0: whichever there is.
  uint64_t revision = 0;
  /// kCounter: what is proposed instead. nullopt and empty: as in the offer.
  struct Counter {
    std::optional<int32_t> ranks = {};
    std::vector<int32_t> which = {};
    std::optional<double> due_seconds = {};
    std::optional<double> price = {};
    std::optional<double> bytes_per_second = {};
  } counter = {};
  double quiet_seconds = 0;  ///< kDecline: so long the tenant does not want to be asked again.
  std::string reason = {};   ///< For the provider; clean, at most kMostOfferTextBytes.
};
inline constexpr int kOfferAnswerKindCount = 3;

/// What the provider says of an offer that it has made.
struct OfferStep {
  enum class Kind : uint8_t {
    kTake,      ///< Agrees to the counter-proposal.
    kKeep,      ///< Refuses it: the offer stands as it was.
    kPropose,   ///< Offers other terms, which answer a counter-proposal if there is one.
    kWithdraw,  ///< Takes the offer back.
  } kind = Kind::kTake;
  OfferTerms terms = {};                        ///< kPropose.
  std::optional<double> deadline_seconds = {};  ///< kPropose: another time to answer until.
  std::string reason = {};  ///< For the tenant; clean, at most kMostOfferTextBytes.
};

/// Returns the offer with the tenant's answer. `ranks_here` is the number of the job's ranks on the
/// host. Errors: kInvalidUsage, with the state and the way out, where the answer cannot be given:
/// the deadline has passed, the offer has ended, it has changed since `revision`, it cannot be
/// refused, or there were as many counter-proposals as may be. kInvalidArgument for a
/// counter-proposal that asks for nothing else, or for what no offer of this kind can have.
Result<Offer> WithAnswer(const Offer& offer, const OfferAnswer& answer, double now_seconds,
                         int32_t ranks_here);

/// Returns the offer with the provider's step. Errors: kInvalidUsage where the state does not allow
/// it; kInvalidArgument for terms that no offer of this kind can have.
Result<Offer> WithStep(const Offer& offer, const OfferStep& step, double now_seconds,
                       int32_t ranks_here);

/// Returns the offer as it is now, after time has passed and ranks have come and gone. To be called
/// before each of the two above, and now and then.
Offer AsOf(const Offer& offer, double now_seconds, int32_t ranks_here);

/// Returns whether ranks that were to leave by now are to be ended by the daemon.
bool IsToBeEnforced(const Offer& offer, double now_seconds, int32_t ranks_here);

/// Returns the terms with what a counter-proposal, or another proposal, names. Of fewer ranks than
/// were named one by one the job chooses which.
OfferTerms Merged(const OfferTerms& terms, const OfferAnswer::Counter& counter);

/// Returns an error unless an offer of this kind may have the terms. Errors: kInvalidArgument.
Status CheckTerms(OfferKind kind, const OfferTerms& terms, double now_seconds);

/// Returns the offer once the daemon has ended the ranks that were to leave.
Offer AfterForce(const Offer& offer, double now_seconds);

/// Returns the offer once the job has no ranks and no places on the host any more.
Offer AfterJob(const Offer& offer, double now_seconds);

}  // namespace harmonaize::daemon
