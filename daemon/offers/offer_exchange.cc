#include "daemon/offers/offer_exchange.h"

#include <optional>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/jobs/job_table.h"
#include "daemon/offers/offer_record.h"
#include "daemon/tenant/tenant.h"
#include "src/base/clean_text.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

std::vector<uint8_t> BytesOf(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string TextOf(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

bool OfferExchange::Send(const Job& job, const Offer& offer, uint64_t answer,
                         const Status& status) {
  return relay_.Spread(job,
                       JobOfferMessage{.about = 0,
                                       .unique = RandomNumber(),
                                       .offer = BytesOf(OfferText(offer)),
                                       .answer = answer,
                                       .status = status},
                       {});
}

void OfferExchange::Ask(const Job& job, const std::string& id, const OfferAnswer& answer,
                        Answered answered) {
  if (asked_.size() >= kMostAsked) {
    return answered(Status(Code::kInProgress, "too many answers wait; try again in a moment"));
  }
  const OfferAnswerMessage message{.about = 0,
                                   .unique = answer.unique,
                                   .sending = RandomNumber(),
                                   .id = id,
                                   .answer = BytesOf(AnswerText(answer))};
  if (!relay_.Spread(job, message, {})) {
    return answered(
        RemoteError("the answer did not reach all hosts of the job; read the offer, and answer "
                    "again"));
  }
  asked_.emplace(answer.unique, Asked{std::move(answered), UnixSeconds()});
}

void OfferExchange::GiveUpOld(double now_seconds) {
  std::vector<Answered> old;
  for (auto one = asked_.begin(); one != asked_.end();) {
    const double age = now_seconds - one->second.since_seconds;
    // The clock may have been set back.
    if (age >= 0 && age < kPatienceSeconds) {
      ++one;
      continue;
    }
    old.push_back(std::move(one->second.answered));
    one = asked_.erase(one);
  }
  for (const Answered& answered : old) {
    answered(
        RemoteError("the host that has made the offer does not reply, so it is not known whether "
                    "the answer counts; read the offer, and answer again"));
  }
}

void OfferExchange::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* const offer = message.As<JobOfferMessage>()) OnOffer(peer, *offer);
  if (const auto* const answer = message.As<OfferAnswerMessage>()) OnAnswer(peer, *answer);
}

void OfferExchange::OnOffer(transport::PeerId peer, const JobOfferMessage& message) {
  const std::optional<JobWay> way = relay_.ToldOf(message.about, peer);
  if (!way.has_value()) return;
  Job& job = *way->job;
  if (!job.heard.Add(message.unique)) return;
  std::optional<Offer> offer = OfferIn(TextOf(message.offer));
  if (!offer.has_value() || offer->job != job.id) return;
  // A tenant's number may be another one on the host of the offer.
  offer->tenant = job.tenant->identity;
  // Texts of another daemon go into this one's documents and logs.
  offer->job_name = job.name;
  offer->purpose = CleanText(offer->purpose, kMostOfferTextBytes);
  offer->reason = CleanText(offer->reason, kMostOfferTextBytes);
  offer->notice = CleanText(offer->notice, kMostOfferTextBytes);
  if (!listener_.is_own(offer->id)) listener_.on_offer(job, *offer);
  if (message.answer != 0) {
    Settle(message.answer,
           message.status.ok() ? Result<Offer>(*offer) : Result<Offer>(message.status));
  }
  static_cast<void>(relay_.Spread(job, message, {way, peer}));
}

void OfferExchange::OnAnswer(transport::PeerId peer, const OfferAnswerMessage& message) {
  const std::optional<JobWay> way = relay_.ToldOf(message.about, peer);
  if (!way.has_value()) return;
  Job& job = *way->job;
  if (!job.heard.Add(message.sending)) return;
  if (!listener_.is_own(message.id)) {
    static_cast<void>(relay_.Spread(job, message, {way, peer}));
    return;
  }
  const std::optional<OfferAnswer> answer = AnswerIn(TextOf(message.answer));
  const bool fits = answer.has_value() && answer->unique == message.unique;
  if (!fits) return;
  listener_.on_answer(message.id, *answer);
}

void OfferExchange::Settle(uint64_t answer, const Result<Offer>& outcome) {
  const auto [begin, end] = asked_.equal_range(answer);
  std::vector<Answered> settled;
  for (auto one = begin; one != end; ++one) settled.push_back(std::move(one->second.answered));
  asked_.erase(begin, end);
  for (const Answered& answered : settled) answered(outcome);
}

}  // namespace harmonaize::daemon
