#include "daemon/formation/ticket_client.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/formation/formation_request.h"
#include "daemon/formation/home_address.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/tenant/session.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/ipc/ticket.h"

namespace harmonaize::daemon {
namespace {

/// Nanoseconds for which a newcomer that does not ask keeps its turn: a program that looks for
/// other things between two calls comes back within them.
constexpr uint64_t kTurnKeptNs = 5'000'000'000;
/// The longest wait of one call, in milliseconds. The process's other requests wait behind it.
constexpr uint32_t kMostWaitMs = 1000;
/// How often a tenant may burn tickets. A burning goes to all daemons of the job.
constexpr RateLimit kBurnings{.per_second = 10, .burst = 100};

Status Burnt() {
  return InvalidUsage(
      "the job's tickets were burnt; a rank of the job makes a new one (hzMakeTicket)");
}

Status HomeLost() {
  return RemoteError(
      "the daemon that kept the ticket cannot be reached any more, and its tickets are gone with "
      "it; a rank of the job makes a new one (hzMakeTicket)");
}

}  // namespace

TicketClient::TicketClient(const Services& services) : services_(services), burnings_(kBurnings) {}

Communicator* TicketClient::CommunicatorOf(const Job& job) const {
  Communicator* found = nullptr;
  for (const auto& [id, communicator] : services_.communicators.all()) {
    if (communicator->job() != &job) continue;
    found = communicator.get();
    if (found->state() == Communicator::State::kReady) break;
  }
  return found;
}

// ---------------------------------------------------------------------------------------------
// What ranks ask for

Result<TicketClient::Way> TicketClient::WayTo(const Job& job) const {
  if (Communicator* const communicator = CommunicatorOf(job)) {
    return Way{.communicator = communicator};
  }
  if (const std::optional<Way> way = ties_.way_to ? ties_.way_to(job) : std::nullopt) return *way;
  return InvalidUsage(
      "the job has no communicator on this host now, and no agent that is attached");
}

void TicketClient::Ask(const Way& way, bool from_here, AskTicketsMessage ask, Done done) {
  if (way.communicator == nullptr) {
    ask.about = way.about;
    return AskPeer(*way.tenant, way.peer, std::move(ask), std::move(done));
  }
  Communicator& communicator = *way.communicator;
  const Result<HomeAddress> home = HomeOf(communicator, services_.cluster);
  if (!home.ok()) return done(home.status());
  if (home->here) {
    ask.call = next_call_++;
    ask.user = communicator.tenant().identity.across_hosts;
    const TicketsMessage answer = services_.home.Do(ask, communicator, from_here);
    return answer.status.ok() ? done(answer) : done(answer.status);
  }
  ask.about = communicator.host_group()->roster().key;
  AskPeer(communicator.tenant(), *home->peer, std::move(ask), std::move(done));
}

void TicketClient::AskPeer(const Tenant& tenant, transport::PeerId peer, AskTicketsMessage ask,
                           Done done) {
  ask.call = next_call_++;
  ask.user = tenant.identity.across_hosts;
  const Status sent = services_.cluster->SendFor(tenant.identity, peer, ask);
  if (!sent.ok()) return done(sent);
  calls_.emplace(ask.call, Call{peer, std::move(done)});
}

void TicketClient::Make(const Way& way, bool from_here, int uses, double seconds, MadeDone done) {
  Result<Ticket> drawn = MakeTicket({});
  if (!drawn.ok()) return done(drawn.status());
  const TicketDigest digest = DigestOf(*drawn);
  AskTicketsMessage ask{.act = TicketAct::kMake,
                        .digest = {digest.begin(), digest.end()},
                        .uses = std::max(uses, 0),
                        .seconds = seconds};
  Ask(way, from_here, std::move(ask),
      [ticket = *drawn, done = std::move(done)](const Result<TicketsMessage>& answer) mutable {
        if (!answer.ok()) return done(answer.status());
        const Result<UniqueId> home = DecodeId(answer->id);
        if (!home.ok() || answer->tickets.size() != 1) {
          return done(RemoteError("the daemon that looks after the job has made no ticket"));
        }
        ticket.home = *home;
        done(Made{TextOfTicket(ticket), answer->tickets.front()});
      });
}

void TicketClient::List(const Way& way, Done done) {
  Ask(way, false, {.act = TicketAct::kList}, std::move(done));
}

void TicketClient::Count(Communicator& communicator, Done done) {
  Ask({.communicator = &communicator}, false, {.act = TicketAct::kCount}, std::move(done));
}

void TicketClient::Admit(Communicator& communicator, int most, Done done) {
  Ask({.communicator = &communicator}, false, {.act = TicketAct::kAdmit, .most = most},
      std::move(done));
}

// ---------------------------------------------------------------------------------------------
// Burning

void TicketClient::Burn(Communicator& communicator, Done done) {
  const std::string tenant = std::to_string(communicator.tenant().identity.number);
  if (const auto wait = burnings_.Take(tenant, std::chrono::steady_clock::now())) {
    return done(
        InvalidUsage("this user burns tickets too often: try again in {} ms", wait->count()));
  }
  if (!BurnEverywhere(communicator)) {
    return done(RemoteError("a daemon of the job takes no more messages now: burn again"));
  }
  // Messages stay in order, so the home has burnt what it answers after.
  Ask({.communicator = &communicator}, false, {.act = TicketAct::kBurn}, std::move(done));
}

bool TicketClient::BurnEverywhere(Communicator& communicator) {
  Job* const job = communicator.job();
  services_.home.Burn(*job, Burnt());
  const uint64_t number = RandomNumber();
  job->heard.Add(number);
  return Spread(*job, number);
}

// Tells the daemons with which this one shares communicators of the job. Returns whether all of
// them have taken it.
bool TicketClient::Spread(const Job& job, uint64_t number) {
  if (services_.cluster == nullptr) return true;
  bool all = true;
  for (const auto& [id, communicator] : services_.communicators.all()) {
    const HostGroup* const group = communicator->host_group();
    if (communicator->job() != &job || group == nullptr) continue;
    const Roster& roster = group->roster();
    const auto send = [&](transport::PeerId peer) {
      if (peer == kThisDaemon || !services_.cluster->Linked(peer)) return;
      // A daemon of a release without tickets keeps none.
      if (!services_.cluster->CheckKnown(peer, MessageKind::kBurnTickets).ok()) return;
      const BurnTicketsMessage burn{.about = roster.key, .number = number};
      all &= services_.cluster->SendFor(job.tenant->identity, peer, burn).ok();
    };
    if (!group->is_home()) {
      send(roster.home);
      continue;
    }
    for (const std::optional<transport::PeerId>& peer : roster.peers) {
      if (peer.has_value()) send(*peer);
    }
  }
  return all;
}

void TicketClient::OnBurn(transport::PeerId peer, const BurnTicketsMessage& burn) {
  Communicator* const communicator = services_.communicators.FindByKey(burn.about);
  if (communicator == nullptr || communicator->host_group() == nullptr) return;
  const HostGroup& group = *communicator->host_group();
  const bool may_tell =
      group.is_home() ? group.roster().HostOf(peer) >= 0 : group.roster().home == peer;
  Job* const job = communicator->job();
  if (!may_tell || !job->heard.Add(burn.number)) return;
  services_.home.Burn(*job, Burnt());
  Spread(*job, burn.number);
}

// ---------------------------------------------------------------------------------------------
// Newcomers

void TicketClient::JoinJob(Session& session, const std::string& job, const std::string& ticket,
                           uint32_t wait_ms, PlaceDone done) {
  const Result<Newcomer*> come = Come(session, job, ticket);
  if (!come.ok()) return done(come.status());
  Newcomer& newcomer = **come;
  if (newcomer.waits != nullptr) {
    return done(InvalidUsage("another thread of this process waits for a place already"));
  }
  newcomer.until_ns = MonotonicNanoseconds() + uint64_t{std::min(wait_ms, kMostWaitMs)} * 1'000'000;
  newcomer.waits = std::move(done);
  if (newcomer.outcome.has_value()) {
    return Conclude(&newcomer, Result<JobPlace>(*newcomer.outcome));
  }
  services_.tick_by(newcomer.until_ns);
}

// Returns the session's newcomer, who may have come by an earlier call.
Result<TicketClient::Newcomer*> TicketClient::Come(Session& session, const std::string& job,
                                                   const std::string& text) {
  HZ_ASSIGN_OR_RETURN(const Ticket ticket, ParseTicket(text));
  const TenantIdentity& tenant = session.tenant().identity;
  const TicketDigest digest = DigestOf(ticket);
  const auto before = newcomers_.find(session.id());
  if (before != newcomers_.end()) {
    if (before->second.ticket == digest) return &before->second;
    Withdraw(before, "has come anew");
  }
  std::optional<transport::NetworkAddress> address;
  if (services_.cluster != nullptr) {
    HZ_ASSIGN_OR_RETURN(address, services_.cluster->HomeOf(ticket.home));
  }
  const std::optional<JobIdentity> id = ParseJob(job);
  const ComeMessage come{.call = next_call_++,
                         .digest = {digest.begin(), digest.end()},
                         .job = EncodeJob(id.value_or(JobOfName(job, tenant.across_hosts))),
                         .user = tenant.across_hosts};
  if (!address.has_value()) {
    HZ_RETURN_IF_ERROR(services_.home.Come({kThisDaemon, come.call}, come, &session.tenant()));
  }
  Newcomer& newcomer = newcomers_[session.id()];
  newcomer = {.call = come.call, .ticket = digest, .waiting = WaitingHold(services_.waiting)};
  if (!address.has_value()) {
    newcomer.peer = kThisDaemon;
    return &newcomer;
  }
  services_.cluster->Reach(address->ToString(), [this, session_id = session.id(),
                                                 come](const Result<transport::PeerId>& peer) {
    OnReached(session_id, come, peer);
  });
  return &newcomer;
}

void TicketClient::OnReached(uint32_t session, const ComeMessage& come,
                             const Result<transport::PeerId>& peer) {
  const auto found = newcomers_.find(session);
  if (found == newcomers_.end() || found->second.call != come.call) return;  // gone meanwhile
  if (!peer.ok()) return Conclude(&found->second, HomeLost());
  const Status known = services_.cluster->CheckKnown(*peer, MessageKind::kCome);
  if (!known.ok()) return Conclude(&found->second, known);
  found->second.peer = *peer;
  services_.cluster->Send(*peer, come);
}

TicketClient::Newcomer* TicketClient::FindNewcomer(uint64_t call) {
  const auto found = std::find_if(newcomers_.begin(), newcomers_.end(),
                                  [call](const auto& one) { return one.second.call == call; });
  return found == newcomers_.end() ? nullptr : &found->second;
}

// Tells the newcomer, now or at its next call. What it is told is told once.
void TicketClient::Conclude(Newcomer* newcomer, const Result<JobPlace>& outcome) {
  newcomer->outcome = outcome;
  if (newcomer->waits == nullptr) return;
  const PlaceDone done = std::exchange(newcomer->waits, nullptr);
  // After this call the newcomer may come anew by the same ticket.
  newcomer->ticket = {};
  newcomer->waiting.Reset();
  if (outcome.ok()) return done(std::optional<JobPlace>(*outcome));
  const uint64_t call = newcomer->call;
  std::erase_if(newcomers_, [call](const auto& one) { return one.second.call == call; });
  done(outcome.status());
}

void TicketClient::Tell(const NewcomerKey& newcomer, const Result<JobPlace>& place) {
  if (newcomer.peer == kThisDaemon) {
    if (Newcomer* const found = FindNewcomer(newcomer.call)) Conclude(found, place);
    return;
  }
  PlaceMessage message{.call = newcomer.call, .status = place.status()};
  if (place.ok()) {
    message.id = EncodeId(place->id);
    message.ranks = place->ranks;
    message.rank = place->rank;
  }
  services_.cluster->Send(newcomer.peer, message);
}

// The newcomer's process is gone, or comes with another ticket.
void TicketClient::Withdraw(Newcomers::iterator newcomer, const char* why) {
  const std::optional<transport::PeerId> peer = newcomer->second.peer;
  const uint64_t call = newcomer->second.call;
  newcomers_.erase(newcomer);
  if (!peer.has_value()) return;
  if (*peer == kThisDaemon) return services_.home.Leave({kThisDaemon, call}, why);
  services_.cluster->Send(*peer, GoneMessage{call});
}

void TicketClient::LoseSession(const Session& session) {
  const auto found = newcomers_.find(session.id());
  if (found != newcomers_.end()) Withdraw(found, "has died");
}

void TicketClient::Tick(uint64_t now_ns) {
  for (auto one = newcomers_.begin(); one != newcomers_.end();) {
    const auto next = std::next(one);
    Newcomer& newcomer = one->second;
    const bool told = newcomer.ticket == TicketDigest{};
    if (!told && newcomer.until_ns <= now_ns) {
      if (newcomer.waits == nullptr) {
        Withdraw(one, "has not asked for its place");
      } else {
        newcomer.until_ns = now_ns + kTurnKeptNs;
        std::exchange(newcomer.waits, nullptr)(std::optional<JobPlace>());
      }
    } else if (!told && newcomer.waits != nullptr) {
      services_.tick_by(newcomer.until_ns);
    }
    one = next;
  }
}

// ---------------------------------------------------------------------------------------------
// What the cluster says

void TicketClient::OnAsk(transport::PeerId peer, const AskTicketsMessage& ask) {
  Communicator* communicator = services_.communicators.FindByKey(ask.about);
  const Job* const tied = ties_.job_of ? ties_.job_of(ask.about, peer) : nullptr;
  if (tied != nullptr) communicator = CommunicatorOf(*tied);
  TicketsMessage answer{.call = ask.call, .status = InvalidUsage("the communicator is gone")};
  if (communicator != nullptr && communicator->tenant().identity.across_hosts == ask.user) {
    answer = services_.home.Do(ask, *communicator, false);
  }
  services_.cluster->Send(peer, answer);
}

void TicketClient::OnTickets(transport::PeerId peer, const TicketsMessage& answer) {
  const auto call = calls_.find(answer.call);
  if (call == calls_.end() || call->second.peer != peer) return;
  const Done done = std::move(call->second.done);
  calls_.erase(call);
  if (!answer.status.ok()) return done(answer.status);
  done(answer);
}

void TicketClient::OnCome(transport::PeerId peer, const ComeMessage& come) {
  const NewcomerKey key{peer, come.call};
  const Status status = services_.home.Come(key, come, nullptr);
  if (!status.ok()) Tell(key, status);
}

void TicketClient::OnPlace(transport::PeerId peer, const PlaceMessage& place) {
  Newcomer* const newcomer = FindNewcomer(place.call);
  if (newcomer == nullptr || newcomer->peer != peer || newcomer->outcome.has_value()) return;
  if (!place.status.ok()) return Conclude(newcomer, place.status);
  const Result<UniqueId> id = DecodeId(place.id);
  if (!id.ok()) return Conclude(newcomer, id.status());
  Conclude(newcomer, JobPlace{*id, place.ranks, place.rank});
}

void TicketClient::OnGone(transport::PeerId peer, const GoneMessage& gone) {
  services_.home.Leave({peer, gone.call}, "has died or given up");
}

void TicketClient::OnPeerLost(transport::PeerId peer) {
  services_.home.OnPeerLost(peer);
  std::vector<Done> unanswered;
  for (auto call = calls_.begin(); call != calls_.end();) {
    if (call->second.peer == peer) unanswered.push_back(std::move(call->second.done));
    call = call->second.peer == peer ? calls_.erase(call) : std::next(call);
  }
  for (const Done& done : unanswered) {
    done(
        RemoteError("the daemon that looks after the job does not answer any more, and its "
                    "tickets are gone with it"));
  }
  std::vector<uint64_t> waiting;
  for (const auto& [session, newcomer] : newcomers_) {
    if (newcomer.peer == peer && !newcomer.outcome.has_value()) waiting.push_back(newcomer.call);
  }
  for (const uint64_t call : waiting) {
    if (Newcomer* const newcomer = FindNewcomer(call)) Conclude(newcomer, HomeLost());
  }
}

}  // namespace harmonaize::daemon
