#include "daemon/checkpoint/stored_parts.h"

#include <span>

#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/time_text.h"

namespace harmonaize::daemon {
namespace {

/// Time, in nanoseconds, for which it is remembered what is stored of a job: a restart reads it at
/// once.
constexpr uint64_t kRememberStoredNs = 600'000'000'000;
/// Most saves of a job that are told of, the newest: a document is for one answer.
constexpr size_t kMostSavesListed = 1000;

StoredSave SaveOf(const checkpoint::CheckpointSummary& summary) {
  return {.id = summary.id,
          .ranks = summary.ranks,
          .is_kept = summary.is_kept,
          .saved_seconds = static_cast<double>(UnixNanosecondsOf(summary.time).value_or(0)) / 1e9,
          .bytes = summary.bytes};
}

}  // namespace

/// Reads one rank's part.
class StoredParts::Source final : public PartSource {
 public:
  Source(StoreThreads* threads, uint32_t tenant, std::shared_ptr<Slot> slot, int32_t rank)
      : threads_(threads), tenant_(tenant), slot_(std::move(slot)), rank_(rank) {}

  Status Read(uint64_t at, std::span<std::byte> into, Done done) override {
    return threads_->Run(
        tenant_,
        [slot = slot_, rank = rank_, at, into](const std::atomic<bool>&) {
          return slot->images->Read(rank, at, into);
        },
        std::move(done));
  }

 private:
  StoreThreads* const threads_;  // of the StoredParts, which asks for nothing after its end
  const uint32_t tenant_;
  const std::shared_ptr<Slot> slot_;
  const int32_t rank_;
};

StoredParts::StoredParts(const Services& services)
    : services_(services),
      threads_(StoreThreads::Kind::kRead, services.loop),
      fetched_({.loop = services.loop, .eraser = services.eraser}),
      next_look_(services.loop) {}

Result<StoredJob> StoredParts::NameOf(const Tenant& tenant, const JobTable::Key& job) {
  const TenantIdentity& identity = tenant.identity;
  if (identity.number != identity.across_hosts) {
    return InvalidUsage(
        "{} is known on this host alone, and the provider's store to all hosts: save as a user, or "
        "into a folder",
        identity.name);
  }
  return StoredJob{.user = identity.across_hosts, .job = job.second};
}

void StoredParts::List(const Tenant& tenant, const JobTable::Key& job, Listed listed) {
  const Result<StoredJob> name = NameOf(tenant, job);
  if (!has_store() || !name.ok()) return listed({});
  auto then = lifetime_.Guard([this, job, name = *name, listed, identity = tenant.identity](
                                  const Result<std::vector<checkpoint::CheckpointSummary>>& found) {
    if (!found.ok()) {
      // Lines that a tenant's questions cause are its own.
      const LogFor log_for(identity);
      Log(LogLevel::kWarning, kLogInit, "the provider's store cannot be read: {}",
          found.status().message());
      return listed({.state = StoredList::State::kUnreadable});
    }
    Watch();
    Known& known = known_[job];
    known.job = name;
    known.used_ns = MonotonicNanoseconds();
    known.saves.clear();
    StoredList list = {.state = StoredList::State::kRead};
    for (const checkpoint::CheckpointSummary& one : *found) {
      if (list.saves.size() == kMostSavesListed) break;
      known.saves[one.id.save] = one.id;
      list.saves.push_back(SaveOf(one));
    }
    if (list.saves.empty()) known_.erase(job);
    listed(std::move(list));
  });
  const Status asked = threads_.Run(
      job.first,
      [store = services_.store, name = *name](const std::atomic<bool>&) {
        return store->List(name);
      },
      std::move(then));
  if (!asked.ok()) listed({.state = StoredList::State::kUnreadable});
}

void StoredParts::Fetch(const Tenant& tenant, const PartName& name, uint64_t at, uint64_t bytes,
                        Fetched fetched) {
  if (fetched_.Contains(name)) {
    return fetched_.Fetch(name, at, bytes, MonotonicNanoseconds(), std::move(fetched));
  }
  const auto known = known_.find(name.job);
  const bool is_known = known != known_.end() && known->second.saves.contains(name.save);
  if (!is_known) {
    return fetched(Status(Code::kUnavailable, "this part is not known to be stored anywhere"));
  }
  known->second.used_ns = MonotonicNanoseconds();
  std::shared_ptr<Slot>& slot = known->second.open[name.save];
  if (slot == nullptr) slot = std::make_shared<Slot>();
  auto open = [store = services_.store, job = known->second.job,
               id = known->second.saves[name.save], slot,
               rank = name.rank](const std::atomic<bool>&) -> Result<uint64_t> {
    if (slot->images == nullptr) {
      HZ_ASSIGN_OR_RETURN(slot->images, store->Open(job, id));
    }
    return slot->images->BytesOf(rank);
  };
  auto then = lifetime_.Guard([this, name, slot, account = tenant.account, at, bytes,
                               fetched](const Result<uint64_t>& part_bytes) {
    if (!part_bytes.ok()) return fetched(part_bytes.status());
    const Status begun =
        fetched_.Begin(name, std::make_shared<Source>(&threads_, name.job.first, slot, name.rank),
                       *part_bytes, *account, MonotonicNanoseconds());
    if (!begun.ok()) return fetched(begun);
    fetched_.Fetch(name, at, bytes, MonotonicNanoseconds(), fetched);
  });
  const Status asked = threads_.Run(name.job.first, std::move(open), std::move(then));
  if (!asked.ok()) fetched(asked);
}

/// Ranks may read from the store where nobody saves, so that nobody else looks after anything.
void StoredParts::Watch() {
  if (next_look_.running()) return;
  const Status started = next_look_.Start(kLookEvery, [this] { LookAfter(); });
  if (started.ok()) return;
  Log(LogLevel::kWarning, kLogInit, "copies of stored checkpoints are not looked after: {}",
      started.message());
}

void StoredParts::LookAfter() {
  const uint64_t now_ns = MonotonicNanoseconds();
  fetched_.DropUnused(now_ns);
  for (auto known = known_.begin(); known != known_.end();) {
    // What only this object holds is not being read.
    std::erase_if(known->second.open,
                  [](const auto& entry) { return entry.second.use_count() == 1; });
    const bool is_over =
        known->second.open.empty() && known->second.used_ns + kRememberStoredNs < now_ns;
    known = is_over ? known_.erase(known) : std::next(known);
  }
  if (fetched_.empty() && known_.empty()) next_look_.Stop();
}

}  // namespace harmonaize::daemon
