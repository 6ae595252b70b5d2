#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "daemon/offers/offer.h"
#include "daemon/offers/offer_rules.h"
#include "daemon/offers/offers.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns an offer as the HTTP interface has it. Operators also read whose it is, and how far the
/// provider goes along with a counter-proposal.
nlohmann::json Describe(const Offer& offer, bool for_operators);

// Bodies of requests. Errors: kInvalidArgument, which names the field.

/// The body of an answer; "" and "{}" say nothing besides.
Result<OfferAnswer> AcceptIn(const std::string& body);
Result<OfferAnswer> DeclineIn(const std::string& body);
Result<OfferAnswer> CounterIn(const std::string& body);

/// An operator's offer, and the job that it is for.
struct NamedOrder {
  std::string job;
  OfferOrder order;
};
Result<NamedOrder> OfferOrderIn(const std::string& body);
/// The body of a provider's step that changes no terms: its reason.
Result<OfferStep> StepIn(const std::string& body, OfferStep::Kind kind);
/// Other terms. What the body leaves out stays as in `offer`, the offer as it is.
struct ProposedTerms {
  OfferAnswer::Counter terms;
  std::optional<double> deadline_seconds = {};
  std::string reason = {};
};
Result<ProposedTerms> ProposalIn(const std::string& body);

}  // namespace harmonaize::daemon
