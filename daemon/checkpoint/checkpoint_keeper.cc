#include "daemon/checkpoint/checkpoint_keeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/checkpoint/save_news.h"
#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/job_events/job_events.h"
#include "daemon/multihost/host_group.h"
#include "daemon/tenant/session_keeper.h"
#include "daemon/tenant/tenant.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/mix_bits.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Most buffers that a rank may lend for one communicator: two that take turns, and two larger ones
/// that take their place.
constexpr int kMostBuffersOfRank = 4;

/// Interval, in nanoseconds, at which other hosts are asked to go on keeping copies.
constexpr uint64_t kRefreshEveryNs = 10'000'000'000;

/// Longest time, in nanoseconds, for which what an earlier run has saved is kept until other hosts
/// have copies of a later one. Copies of some tens of GB take seconds.
constexpr uint64_t kEarlierKeptNs = 60'000'000'000;

/// Returns the number by which all hosts know a save, which no other save of the job has.
uint64_t SaveNumber(uint64_t key, uint64_t round) {
  return MixBits(key ^ MixBits(round));
}

/// Returns bits that stand for rounds, the newest the lowest, when so many rounds more are
/// complete.
uint64_t OlderBy(uint64_t rounds, uint64_t bits) {
  return rounds < 64 ? bits << rounds : 0;
}

/// Returns the stall that a rank tells, or 0 for what cannot be one: a year is the longest.
double SoundStall(double seconds) {
  constexpr double kMostSeconds = 365 * 86400.0;
  return seconds >= 0 && seconds <= kMostSeconds ? seconds : 0;
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(const Services& services)
    : services_(services),
      others_({.cluster = services.cluster,
               .loop = services.loop,
               .tenants = services.tenants,
               .parts = &parts_,
               .on_kept = [this](transport::PeerId peer,
                                 const PartKeptMessage& kept) { OnKept(peer, kept); }}),
      stored_({.store = services.store, .loop = services.loop, .eraser = others_.eraser()}),
      storage_({.store = services.store,
                .cluster = services.cluster,
                .loop = services.loop,
                .on_settled = [this](const RoundToStore& round,
                                     const Status& status) { OnStored(round, status); }}),
      choices_(services.communicators),
      listings_({.communicators = services.communicators,
                 .tenants = services.tenants,
                 .parts = &parts_,
                 .others = &others_,
                 .stored = &stored_}),
      next_look_(services.loop) {}

CheckpointKeeper::Saves& CheckpointKeeper::SavesOf(const Communicator& communicator) {
  const auto [entry, is_new] = saves_.try_emplace(communicator.id());
  Saves& saves = entry->second;
  if (!is_new) return saves;
  const HostGroup* const group = communicator.host_group();
  saves.key = group == nullptr ? RandomNumber() : group->roster().key;
  if (group == nullptr || group->is_home()) {
    saves.rounds.emplace(communicator.ranks());
    saves.of_rank.resize(static_cast<size_t>(communicator.ranks()), kThisDaemon);
  }
  return saves;
}

// ---------------------------------------------------------------------------------------------
// Requests of ranks

Result<uint32_t> CheckpointKeeper::Lend(uint32_t session, const Communicator& communicator,
                                        int rank, std::shared_ptr<RegionMemory> memory,
                                        uint64_t bytes) {
  if (const HostGroup* const group = communicator.host_group();
      group != nullptr && !group->is_home()) {
    HZ_RETURN_IF_ERROR(
        services_.cluster->CheckKnown(group->roster().home, PartSavedMessage::kKind));
  }
  const JobTable::Key job = JobTable::KeyOf(*communicator.job());
  if (const KeptParts::ByBuffer* const parts = parts_.Of(job)) {
    const auto lent = std::count_if(parts->begin(), parts->end(), [&](const auto& entry) {
      return entry.second.communicator == communicator.id() && entry.second.rank == rank;
    });
    if (lent >= kMostBuffersOfRank) {
      return InvalidUsage("rank {} has lent {} buffers for checkpoints, and may lend no more", rank,
                          lent);
    }
  }
  Watch();
  return parts_.Add({.job = job,
                     .memory = std::make_shared<LentMemory>(std::move(memory)),
                     .buffer_bytes = bytes,
                     .session = session,
                     .communicator = communicator.id(),
                     .rank = rank,
                     .ranks = communicator.ranks()});
}

Status CheckpointKeeper::Return(uint32_t session, uint32_t buffer) {
  HZ_RETURN_IF_ERROR(CheckLent(session, buffer));
  parts_.Erase(buffer);
  return Status::Ok();
}

/// Checks that a session has lent a buffer, which may have been given back since.
Status CheckpointKeeper::CheckLent(uint32_t session, uint32_t buffer) {
  if (parts_.Find(buffer, session) != nullptr || parts_.WasErased(buffer)) return Status::Ok();
  return InvalidArgument("this process has lent no buffer {}", buffer);
}

/// Returns a buffer of a session whose communicator can still be saved.
Result<KeptPart*> CheckpointKeeper::FindUsable(uint32_t session, uint32_t buffer,
                                               Communicator** communicator) {
  HZ_RETURN_IF_ERROR(CheckLent(session, buffer));
  KeptPart* const part = parts_.Find(buffer, session);
  *communicator = part == nullptr ? nullptr : services_.communicators->FindById(part->communicator);
  if (*communicator == nullptr) {
    return RemoteError("the communicator whose ranks save this checkpoint is gone");
  }
  if ((*communicator)->state() != Communicator::State::kReady) return (*communicator)->failure();
  HZ_RETURN_IF_ERROR(SavesOf(**communicator).failure);
  return part;
}

/// Returns whether the rank of a buffer has a part, in whichever buffer, of a later round than
/// this.
bool CheckpointKeeper::HasSavedSince(const KeptPart& of_rank, uint64_t round) const {
  const KeptParts::ByBuffer& parts = *parts_.Of(of_rank.job);
  return std::any_of(parts.begin(), parts.end(), [&](const auto& entry) {
    const KeptPart& part = entry.second;
    return !part.is_copy && part.communicator == of_rank.communicator &&
           part.rank == of_rank.rank && part.round > round;
  });
}

Result<CheckpointKeeper::Begun> CheckpointKeeper::Begin(uint32_t session, uint32_t buffer,
                                                        uint64_t step) {
  if (step > INT64_MAX) return InvalidArgument("step {} is not below 2^63", step);
  Communicator* communicator = nullptr;
  HZ_ASSIGN_OR_RETURN(KeptPart * part, FindUsable(session, buffer, &communicator));
  const Saves& saves = SavesOf(*communicator);
  const uint64_t complete = saves.complete.round;
  if (HasSavedSince(*part, complete)) return Begun{.waits = true};
  if (storage_.IsStoring(part->name())) {
    return Begun{.waits = true};
  }
  if (part->state == PartState::kComplete && part->round == complete) {
    return InvalidUsage("buffer {} has the rank's newest checkpoint: save into another one",
                        buffer);
  }
  // The thread that reads the part for another host looks at this after the last byte.
  if (part->is_void != nullptr) part->is_void->store(true, std::memory_order_seq_cst);
  part->is_void = std::make_shared<std::atomic<bool>>(false);
  part->state = PartState::kNothing;
  // The copy that another host has is of what lay in the buffer before.
  part->peer = kThisDaemon;
  part->round = 0;
  part->step = step;
  part->save = SaveNumber(saves.key, complete + 1);
  return Begun{.round = complete + 1, .save = part->save};
}

Status CheckpointKeeper::Commit(uint32_t session, uint32_t buffer, const Commitment& commitment) {
  Communicator* communicator = nullptr;
  HZ_ASSIGN_OR_RETURN(KeptPart * part, FindUsable(session, buffer, &communicator));
  const Saves& saves = SavesOf(*communicator);
  const uint64_t round = saves.complete.round + 1;
  if (part->state != PartState::kNothing || part->save != SaveNumber(saves.key, round)) {
    return InvalidUsage("no checkpoint was begun in buffer {}", buffer);
  }
  if (HasSavedSince(*part, saves.complete.round)) {
    return InvalidUsage("rank {} has its part of this checkpoint in another buffer", part->rank);
  }
  if (commitment.bytes > part->buffer_bytes) {
    return InvalidArgument("a part of {} bytes in a buffer of {}", commitment.bytes,
                           part->buffer_bytes);
  }
  part->state = PartState::kCommitted;
  part->round = round;
  part->bytes = commitment.bytes;
  part->is_kept = commitment.is_kept;
  part->to_store = commitment.to_store;
  part->saved_seconds = UnixSeconds();
  const SaveRounds::Part saved = {.rank = part->rank,
                                  .round = round,
                                  .step = part->step,
                                  .bytes = part->bytes,
                                  .stall_seconds = SoundStall(commitment.stall_seconds)};
  HostGroup* const group = communicator->host_group();
  if (group == nullptr || group->is_home()) {
    TakePart(*communicator, saved, kThisDaemon, commitment.to_store);
  } else {
    group->TellHome(PartSavedMessage{.about = saves.key,
                                     .rank = saved.rank,
                                     .round = saved.round,
                                     .step = saved.step,
                                     .bytes = saved.bytes,
                                     .stall_seconds = saved.stall_seconds,
                                     .to_store = commitment.to_store});
  }
  return Status::Ok();
}

Result<CheckpointKeeper::Saved> CheckpointKeeper::SavedBy(const Communicator& communicator) const {
  const auto found = saves_.find(communicator.id());
  if (found == saves_.end()) return Saved{};
  HZ_RETURN_IF_ERROR(found->second.failure);
  return found->second.complete;
}

// ---------------------------------------------------------------------------------------------
// At the home

void CheckpointKeeper::TakePart(Communicator& communicator, const SaveRounds::Part& part,
                                transport::PeerId from, bool to_store) {
  Saves& saves = SavesOf(communicator);
  if (!saves.rounds.has_value()) return;
  if (saves.begun_seconds == 0) saves.begun_seconds = UnixSeconds();
  saves.to_store |= to_store;
  saves.of_rank[static_cast<size_t>(part.rank)] = from;
  const Result<bool> is_complete = saves.rounds->Take(part);
  if (is_complete.ok() && !*is_complete) return;
  if (!is_complete.ok() && saves.rounds->failure().ok()) {
    Log(LogLevel::kWarning, kLogInit, "a rank's part of a checkpoint does not count: {}",
        is_complete.status().message());
    return;
  }
  Saved saved = saves.complete;
  saved.round = saves.rounds->complete();
  saved.step = saves.rounds->step();
  saved.stored = OlderBy(saved.round - saves.complete.round, saved.stored);
  saved.not_stored = OlderBy(saved.round - saves.complete.round, saved.not_stored);
  TellHosts(communicator, saves.key, saved, saves.rounds->failure());
  if (is_complete.ok() && std::exchange(saves.to_store, false)) FollowStoring(communicator, saves);
  Complete(communicator, saved, saves.rounds->failure());
  if (is_complete.ok()) TellSaved(communicator, saves, false);
  saves.completed_seconds = std::exchange(saves.begun_seconds, 0);
}

void CheckpointKeeper::TellHosts(Communicator& communicator, uint64_t key, const Saved& saved,
                                 const Status& failure) {
  HostGroup* const group = communicator.host_group();
  if (group == nullptr) return;
  group->TellHosts(RoundCompleteMessage{.about = key,
                                        .round = saved.round,
                                        .step = saved.step,
                                        .peer_round = saved.peer_round,
                                        .stored = saved.stored,
                                        .not_stored = saved.not_stored,
                                        .status = failure});
}

void CheckpointKeeper::TellSaved(const Communicator& communicator, const Saves& saves,
                                 bool at_peer) {
  if (!services_.events->MayTellMore(communicator)) return;
  const double began = at_peer ? saves.completed_seconds : saves.begun_seconds;
  services_.events->Tell(*communicator.job(),
                         NewsOfMemory({.step = saves.complete.step,
                                       .at_peer = at_peer,
                                       .bytes = saves.rounds->bytes(),
                                       .took_seconds = std::max(0.0, UnixSeconds() - began),
                                       .stall_seconds = saves.rounds->stall_seconds()}));
}

/// Notes at a host what the home has found.
void CheckpointKeeper::Complete(const Communicator& communicator, const Saved& saved,
                                const Status& failure) {
  Saves& saves = SavesOf(communicator);
  saves.failure = failure;
  saves.complete.peer_round = std::max(saves.complete.peer_round, saved.peer_round);
  if (saved.round < saves.complete.round) return;
  saves.complete.stored = saved.stored;
  saves.complete.not_stored = saved.not_stored;
  if (saved.round > saves.complete.round) {
    if (saves.complete.round == 0) {
      saves.earlier_until_ns = MonotonicNanoseconds() + kEarlierKeptNs;
    }
    saves.complete.round = saved.round;
    saves.complete.step = saved.step;
    saves.at_peer.clear();
    parts_.Complete(JobTable::KeyOf(*communicator.job()), communicator.id(), saved.round);
    ReplicateRound(communicator, saved.round);
    StoreRound(communicator, saved.round);
  }
  LetEarlierGo(communicator, saves);
}

/// Gives back what earlier runs of the job have saved, once this one has a checkpoint that is as
/// safe: one that a host takes along which is lost takes nothing away that was safe before.
void CheckpointKeeper::LetEarlierGo(const Communicator& communicator, const Saves& saves) {
  if (saves.complete.round == 0) return;
  const bool is_safe = saves.complete.peer_round > 0 || saves.complete.stored != 0;
  const bool has_time = MonotonicNanoseconds() < saves.earlier_until_ns;
  if (!is_safe && has_time && MayKeepEarlier(communicator)) return;
  parts_.DropEarlier(JobTable::KeyOf(*communicator.job()), communicator.id());
}

/// Returns whether another host may have copies, and there is room meanwhile: for second buffers of
/// the ranks, and for copies that others ask this host to keep.
bool CheckpointKeeper::MayKeepEarlier(const Communicator& communicator) const {
  if (services_.cluster == nullptr) return false;
  const HostGroup* const group = communicator.host_group();
  const bool has_others = group != nullptr && group->roster().hosts() > 1;
  if (!has_others && services_.cluster->linked().empty()) return false;
  const uint64_t lent = parts_.BytesLent(JobTable::KeyOf(*communicator.job()), communicator.id());
  const auto room = static_cast<int64_t>(std::min<uint64_t>(2 * lent, INT64_MAX));
  return communicator.tenant().account->Take(Resource::kCheckpointBytes, room).ok();
}

// ---------------------------------------------------------------------------------------------
// The provider's store

/// At the home: has a round followed whose last part has come.
void CheckpointKeeper::FollowStoring(const Communicator& communicator, const Saves& saves) {
  const uint64_t round = saves.rounds->complete();
  RoundToStore followed = {
      .key = saves.key,
      .round = round,
      .tenant = communicator.tenant().identity,
      .job = JobTable::KeyOf(*communicator.job()),
      .id = {.step = saves.rounds->step(), .save = SaveNumber(saves.key, round)},
      .bytes = saves.rounds->bytes(),
      .stall_seconds = saves.rounds->stall_seconds(),
      .begun_seconds = saves.begun_seconds,
      .of_rank = saves.of_rank};
  storage_.Follow(std::move(followed));
}

/// Has this host's parts of a round stored.
void CheckpointKeeper::StoreRound(const Communicator& communicator, uint64_t round) {
  const KeptParts::ByBuffer* const parts = parts_.Of(JobTable::KeyOf(*communicator.job()));
  if (parts == nullptr) return;
  const HostGroup* const group = communicator.host_group();
  const transport::PeerId home = group == nullptr ? kThisDaemon : group->roster().home;
  const uint64_t key = saves_.at(communicator.id()).key;
  for (const auto& [buffer, part] : *parts) {
    if (!part.to_store || !part.IsOfCompleteRound(communicator.id(), round)) continue;
    storage_.Store(communicator.tenant(), key, home, part);
  }
}

/// At the home: hears what has become of a round.
void CheckpointKeeper::OnStored(const RoundToStore& round, const Status& status) {
  TellStored(round, status);
  Communicator* const communicator = FindByKey(round.key);
  if (communicator == nullptr) return;
  Saves& saves = SavesOf(*communicator);
  uint64_t* const outcome = status.ok() ? &saves.complete.stored : &saves.complete.not_stored;
  *outcome |= OlderBy(saves.complete.round - round.round, 1);
  TellHosts(*communicator, saves.key, saves.complete, saves.failure);
}

void CheckpointKeeper::TellStored(const RoundToStore& round, const Status& status) {
  if (!services_.events->MayTellMore(round.tenant)) return;
  JobEvents::News news = NewsOfStore(round, status, UnixSeconds() - round.begun_seconds);
  Job* const job = services_.jobs->FindById(round.job.second, round.job.first);
  if (job != nullptr) {
    services_.events->Tell(*job, std::move(news));
  } else {
    services_.events->TellOfPast(round.tenant, round.job.second.text(), std::move(news));
  }
}

// ---------------------------------------------------------------------------------------------
// Copies at other hosts

void CheckpointKeeper::ReplicateRound(const Communicator& communicator, uint64_t round) {
  const KeptParts::ByBuffer* const parts = parts_.Of(JobTable::KeyOf(*communicator.job()));
  if (services_.cluster == nullptr || parts == nullptr) return;
  for (const auto& [buffer, part] : *parts) {
    if (part.IsOfCompleteRound(communicator.id(), round)) replication_.Add(part.name());
  }
  ReplicateNext();
}

/// Has copies made of the parts whose turn it is. Those that were overwritten meanwhile, or whose
/// communicator is gone, are passed over.
void CheckpointKeeper::ReplicateNext() {
  while (const std::optional<PartName> next = replication_.Next(MonotonicNanoseconds())) {
    const KeptPart* const part = parts_.FindPart(next->job, next->save, next->rank);
    const Communicator* const communicator =
        part == nullptr || part->is_copy ? nullptr
                                         : services_.communicators->FindById(part->communicator);
    const bool has_begun = communicator != nullptr &&
                           others_.Replicate(*communicator, SavesOf(*communicator).key, *part);
    if (!has_begun) replication_.End(*next);
  }
}

/// Returns the communicator whose saves have this key; nullptr if it is not here.
Communicator* CheckpointKeeper::FindByKey(uint64_t key) const {
  Communicator* const spanning = services_.communicators->FindByKey(key);
  if (spanning != nullptr) return spanning;
  for (const auto& [id, saves] : saves_) {
    if (saves.key == key) return services_.communicators->FindById(id);
  }
  return nullptr;
}

/// Hears that another host keeps a copy of a part of this one's, or does not.
void CheckpointKeeper::OnKept(transport::PeerId peer, const PartKeptMessage& kept) {
  Communicator* const communicator = FindByKey(kept.about);
  if (communicator == nullptr) return;
  const PartName name = {.job = JobTable::KeyOf(*communicator->job()),
                         .save = SaveNumber(kept.about, kept.round),
                         .rank = kept.rank};
  if (replication_.End(name)) ReplicateNext();
  if (!kept.status.ok()) {
    return Log(LogLevel::kDebug, kLogInit, "another host keeps no copy of a checkpoint: {}",
               kept.status.message());
  }
  bool is_new = false;
  parts_.VisitAll([&](uint32_t, KeptPart& part) {
    const bool is_it = !part.is_copy && part.communicator == communicator->id() &&
                       part.rank == kept.rank && part.round == kept.round;
    if (is_it) is_new |= std::exchange(part.peer, peer) != peer;
  });
  if (!is_new) return;
  HostGroup* const group = communicator->host_group();
  if (group == nullptr || group->is_home()) return TakeCopy(*communicator, kept.rank, kept.round);
  group->TellHome(PartSavedMessage{
      .about = kept.about, .rank = kept.rank, .round = kept.round, .at_peer = true});
}

/// At the home: notes that a rank's part has a copy.
void CheckpointKeeper::TakeCopy(Communicator& communicator, int rank, uint64_t round) {
  Saves& saves = SavesOf(communicator);
  if (!saves.rounds.has_value() || round != saves.complete.round) return;
  saves.at_peer.insert(rank);
  if (saves.at_peer.size() != static_cast<size_t>(communicator.ranks())) return;
  if (saves.complete.peer_round == round) return;
  saves.complete.peer_round = round;
  LetEarlierGo(communicator, saves);
  TellHosts(communicator, saves.key, saves.complete, saves.failure);
  TellSaved(communicator, saves, true);
}

/// Asks other hosts to go on keeping copies, and to make those that did not come about.
void CheckpointKeeper::RefreshCopies() {
  parts_.VisitAll([&](uint32_t, const KeptPart& part) {
    const auto saves = saves_.find(part.communicator);
    const bool is_newest = !part.is_orphan && saves != saves_.end() &&
                           part.IsOfCompleteRound(part.communicator, saves->second.complete.round);
    if (!is_newest) return;
    if (part.peer != kThisDaemon) {
      others_.Refresh(saves->second.key, part);
    } else if (services_.cluster != nullptr) {
      replication_.Add(part.name());
    }
  });
}

/// A host that kept copies is gone: others are asked.
void CheckpointKeeper::OnPeerLost(transport::PeerId peer) {
  others_.OnPeerLost(peer);
  storage_.OnPeerLost(peer);
  std::set<uint64_t> again;
  parts_.VisitAll([&](uint32_t, KeptPart& part) {
    if (part.peer != peer) return;
    part.peer = kThisDaemon;
    again.insert(part.communicator);
  });
  for (const uint64_t id : again) {
    const Communicator* const communicator = services_.communicators->FindById(id);
    const auto saves = saves_.find(id);
    const bool is_well = communicator != nullptr && saves != saves_.end() &&
                         communicator->state() == Communicator::State::kReady;
    if (is_well) ReplicateRound(*communicator, saves->second.complete.round);
  }
}

// ---------------------------------------------------------------------------------------------
// What the cluster says

void CheckpointKeeper::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* part = message.As<PartSavedMessage>()) OnPartSaved(peer, *part);
  others_.OnMessage(peer, message);
  if (!parts_.empty() || !others_.empty()) Watch();
  if (const auto* stored = message.As<PartStoredMessage>()) storage_.OnStored(peer, *stored);
  if (const auto* choice = message.As<ChoiceMessage>()) choices_.OnMessage(peer, *choice);
  if (const auto* round = message.As<RoundCompleteMessage>()) OnRoundComplete(peer, *round);
}

void CheckpointKeeper::OnPartSaved(transport::PeerId peer, const PartSavedMessage& message) {
  Communicator* const communicator = services_.communicators->FindByKey(message.about);
  HostGroup* const group = communicator == nullptr ? nullptr : communicator->host_group();
  const bool may_tell = group != nullptr && group->is_home() &&
                        message.rank < communicator->ranks() &&
                        group->MaySpeakFor(message.rank, peer);
  if (!may_tell) return;
  if (message.at_peer) return TakeCopy(*communicator, message.rank, message.round);
  TakePart(*communicator,
           {.rank = message.rank,
            .round = message.round,
            .step = message.step,
            .bytes = message.bytes,
            .stall_seconds = message.stall_seconds},
           peer, message.to_store);
}

void CheckpointKeeper::OnRoundComplete(transport::PeerId peer,
                                       const RoundCompleteMessage& message) {
  const Communicator* const communicator = services_.communicators->FindByKey(message.about);
  const HostGroup* const group = communicator == nullptr ? nullptr : communicator->host_group();
  if (group == nullptr || group->roster().home != peer) return;
  Complete(*communicator,
           {.round = message.round,
            .step = message.step,
            .peer_round = message.peer_round,
            .stored = message.stored,
            .not_stored = message.not_stored},
           message.status);
}

// ---------------------------------------------------------------------------------------------
// Ends

void CheckpointKeeper::OnEnded(const Communicator& communicator) {
  saves_.erase(communicator.id());
  choices_.OnEnded(communicator);
}

void CheckpointKeeper::Watch() {
  if (next_look_.running()) return;
  const Status started = next_look_.Start(kLookEvery, [this] { LookAfterParts(); });
  if (!started.ok())
    Log(LogLevel::kWarning, kLogInit, "checkpoints in memory are not looked after: {}",
        started.message());
}

void CheckpointKeeper::LookAfterParts() {
  parts_.LookAfter({.now_seconds = UnixSeconds(),
                    .keep_seconds = services_.keep_seconds,
                    .has_rank =
                        [this](const KeptPart& part) {
                          const Communicator* const communicator =
                              services_.communicators->FindById(part.communicator);
                          return communicator != nullptr &&
                                 communicator->member(part.rank) != nullptr &&
                                 services_.sessions->FindSession(part.session) != nullptr;
                        },
                    .has_job =
                        [this](const JobTable::Key& key) {
                          const Job* const job = services_.jobs->FindById(key.second, key.first);
                          return job != nullptr && job->is_here();
                        }});
  for (const auto& [id, saves] : saves_) {
    const Communicator* const communicator = services_.communicators->FindById(id);
    if (communicator != nullptr) LetEarlierGo(*communicator, saves);
  }
  const uint64_t now_ns = MonotonicNanoseconds();
  others_.LookAfter(now_ns);
  storage_.LookAfter(now_ns);
  if (now_ns > refreshed_ns_ + kRefreshEveryNs) {
    refreshed_ns_ = now_ns;
    RefreshCopies();
  }
  ReplicateNext();
  if (parts_.empty() && others_.empty() && storage_.empty()) next_look_.Stop();
}

}  // namespace harmonaize::daemon
