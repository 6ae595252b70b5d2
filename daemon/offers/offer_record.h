#pragma once

#include <optional>
#include <string>

#include "daemon/offers/offer.h"
#include "daemon/offers/offer_rules.h"
#include "daemon/promises/record_store.h"

namespace harmonaize::daemon {

/// The kind of the records of offers.
inline constexpr char kOfferRecord[] = "offer";

/// Returns the offer as one JSON object, as records and messages between daemons hold it. Texts
/// that are no UTF-8 are replaced.
std::string OfferText(const Offer& offer);
/// Returns the offer of such a text; nullopt for a text that OfferText has not made.
std::optional<Offer> OfferIn(const std::string& text);

/// Returns the answer as one JSON object, as messages between daemons hold it.
std::string AnswerText(const OfferAnswer& answer);
/// Returns the answer of such a text; nullopt for a text that AnswerText has not made.
std::optional<OfferAnswer> AnswerIn(const std::string& text);

Record RecordOf(const Offer& offer);
/// Returns nullopt for a record that RecordOf has not made.
std::optional<Offer> OfferIn(const Record& record);

}  // namespace harmonaize::daemon
