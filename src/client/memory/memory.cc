#include "src/client/memory/memory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "src/base/log.h"
#include "src/client/memory/region_pages.h"

namespace harmonaize {
namespace {

/// Pauses between two requests that ask whether operations on memory which is being freed have
/// ended. They grow from the time of an operation of some MiB to one that a caller barely notices.
constexpr std::chrono::microseconds kShortestPause(200);
constexpr std::chrono::microseconds kLongestPause(20'000);

/// Logs once a process that memory of an earlier session cannot be announced any more.
void TellOfOldMemory(const Mapping& mapping) {
  static std::atomic<bool> told{false};
  if (told.exchange(true, std::memory_order_relaxed)) return;
  Log(LogLevel::kInfo, kLogAllocation,
      "the {} bytes at {} were registered with a daemon by another session (before a fork, or with "
      "a daemon that is gone), which can be done once: from now on they are copied, as heap is. "
      "Memory that is allocated anew is not",
      mapping.size(), static_cast<void*>(mapping.data()));
}

}  // namespace

RegionTable& RegionTable::Get() {
  // Never destroyed: memory may be freed by destructors that run after ours would.
  static RegionTable* const table = new RegionTable();
  return *table;
}

Result<void*> RegionTable::Allocate(size_t bytes) {
  HZ_ASSIGN_OR_RETURN(RegionPages pages,
                      AllocateRegionPages(bytes == 0 ? 1 : bytes, WantedHugePages()));
  auto region = std::make_shared<Region>(std::move(pages.memory.mapping));
  region->descriptor = OwnDescriptor(std::move(pages.memory.descriptor));
  HZ_RETURN_IF_ERROR(region->populated.Populate(0, region->mapping.size()));
  void* address = region->mapping.data();
  Log(LogLevel::kInfo, kLogAllocation, "{} bytes of shared memory at {}: {}",
      region->mapping.size(), address, pages.description);
  const std::unique_lock lock(mutex_);
  regions_[reinterpret_cast<uintptr_t>(address)] = std::move(region);
  generation_.fetch_add(1, std::memory_order_release);
  return address;
}

Status RegionTable::Free(void* address) {
  std::shared_ptr<Region> region;
  {
    const std::unique_lock lock(mutex_);
    const auto found = regions_.find(reinterpret_cast<uintptr_t>(address));
    if (found == regions_.end()) {
      return InvalidArgument("{} was not returned by ncclMemAlloc, or was freed already", address);
    }
    region = std::move(found->second);
    regions_.erase(found);
    generation_.fetch_add(1, std::memory_order_release);
  }
  const std::shared_ptr<Session> session = Session::Current();
  if (session == nullptr || region->known_to.load() != session->number() || session->lost()) {
    return Status::Ok();
  }
  // Ranks that have it mapped unmap it with their next operation: see InlineSlot::gone.
  return Withdraw(*session, region->id.load());
}

// Asks repeatedly. An answer that waited for an operation would block the socket for requests that
// could end this operation, such as an abort.
Status RegionTable::Withdraw(Session& session, uint32_t region) {
  UnregisterRegionRequest request;
  request.region = region;
  auto pause = kShortestPause;
  for (bool asked = false;; asked = true) {
    const Result<UnregisterRegionReply> reply = session.Call<UnregisterRegionReply>(request);
    if (reply.ok() && reply->gone != 0) return Status::Ok();
    if (!reply.ok()) {
      const bool gone_since = asked && reply.status().code() == Code::kInvalidArgument;
      const bool daemon_is_gone = reply.status().code() == Code::kRemoteError;
      return gone_since || daemon_is_gone ? Status::Ok() : reply.status();
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

std::shared_ptr<RegionTable::Region> RegionTable::Find(uintptr_t address, uint64_t bytes) {
  const std::shared_lock lock(mutex_);
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  const auto& [first, region] = *std::prev(after);
  const uint64_t size = region->mapping.size();
  const uint64_t offset = address - first;
  if (offset > size || bytes > size - offset) return nullptr;
  return region;
}

bool RegionTable::Contains(const void* address, uint64_t bytes) {
  return Find(reinterpret_cast<uintptr_t>(address), bytes) != nullptr;
}

Result<BufferReference> RegionTable::LocateIn(Region* region, Session& session, const void* address,
                                              uint64_t bytes) {
  BufferReference reference;
  if (region == nullptr) return reference;
  const uint64_t offset =
      reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(region->mapping.data());
  HZ_RETURN_IF_ERROR(region->populated.Populate(offset, bytes));
  if (region->known_to.load(std::memory_order_acquire) != session.number()) {
    HZ_RETURN_IF_ERROR(Announce(session, *region));
    if (region->known_to.load(std::memory_order_relaxed) != session.number()) return reference;
  }
  reference.region = region->id.load(std::memory_order_relaxed);
  reference.offset = offset;
  return reference;
}

Result<BufferReference> RegionTable::Locate(Session& session, const void* address, uint64_t bytes) {
  return LocateIn(Find(reinterpret_cast<uintptr_t>(address), bytes).get(), session, address, bytes);
}

Result<BufferReference> RegionTable::LocateShareable(Session& session, const void* address,
                                                     uint64_t bytes) {
  const std::shared_ptr<Region> region = Find(reinterpret_cast<uintptr_t>(address), bytes);
  Result<BufferReference> reference = LocateIn(region.get(), session, address, bytes);
  // Whether a region is shareable is known only once it has been announced.
  if (reference.ok() && region != nullptr && !region->shareable.load(std::memory_order_relaxed)) {
    reference->region = kNoBuffer;
  }
  return reference;
}

Status RegionTable::Announce(Session& session, Region& region) {
  const std::lock_guard lock(region.announcing);
  if (region.known_to.load(std::memory_order_acquire) == session.number()) return Status::Ok();
  if (!region.descriptor.Intact()) return Status::Ok();
  if (IsSealedAgainstWriters(region.descriptor.get())) {
    TellOfOldMemory(region.mapping);
    return Status::Ok();
  }
  RegisterRegionRequest request;
  request.bytes = region.mapping.size();
  const int descriptors[] = {region.descriptor.get()};
  HZ_ASSIGN_OR_RETURN(const RegisterRegionReply reply,
                      session.Call<RegisterRegionReply>(request, {}, descriptors));
  region.id.store(reply.region, std::memory_order_relaxed);
  region.shareable.store(reply.shareable != 0, std::memory_order_relaxed);
  region.known_to.store(session.number(), std::memory_order_release);
  Log(LogLevel::kInfo, kLogAllocation, "registered {} bytes at {} as region {}", request.bytes,
      static_cast<void*>(region.mapping.data()), reply.region);
  return Status::Ok();
}

}  // namespace harmonaize
