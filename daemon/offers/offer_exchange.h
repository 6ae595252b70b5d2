#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "daemon/cluster/messages/event.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/job_events/job_relay.h"
#include "daemon/offers/offer.h"
#include "daemon/offers/offer_rules.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

struct Job;

/// Brings offers to the hosts of their jobs, and answers to the daemons that have made the offers.
/// A message may come twice, late or not at all: offers have revisions, answers numbers, and who
/// has given an answer hears what has become of it, or that nothing is known. Thread: engine.
class OfferExchange {
 public:
  /// What hears of messages. The calls are made from within OnMessage.
  struct Listener {
    /// Another daemon's offer to a job here, as it is now.
    std::function<void(Job&, const Offer&)> on_offer;
    /// An answer to an offer of this daemon's. Reply tells what becomes of it.
    std::function<void(const std::string& id, const OfferAnswer&)> on_answer;
    /// Returns whether this daemon has made the offer with this id.
    std::function<bool(const std::string& id)> is_own;
  };

  /// Requires: `relay` outlives this object.
  OfferExchange(const JobRelay* relay, Listener listener)
      : relay_(*relay), listener_(std::move(listener)) {}

  /// Tells all other hosts of the job how the offer is now. Returns whether all daemons took it.
  bool Tell(const Job& job, const Offer& offer) { return Send(job, offer, 0, Status::Ok()); }

  /// Tells all other hosts of the job how the offer is, and whether the answer of this number
  /// counts; `status` is why not.
  void Reply(const Job& job, const Offer& offer, uint64_t answer, const Status& status) {
    static_cast<void>(Send(job, offer, answer, status));
  }

  /// Called with what has become of an answer.
  using Answered = std::function<void(const Result<Offer>&)>;
  /// Brings an answer to the daemon that has made the offer. `answered` is called once: at once
  /// where nobody can be told, or by OnMessage, or by GiveUpOld.
  void Ask(const Job& job, const std::string& id, const OfferAnswer& answer, Answered answered);
  /// Gives up the answers of which nothing was heard for kPatienceSeconds.
  void GiveUpOld(double now_seconds);
  bool is_waiting() const { return !asked_.empty(); }

  void OnMessage(transport::PeerId peer, const ClusterMessage& message);

  /// Time for a reply, in seconds: a message to a host and back takes milliseconds, and a person
  /// waits for it.
  static constexpr double kPatienceSeconds = 5;
  /// Most answers that wait for a reply. A tenant may give a few a second (Offers).
  static constexpr size_t kMostAsked = 1024;

 private:
  struct Asked {
    Answered answered;
    double since_seconds = 0;
  };

  bool Send(const Job& job, const Offer& offer, uint64_t answer, const Status& status);
  void OnOffer(transport::PeerId peer, const JobOfferMessage& message);
  void OnAnswer(transport::PeerId peer, const OfferAnswerMessage& message);
  void Settle(uint64_t answer, const Result<Offer>& outcome);

  const JobRelay& relay_;
  const Listener listener_;
  std::multimap<uint64_t, Asked> asked_;  // by OfferAnswer::unique
};

}  // namespace harmonaize::daemon
