#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/cluster/messages/event.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/job_events/job_relay.h"
#include "daemon/quota/rate_table.h"
#include "src/events/event.h"
#include "src/events/event_data.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class EventBus;
class PromiseBook;
struct TenantIdentity;

/// Makes events of what becomes of jobs, and brings them to all hosts that a job is on. The daemon
/// where something happens makes the event. It tells its own subscribers at once, and the job's
/// other hosts by the relay. An event has a number of its own, so a daemon that hears it twice
/// tells it once. Thread: engine.
class JobEvents final : public CommunicatorObserver {
 public:
  /// All of these outlive this object.
  struct Services {
    EventBus* bus = nullptr;
    const JobRelay* relay = nullptr;
    PromiseBook* book = nullptr;  ///< Hears of all events of jobs; nullptr: nobody does.
  };

  explicit JobEvents(const Services& services);

  /// Sets who hears of each event of a job on this host, whichever daemon has made it, once it was
  /// told. `began_here` says whether this one has. The listener tells no events itself.
  using Listener = std::function<void(Job& job, const Event& event, bool began_here)>;
  void SetListener(Listener listener) { listener_ = std::move(listener); }

  /// An event about all of a job, or about what `subject` says.
  struct News {
    EventType type = EventType::kRankLate;
    std::string subject = {};
    /// The data, made here, or that of an operator, as CheckedEventData returns it.
    std::variant<EventData, std::string> data;
    std::optional<Severity> severity = {};  ///< nullopt: the type's.
  };
  /// Tells an event of a job that is on this host, at all hosts of the job. Returns its
  /// Event::unique; 0 if it cannot be told.
  uint64_t Tell(Job& job, News news);
  /// Tells an event at this host alone: the others tell it themselves, or cannot be reached.
  void TellHere(Job& job, News news);
  /// Counts an event that a tenant, or the communicator's, can cause as often as it likes. Returns
  /// whether it may be told; there is a limit for each tenant.
  bool MayTellMore(const Communicator& communicator);
  bool MayTellMore(const TenantIdentity& tenant);
  /// Tells a tenant's subscribers, on this host alone, of a job that is on no host any more.
  void TellOfPast(const TenantIdentity& tenant, const std::string& job, News news);
  /// Tells an event that is for this host's operators alone.
  void TellOperators(News news);

  /// Tells a job that this daemon ends, and its communicators here with it.
  void TellOfEnd(Job& job);

  /// Takes in a message of another daemon, if it is an event.
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);

  // CommunicatorObserver.

  void OnRankLost(const Communicator& communicator, int rank, const RankLoss& loss) override;
  void OnMismatch(const Communicator& communicator, const Mismatch& mismatch) override;
  void OnPlanChanged(const Communicator& communicator, const PlanTransition& change) override;
  void OnCongestionChanged(const Communicator& communicator, CongestionLevel level,
                           double times) override;
  void OnLinksChanged(const Communicator& communicator, bool degraded, double times) override;
  void OnRequirementChanged(const Communicator& communicator,
                            const RequirementChange& change) override;
  void OnEnded(const Communicator& communicator) override;

 private:
  void OnEvent(transport::PeerId peer, const EventMessage& message);
  static Result<std::string> DataOf(const News& news);
  std::optional<Event> Publish(Job& job, News news);
  void Spread(const Job& job, const EventMessage& message, const JobRelay::CameBy& came_by);
  void TellListener(Job& job, const Event& event, bool began_here) const;

  const Services services_;
  Listener listener_;
  RateTable caused_by_tenants_;  ///< Events that a tenant can cause as often as it likes.
  std::map<uint64_t, CongestionLevel> congestion_;  ///< By Communicator::id, where there is some.
  /// By Communicator::id: since when cut links slow it down, by the monotonic clock.
  std::map<uint64_t, uint64_t> degraded_;
  /// By Communicator::id and requirement: since when it is missed, by the monotonic clock.
  std::map<std::pair<uint64_t, std::string>, uint64_t> unmet_;
};

}  // namespace harmonaize::daemon
