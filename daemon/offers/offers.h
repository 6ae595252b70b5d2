#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/offers/offer.h"
#include "daemon/offers/offer_book.h"
#include "daemon/offers/offer_events.h"
#include "daemon/offers/offer_exchange.h"
#include "daemon/offers/offer_ranks.h"
#include "daemon/offers/offer_rules.h"
#include "daemon/quota/rate_table.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/loop_timer.h"
#include "daemon/sources/cloud_notice.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Agents;
class Background;
class EventLoop;
class JobCommunicators;
class JobTable;
class RecordKeeper;
class SessionKeeper;

/// What the provider offers to a job on this host.
struct OfferOrder {
  OfferKind kind = OfferKind::kGrow;
  OfferTerms terms = {};
  double deadline_seconds = 0;  ///< Since 1970.
  OfferConcession concession = {};
  int most_rounds = 4;
  bool can_be_refused = true;
  bool is_enforced = false;
  OfferUrgency urgency = OfferUrgency::kNormal;
  std::string purpose = {};
  OfferForecast expected = {};
  std::string notice = {};  ///< Offer::notice.
  /// Whether the job is asked although it did not want to be asked again so soon.
  bool insists = false;
};

/// Numbers of a host's own offers, by OfferKind.
struct OfferCounts {
  /// Of those that have not ended, by OfferState up to kAccepted.
  std::array<std::array<uint64_t, 3>, kOfferKindCount> open{};
  /// Of those that have ended since the daemon began: declined, expired, withdrawn, fulfilled,
  /// broken by the provider, broken by the tenant.
  std::array<std::array<uint64_t, 6>, kOfferKindCount> ended{};
};

/// What a host's own offers about the ranks of a job say of it.
struct OfferStanding {
  bool is_asked = false;           ///< One is under way.
  int32_t promised_places = 0;     ///< That ranks may still take.
  int32_t leaving_ranks = 0;       ///< That are asked to leave soon, or have agreed to.
  double quiet_until_seconds = 0;  ///< It does not want to be asked before then, since 1970.
};

/// Makes offers to jobs on this host, takes answers, and watches that what was agreed is done. The
/// daemon that has made an offer alone decides about it; the job's other hosts have copies, and
/// pass answers on. Nothing is told of a change before it is on the disk, so a daemon that crashes
/// never goes back on what it has said. Thread: engine.
class Offers final : public CommunicatorObserver {
 public:
  /// All of these outlive this object.
  struct Services {
    JobEvents* events = nullptr;
    const JobRelay* relay = nullptr;
    const Agents* agents = nullptr;
    const JobCommunicators* by_job = nullptr;
    JobTable* jobs = nullptr;
    RecordKeeper* keeper = nullptr;
    Background* background = nullptr;
    EventLoop* loop = nullptr;
    SessionKeeper* sessions = nullptr;
    /// Has a job send no more than this rate from here, in bytes per second; 0: ends that.
    std::function<void(Job&, double bytes_per_second)> set_rate = {};
  };

  explicit Offers(const Services& services);

  /// Goes on with what earlier daemons have offered.
  void Restore();

  /// Makes an offer. Where the job has said in advance how it answers, it is answered at once.
  /// Errors: kInvalidArgument for terms that no offer can have, and for ranks that the job does not
  /// have here; kInvalidUsage if the job has no ranks and no agent here, is asked already, or does
  /// not want to be asked again yet.
  Result<Offer> Make(Job& job, const OfferOrder& order);
  /// Takes the provider's next step. Errors: those of WithStep; kInvalidUsage for an offer that
  /// another daemon has made.
  Result<Offer> Step(const std::string& which, const OfferStep& step);
  /// Takes a tenant's answer, for one of its own offers. `answered` is called once, with the offer
  /// as it is then; soon, or once the daemon that has made the offer replies. Errors: kUnavailable
  /// if the tenant has no such offer; kInProgress if it answers too often; those of WithAnswer;
  /// kRemoteError if no reply comes.
  void Answer(const TenantIdentity& tenant, const std::string& which, const OfferAnswer& answer,
              OfferExchange::Answered answered);

  /// Returns the offers of a tenant, or all for nullptr, the newest first.
  std::vector<Offer> All(const TenantIdentity* tenant) const;
  /// Returns one of them by its id, or the beginning of it. Errors: those of OfferBook::FindNamed.
  Result<Offer> Find(const TenantIdentity* tenant, const std::string& which);
  /// Returns the processes of a job here whose ranks are to have left within so many seconds, by
  /// offers that were accepted.
  std::vector<pid_t> ProcessesToLeave(const Job& job, double within_seconds);
  /// Returns where jobs here stand whose ranks are, or were lately, part of this daemon's offers.
  std::map<const Job*, OfferStanding> Standings() const;
  OfferCounts Counts() const;
  /// Returns whether this daemon has made the offer.
  bool IsOwn(const std::string& id);

  /// Asks an elastic job for the ranks that an announcement for this host will end, or tells it of
  /// a change. A job that has said nothing in [elastic] hears of the announcement alone, and so
  /// does one that has no ranks elsewhere.
  void OnAnnounced(Job& job, const CloudNotice& notice, const std::vector<int32_t>& ranks);

  /// Takes in a message of another daemon, if it is about offers.
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);

  /// The job has a tie with another host, which has no copies of its offers yet.
  void OnTied(const Job& job);
  void OnFormed(const Communicator& communicator, int hosts) override;

 private:
  /// Time between looks at the offers that have not ended. Deadlines, and ranks that come and
  /// leave, are noticed within it.
  static constexpr std::chrono::milliseconds kLookEvery{200};

  Status CheckOrder(const Job& job, const OfferOrder& order, double now_seconds);
  Status CheckRanks(const Job& job, OfferKind kind, const OfferTerms& terms,
                    const Offer* before) const;
  Status CheckOtherTerms(const Offer& offer, const OfferTerms& terms) const;
  Status CheckMayAsk(const Job& job, const OfferOrder& order, double now_seconds);
  Job* JobOf(const Offer& offer) const;
  int32_t RanksHere(const Offer& offer) const;
  bool IsHere(const Job& job) const;
  Status CheckPlaces(const Job& job, const OfferTerms& terms) const;
  OfferedJob Described(const Job* job) const;
  void Renumber(OfferBook::Entry& entry, const Job& job);
  void TakeAnswer(const std::string& id, const OfferAnswer& answer);
  void AnswerInAdvanceFor(OfferBook::Entry& entry);
  Result<Offer> AnswerOwn(OfferBook::Entry& entry, const OfferAnswer& answer);
  void Change(OfferBook::Entry& entry, Offer next);
  void TellOnceKept(std::optional<Offer> before, const Offer& after);
  void Tell(const std::optional<Offer>& before, const Offer& after);
  void TellCopies(const Job& job, const Offer& offer);
  void AfterKept(uint32_t tenant, std::function<void()> call);
  void Watch();
  void Look();
  void LookAt(OfferBook::Entry& entry, double now_seconds);
  bool HasGone(const Offer& offer, double now_seconds);
  void SetRateOf(const Offer& offer) const;
  OfferBook::Entry* FindAnnounced(const Job& job, const std::string& notice);
  void Enforce(const OfferBook::Entry& entry);

  const Services services_;
  const OfferRanks ranks_;
  OfferBook book_;
  OfferExchange exchange_;
  RateTable answers_;  ///< By tenant.
  LoopTimer next_look_;
  decltype(OfferCounts::ended) ended_{};
  std::map<std::string, double> gone_since_;  ///< By Offer::id: since when its job is not here.
  std::set<std::string> owed_;  ///< Own offers of which another daemon did not take the news.
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
