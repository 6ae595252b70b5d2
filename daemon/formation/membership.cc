#include "daemon/formation/membership.h"

#include <algorithm>
#include <utility>

#include "daemon/formation/rank_limits.h"
#include "daemon/multihost/host_group.h"
#include "src/base/saturating.h"

namespace harmonaize::daemon {
namespace {

HostServices WithObserver(HostServices hosts, RemoteRankObserver* ranks) {
  hosts.ranks = ranks;
  return hosts;
}

/// Returns how a process was lost without its number, which is one of this host and says nothing to
/// the ranks of another one.
std::string WithoutProcess(const std::string& why) {
  const size_t end = why.starts_with("(process ") ? why.find(") ") : std::string::npos;
  return end == std::string::npos ? why : why.substr(end + 2);
}

RankEnd EndOf(const Member& member, const Session& session, SessionEnd end) {
  if (end == SessionEnd::kCutOff) return RankEnd::kUnknown;
  if (member.aborted) return RankEnd::kAborted;
  return session.says_that_it_exits() ? RankEnd::kExited : RankEnd::kKilled;
}

/// Returns what a communicator has done here that is about to go.
EndedCommunicators WorkOf(const Communicator& communicator) {
  // A home without ranks of the communicator has carried out nothing.
  if (!communicator.has_ranks_here()) return {};
  const InlineSegment* const segment = communicator.inline_segment();
  const uint64_t inline_operations = segment == nullptr ? 0 : segment->claimed_operations();
  const uint64_t inline_bytes = segment == nullptr ? 0 : segment->claimed_bytes();
  return {.count = 1,
          .operations = AddUpTo(communicator.operations(), inline_operations),
          .bytes = AddUpTo(communicator.bytes(), inline_bytes),
          .ranks = communicator.ranks()};
}

}  // namespace

Membership::Membership(const MembershipServices& services)
    : config_(*services.hosts.config),
      cluster_(services.hosts.cluster),
      communicators_(*services.communicators),
      jobs_(*services.jobs),
      observers_(*services.hosts.observers),
      ids_(cluster_),
      watch_(config_, pending_, ids_, *services.sessions, jobs_, cluster_),
      maker_(WithObserver(services.hosts, &watch_), communicators_, *services.jobs,
             *services.sessions),
      stray_(cluster_, services.hosts.loop),
      fabric_exchange_(*services.hosts.fabrics, communicators_, cluster_),
      ticket_home_(
          {.ids = ids_,
           .watch = watch_,
           .communicators = communicators_,
           .waiting = *services.hosts.waiting,
           .cluster = cluster_,
           .tell = [this](const NewcomerKey& newcomer,
                          const Result<JobPlace>& place) { ticket_client_.Tell(newcomer, place); },
           .admission_ns = static_cast<uint64_t>(config_.formation_timeout_seconds * 1e9)}),
      ticket_client_({.home = ticket_home_,
                      .communicators = communicators_,
                      .waiting = *services.hosts.waiting,
                      .cluster = cluster_,
                      .tick_by = services.hosts.tick_by}),
      home_({.pending = pending_,
             .ids = ids_,
             .watch = watch_,
             .maker = maker_,
             .communicators = communicators_,
             .tenants = *services.tenants,
             .waiting = *services.hosts.waiting,
             .fabrics = *services.hosts.fabrics,
             .tickets = ticket_home_,
             .cluster = cluster_,
             .remembering_ns = static_cast<uint64_t>(config_.formation_timeout_seconds * 1e9)}),
      client_({.home = home_,
               .maker = maker_,
               .stray = stray_,
               .communicators = communicators_,
               .cluster = cluster_}),
      doors_({.client = client_,
              .watch = watch_,
              .pending = pending_,
              .ids = ids_,
              .loop = *services.hosts.loop,
              .cluster = cluster_}),
      departures_(communicators_, services.hosts.loop),
      lost_ranks_({.communicators = communicators_,
                   .waiting = *services.hosts.waiting,
                   .cluster = cluster_,
                   .tick_by = services.hosts.tick_by}),
      late_rounds_(communicators_) {}

// ---------------------------------------------------------------------------------------------
// Ids

Status Membership::CheckAdmitted(const Session& session) const {
  if (refusal_.empty() || session.ranks() > 0) return Status::Ok();
  return RemoteError("{}", refusal_);
}

Result<UniqueId> Membership::CreateId(Session& session) {
  HZ_RETURN_IF_ERROR(CheckAdmitted(session));
  return ids_.Issue(&session.tenant(), session.id(), 0);
}

Result<OpenDoorReply> Membership::OpenDoor(Session& session) {
  HZ_RETURN_IF_ERROR(CheckAdmitted(session));
  HZ_ASSIGN_OR_RETURN(const UniqueId door, doors_.Open(session));
  return OpenDoorReply{door, cluster_ == nullptr ? 0 : cluster_->host_bytes_per_second()};
}

Result<uint32_t> Membership::Knock(Session& session, const UniqueId& door,
                                   const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckAdmitted(session));
  return doors_.Knock(session, door, name);
}

void Membership::CreateGrowId(Session& session, uint32_t index, FormationClient::GrowIdDone done) {
  const Result<Communicator*> parent = Find(session, index);
  if (!parent.ok()) return done(parent.status());
  const Result<HomeAddress> home = HomeOf(**parent, cluster_);
  if (!home.ok()) return done(home.status());
  if (home->here) return done(ids_.Issue(&session.tenant(), session.id(), (*parent)->id()));
  client_.AskGrowId(*home->peer, (*parent)->host_group()->roster().key,
                    session.tenant().identity.across_hosts, std::move(done));
}

// ---------------------------------------------------------------------------------------------
// Applying

Result<uint32_t> Membership::Join(Session& session, const UniqueId& id, int ranks, int rank,
                                  bool on_gpu, const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckAdmitted(session));
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  HZ_RETURN_IF_ERROR(CheckRanks(ranks, rank, 0));
  return client_.Apply(session, {.kind = FormationKind::kJoin,
                                 .id = id,
                                 .ranks = ranks,
                                 .rank = rank,
                                 .name = name,
                                 .on_gpu = on_gpu});
}

Result<uint32_t> Membership::Split(Session& session, uint32_t index, std::optional<int> color,
                                   int key, const std::string& name) {
  HZ_ASSIGN_OR_RETURN(Communicator * parent, Find(session, index));
  if (parent->state() == Communicator::State::kBroken) return parent->failure();
  Member* caller = session.FindMember(index);
  return client_.Apply(session, {.kind = FormationKind::kSplit,
                                 .parent = parent->id(),
                                 .round = caller->next_split++,
                                 .rank = caller->rank,
                                 .color = color,
                                 .key = key,
                                 .name = name});
}

Result<uint32_t> Membership::Shrink(Session& session, uint32_t index, std::vector<int32_t> excluded,
                                    bool abort_parent, const std::string& name) {
  HZ_ASSIGN_OR_RETURN(Communicator * parent, Find(session, index));
  const int caller = session.FindMember(index)->rank;
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  for (const int32_t rank : excluded) {
    if (rank < 0 || rank >= parent->ranks() || rank == caller) {
      return InvalidArgument("ncclCommShrink cannot exclude rank {} of {} when rank {} calls it",
                             rank, parent->ranks(), caller);
    }
  }
  if (abort_parent) {
    parent->Break(RemoteError("rank {} shrinks the communicator with NCCL_SHRINK_ABORT", caller));
  }
  return client_.Apply(session, {.kind = FormationKind::kShrink,
                                 .parent = parent->id(),
                                 .rank = caller,
                                 .excluded = std::move(excluded),
                                 .name = name});
}

Result<uint32_t> Membership::GrowFrom(Session& session, uint32_t index, int ranks,
                                      const std::string& name) {
  HZ_ASSIGN_OR_RETURN(Communicator * parent, Find(session, index));
  return client_.Apply(session, {.kind = FormationKind::kGrow,
                                 .parent = parent->id(),
                                 .ranks = ranks,
                                 .rank = session.FindMember(index)->rank,
                                 .name = name});
}

Result<uint32_t> Membership::JoinGrowth(Session& session, const UniqueId& id, int ranks, int rank,
                                        const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckAdmitted(session));
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  return client_.Apply(
      session,
      {.kind = FormationKind::kJoinGrowth, .id = id, .ranks = ranks, .rank = rank, .name = name});
}

void Membership::JoinJob(Session& session, const std::string& job, const std::string& ticket,
                         uint32_t wait_ms, TicketClient::PlaceDone done) {
  if (const Status admitted = CheckAdmitted(session); !admitted.ok()) return done(admitted);
  ticket_client_.JoinJob(session, job, ticket, wait_ms, std::move(done));
}

// ---------------------------------------------------------------------------------------------
// Leaving

// Takes the member out of its formation, here or elsewhere, and fails the formation.
void Membership::Withdraw(Member* member, const WhyWithdrawn& why) {
  watch_.Withdraw(member, why);
  client_.Withdraw(member, why);
}

Status Membership::Abort(Session& session, uint32_t index) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  if (member->formation != nullptr || member->ticket != 0) {
    Status status;
    Withdraw(member, [&](const std::string& what, const std::string& missing) {
      status = RemoteError("a rank aborted while {} was waiting for {}", what, missing);
      return status;
    });
    if (status.ok()) status = RemoteError("the rank aborted before it was formed");
    member->Fail(status);
  }
  if (member->communicator != nullptr) {
    const Status why = RemoteError("rank {} (process {}) aborted the communicator", member->rank,
                                   session.process());
    watch_.FailWaitingFor(*member->communicator, member->rank, why);
    member->aborted = true;
    member->communicator->Break(why);
  }
  return Status::Ok();
}

Status Membership::Leave(Session& session, uint32_t index, std::function<void()> done) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  Withdraw(member, [](const std::string& what, const std::string& missing) {
    return RemoteError("a rank gave up while {} was waiting for {}", what, missing);
  });
  if (member->communicator != nullptr) {
    Communicator& communicator = *member->communicator;
    const Status why = RemoteError("rank {} (process {}) has left the communicator", member->rank,
                                   session.process());
    watch_.FailWaitingFor(communicator, member->rank, why);
    // An honest client has seen everything complete before it leaves; with a part still posted the
    // rank's buffers are in use, and only an end of everything gives them back.
    if (member->outstanding > 0) communicator.Break(why);
    communicator.Leave(member->rank);
  }
  departures_.Add(session, member, std::move(done));
  return Status::Ok();
}

Status Membership::Revoke(Session& session, uint32_t index) {
  HZ_ASSIGN_OR_RETURN(Communicator * communicator, Find(session, index));
  const bool first = communicator->state() == Communicator::State::kReady;
  communicator->Revoke(
      InvalidUsage("rank {} revoked the communicator: only destroy, split and shrink make "
                   "sense now",
                   session.FindMember(index)->rank));
  // Whoever revokes gives the job another shape: places in the old one are for nobody. Once for a
  // communicator, so that nobody floods other daemons this way.
  if (first && !ticket_client_.BurnEverywhere(*communicator)) {
    return RemoteError("a daemon of the job takes no more messages now: call hzBurnTickets");
  }
  return Status::Ok();
}

void Membership::LoseSession(Session& session, const std::string& why, SessionEnd end) {
  ticket_client_.LoseSession(session);
  doors_.LoseSession(session);
  for (Member* member : session.Members()) {
    if (member->gone) continue;
    if (member->formation != nullptr) {
      Withdraw(member, [&](const std::string& what, const std::string&) {
        return RemoteError("rank {} {} during {}", member->place_in_formation, why, what);
      });
    }
    Withdraw(member, [&](const std::string& what, const std::string&) {
      return RemoteError("a rank {} during {}", why, what);
    });
    if (member->communicator != nullptr) {
      const Status lost = RemoteError("rank {} {}", member->rank, why);
      watch_.FailWaitingFor(*member->communicator, member->rank, lost);
      observers_.Tell(&CommunicatorObserver::OnRankLost, *member->communicator, member->rank,
                      RankLoss{.end = EndOf(*member, session, end),
                               .why = WithoutProcess(why),
                               .failed_before = member->communicator->FirstFailure()});
      member->communicator->LoseRank(lost);
      member->communicator->Leave(member->rank);
    }
    departures_.Add(session, member, [] {});
  }
  // Ids that nobody has used yet die with the process that asked for them.
  watch_.EraseIdsOf(session);
}

// ---------------------------------------------------------------------------------------------
// Clearing away

void Membership::Sweep() {
  departures_.Sweep();
  communicators_.LookAtNoted([this](Communicator& noted) { return MayEndLater(noted); });
}

// Ends a communicator that has no ranks any more. Returns whether to look at it again.
bool Membership::MayEndLater(Communicator& communicator) {
  // The last of those that depart has it looked at again.
  if (communicator.departing > 0 || !communicator.all_left()) return false;
  if (communicator.executing()) return true;
  const uint64_t id = communicator.id();
  observers_.Tell(&CommunicatorObserver::OnEnded, communicator);
  if (const HostGroup* const group = communicator.host_group()) {
    stray_.NoteEnded(group->roster().key, communicator.collectives_begun());
  }
  // Ids for a growth that nobody has begun.
  ids_.EraseOfParent(id);
  ticket_home_.OnEnded(communicator);
  communicator.plans().Drop();
  Job* const job = communicator.job();
  const EndedCommunicators ended = WorkOf(communicator);
  communicators_.Erase(id);
  // The job may be forgotten with its last communicator.
  if (job->communicators == 1) ticket_home_.OnJobEnded(*job);
  jobs_.Remove(job, ended);
  return false;
}

void Membership::Tick(uint64_t now_ns) {
  jobs_.ForgetOld();
  late_rounds_.Report(now_ns, static_cast<uint64_t>(config_.late_after_seconds * 1e9));
  watch_.Tick(now_ns);
  ticket_home_.Tick(now_ns);
  ticket_client_.Tick(now_ns);
  lost_ranks_.Tick(now_ns);
  home_.ForgetOld(now_ns);
}

// ---------------------------------------------------------------------------------------------
// The cluster

void Membership::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  const bool concerns_a_part = message.Dispatch(
      [&](const ApplyMessage& one) { home_.OnApply(peer, one); },
      [&](const WithdrawMessage& one) { watch_.OnWithdraw(peer, one); },
      [&](const FormedMessage& one) { client_.OnFormed(peer, one); },
      [&](const RefusedMessage& one) { client_.OnRefused(peer, one); },
      [&](const FormingNoticeMessage& one) { client_.OnFormingNotice(peer, one); },
      [&](const AskGrowIdMessage& one) { home_.OnAskGrowId(peer, one); },
      [&](const GrowIdMessage& one) { client_.OnGrowId(peer, one); },
      [&](const AskFabricMessage& one) { fabric_exchange_.OnAskFabric(peer, one); },
      [&](const FabricMessage& one) { fabric_exchange_.OnFabric(peer, one); },
      [&](const AskTicketsMessage& one) { ticket_client_.OnAsk(peer, one); },
      [&](const TicketsMessage& one) { ticket_client_.OnTickets(peer, one); },
      [&](const ComeMessage& one) { ticket_client_.OnCome(peer, one); },
      [&](const PlaceMessage& one) { ticket_client_.OnPlace(peer, one); },
      [&](const GoneMessage& one) { ticket_client_.OnGone(peer, one); },
      [&](const BurnTicketsMessage& one) { ticket_client_.OnBurn(peer, one); },
      [&](const KnockMessage& one) { doors_.OnKnock(peer, one); },
      [&](const KnockRefusedMessage& one) { doors_.OnRefused(peer, one); },
      [&](const AskLostMessage& one) { lost_ranks_.OnAsk(peer, one); },
      [&](const LostMessage& one) { lost_ranks_.OnLost(peer, one); });
  if (concerns_a_part) return;
  // These are for the control loop, and name communicators that are not here.
  if (message.kind() == MessageKind::kBurst || message.kind() == MessageKind::kBurstTurn) return;
  // Messages that are about no communicator are for others.
  const std::optional<uint64_t> key = CommunicatorOf(message);
  if (key.has_value()) OnCommunicatorMessage(peer, *key, message);
}

void Membership::OnCommunicatorMessage(transport::PeerId peer, uint64_t key,
                                       const ClusterMessage& message) {
  Communicator* const communicator = communicators_.FindByKey(key);
  if (communicator != nullptr) {
    communicators_.NoteMayHaveEnded(*communicator);  // the last rank may leave
  }
  // Messages that came before the communicator reach it first.
  if (communicator == nullptr || stray_.Keeps(key)) return stray_.OnMessage(peer, key, message);
  communicator->other_hosts()->OnMessage(peer, message);
}

// A rank that applied is refused. A communicator may have changed by half of what the message was
// to change: it ends here, and so at all hosts. Other tenants' go on, and the peer stays.
void Membership::GiveUpOn(transport::PeerId peer, const ClusterMessage& message,
                          const Status& exception) {
  if (const auto* const apply = message.As<ApplyMessage>()) {
    return home_.GiveUpOn(peer, *apply, exception);
  }
  const std::optional<uint64_t> key = CommunicatorOf(message);
  Communicator* const communicator = key.has_value() ? communicators_.FindByKey(*key) : nullptr;
  if (communicator != nullptr) return communicator->Break(exception);
  if (const auto* const formed = message.As<FormedMessage>()) {
    client_.GiveUpOn(peer, *formed, exception);
  }
}

void Membership::OnPeerLost(transport::PeerId peer) {
  const std::vector<uint64_t> anew = client_.RefuseApplicantsAt(peer);
  watch_.OnPeerLost(peer);
  client_.FailGrowIdCallsTo(peer);
  ticket_client_.OnPeerLost(peer);
  doors_.OnPeerLost(peer);
  for (const auto& [id, communicator] : communicators_.all()) {
    if (communicator->host_group() == nullptr) continue;
    communicator->other_hosts()->OnPeerLost(peer);
    communicators_.NoteMayHaveEnded(*communicator);
  }
  // The ranks of the lost host are known by now.
  lost_ranks_.OnPeerLost(peer);
  client_.ApplyAnew(anew);
  stray_.OnPeerLost(peer);
}

Result<Communicator*> Membership::Find(Session& session, uint32_t index) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  if (member->communicator == nullptr) return InvalidUsage("the communicator is not ready");
  return member->communicator;
}

}  // namespace harmonaize::daemon
