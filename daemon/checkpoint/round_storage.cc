#include "daemon/checkpoint/round_storage.h"

#include <chrono>

#include "daemon/checkpoint/stored_parts.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Time, in nanoseconds, in which a part is stored or given up. Its rank waits for that with the
/// save after the next, so a file system that hangs must not stop a job for good.
constexpr uint64_t kPartPatienceNs = 600'000'000'000;
/// The same for all parts of a round.
constexpr uint64_t kRoundPatienceNs = 660'000'000'000;
/// Time, in nanoseconds, for which the home looks for what other hosts have stored: other hosts of
/// a network file system see a new file some seconds later.
constexpr uint64_t kLookForNs = 60'000'000'000;
/// Most rounds of a tenant that are followed at a home. More than a round a second for the whole of
/// kRoundPatienceNs only comes about where some ranks do not save into the store.
constexpr uint32_t kMostRoundsFollowed = 1024;
/// Interval at which the store is tidied up, whether anybody saves or not.
constexpr std::chrono::hours kTidyEvery{1};
/// In whose turn that is.
constexpr uint32_t kNoTenant = UINT32_MAX;

/// Returns what asks whether the storing of a part is to go on.
std::function<Status()> StorageGoesOn(const std::atomic<bool>& is_ending,
                                      std::shared_ptr<const std::atomic<bool>> is_void,
                                      uint64_t until_ns) {
  return [&is_ending, is_void = std::move(is_void), until_ns]() -> Status {
    if (is_ending) return RemoteError("the daemon ends");
    if (is_void->load(std::memory_order_seq_cst)) {
      return InvalidUsage("the part was overwritten while it was stored");
    }
    if (MonotonicNanoseconds() > until_ns) return SystemError("the store is too slow");
    return Status::Ok();
  };
}

}  // namespace

RoundStorage::RoundStorage(Services services)
    : services_(std::move(services)),
      threads_(StoreThreads::Kind::kWrite, services_.loop),
      next_tidying_(services_.loop) {
  if (services_.store == nullptr) return;
  // It may be a network's folder, which the start does not wait for.
  TidyUp();
  const Status started = next_tidying_.Start(kTidyEvery, [this] { TidyUp(); });
  if (started.ok()) return;
  Log(LogLevel::kWarning, kLogInit, "the store of checkpoints is not tidied up: {}",
      started.message());
}

// ---------------------------------------------------------------------------------------------
// At each host

void RoundStorage::Store(const Tenant& tenant, uint64_t key, transport::PeerId home,
                         const KeptPart& part) {
  const PartName name = part.name();
  PartStoredMessage stored = {.about = key, .round = part.round, .rank = part.rank};
  const auto tell = [this, home, name](PartStoredMessage message, const Status& status) {
    storing_.erase(name);
    message.status = status;
    if (home == kThisDaemon) return OnStored(kThisDaemon, message);
    services_.cluster->Send(home, message);
  };
  const Result<StoredJob> job = StoredParts::NameOf(tenant, part.job);
  if (services_.store == nullptr) return tell(stored, InvalidUsage("a host has no store"));
  if (!job.ok()) return tell(stored, job.status());
  storing_.insert(name);
  auto work = [store = services_.store, job = *job, memory = part.memory, is_void = part.is_void,
               until_ns = MonotonicNanoseconds() + kPartPatienceNs,
               what = PartToStore{.id = {.step = part.step, .save = part.save},
                                  .rank = part.rank,
                                  .ranks = part.ranks,
                                  .is_kept = part.is_kept,
                                  .saved_seconds = part.saved_seconds,
                                  .bytes = part.bytes,
                                  .descriptor = part.memory->descriptor()}](
                  const std::atomic<bool>& is_ending) {
    return store->Write(job, what, StorageGoesOn(is_ending, is_void, until_ns));
  };
  auto then = lifetime_.Guard([tell, stored](const Status& status) { tell(stored, status); });
  const Status asked = threads_.Run(part.job.first, std::move(work), std::move(then));
  if (!asked.ok()) tell(stored, asked);
}

// ---------------------------------------------------------------------------------------------
// At the home

void RoundStorage::Follow(RoundToStore round) {
  const RoundName name = {round.key, round.round};
  if (followed_of_[round.job.first] >= kMostRoundsFollowed) {
    // The caller is still about to note that the round is complete.
    return services_.loop->Post(lifetime_.Guard([this, refused = std::move(round)] {
      services_.on_settled(refused, InvalidUsage("{} other checkpoints of this user wait for ranks "
                                                 "that do not store their parts",
                                                 kMostRoundsFollowed));
    }));
  }
  ++followed_of_[round.job.first];
  rounds_[name] = {.round = std::move(round),
                   .until_ns = MonotonicNanoseconds() + kRoundPatienceNs};
}

void RoundStorage::OnStored(transport::PeerId peer, const PartStoredMessage& stored) {
  const RoundName name = {stored.about, stored.round};
  const auto found = rounds_.find(name);
  if (found == rounds_.end()) return;
  Followed& followed = found->second;
  const auto rank = static_cast<size_t>(stored.rank);
  if (rank >= followed.round.of_rank.size() || followed.round.of_rank[rank] != peer) return;
  if (!stored.status.ok()) return Settle(name, stored.status);
  followed.stored.insert(stored.rank);
  if (followed.stored.size() == followed.round.of_rank.size()) Commit(name);
}

void RoundStorage::Commit(const RoundName& name) {
  Followed& followed = rounds_.at(name);
  if (followed.is_committing) return;
  followed.is_committing = true;
  if (followed.commit_until_ns == 0) {
    followed.commit_until_ns = MonotonicNanoseconds() + kLookForNs;
  }
  const RoundToStore& round = followed.round;
  const Status asked = threads_.Run(
      round.job.first,
      [store = services_.store,
       job = StoredJob{.user = round.tenant.across_hosts, .job = round.job.second}, id = round.id,
       ranks = static_cast<int32_t>(round.of_rank.size())](const std::atomic<bool>&) {
        return store->Commit(job, id, ranks);
      },
      lifetime_.Guard(
          [this, name](const Result<bool>& is_committed) { OnLooked(name, is_committed); }));
  if (!asked.ok()) Settle(name, asked);
}

void RoundStorage::OnLooked(const RoundName& name, const Result<bool>& is_committed) {
  const auto found = rounds_.find(name);
  if (found == rounds_.end()) return;
  found->second.is_committing = false;
  if (!is_committed.ok()) return Settle(name, is_committed.status());
  if (*is_committed) return Settle(name, Status::Ok());
  if (MonotonicNanoseconds() < found->second.commit_until_ns) return;  // LookAfter asks again.
  Settle(name, InvalidUsage("the home does not see what other hosts have stored: the provider's "
                            "store has to be one folder that all hosts of a job share"));
}

void RoundStorage::Settle(const RoundName& name, const Status& status) {
  const auto found = rounds_.find(name);
  const RoundToStore round = std::move(found->second.round);
  rounds_.erase(found);
  const auto followed = followed_of_.find(round.job.first);
  if (--followed->second == 0) followed_of_.erase(followed);
  // Lines that a tenant's saves cause are its own.
  const LogFor log_for(round.tenant);
  if (!status.ok() && services_.store != nullptr) {
    Log(LogLevel::kWarning, kLogInit, "step {} of {} is not in the provider's store: {}",
        round.id.step, round.tenant.name, status.message());
    const StoredJob job = {.user = round.tenant.across_hosts, .job = round.job.second};
    // What is not removed now goes when it is too old.
    [[maybe_unused]] const Status asked = threads_.Run(
        round.job.first,
        [store = services_.store, job, id = round.id](const std::atomic<bool>&) {
          store->GiveUp(job, id);
          return Status::Ok();
        },
        [](const Status&) {});
  }
  services_.on_settled(round, status);
}

void RoundStorage::OnPeerLost(transport::PeerId peer) {
  std::vector<RoundName> lost;
  for (const auto& [name, followed] : rounds_) {
    for (size_t rank = 0; rank < followed.round.of_rank.size(); ++rank) {
      const bool is_its = followed.round.of_rank[rank] == peer;
      if (!is_its || followed.stored.contains(static_cast<int>(rank))) continue;
      lost.push_back(name);
      break;
    }
  }
  for (const RoundName& name : lost) Settle(name, RemoteError("a host was lost"));
}

void RoundStorage::LookAfter(uint64_t now_ns) {
  std::vector<RoundName> overdue;
  std::vector<RoundName> whole;
  for (const auto& [name, followed] : rounds_) {
    if (followed.commit_until_ns != 0) {
      whole.push_back(name);
    } else if (followed.until_ns < now_ns) {
      overdue.push_back(name);
    }
  }
  for (const RoundName& name : whole) Commit(name);
  for (const RoundName& name : overdue) {
    Settle(name, InvalidUsage("not all ranks have stored their parts: all of them have to save "
                              "into the provider's store"));
  }
}

void RoundStorage::TidyUp() {
  [[maybe_unused]] const Status asked = threads_.Run(
      kNoTenant, [store = services_.store](const std::atomic<bool>&) { return store->TidyUp(); },
      [](const Result<uint32_t>& removed) {
        if (!removed.ok()) {
          Log(LogLevel::kError, kLogInit, "the store of checkpoints ([checkpoint] store): {}",
              removed.status().message());
        } else if (*removed > 0) {
          Log(LogLevel::kInfo, kLogInit, "the checkpoints of {} jobs in the store were too old",
              *removed);
        }
      });
}

}  // namespace harmonaize::daemon
