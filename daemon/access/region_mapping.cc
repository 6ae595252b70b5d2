#include "daemon/access/region_mapping.h"

#include <sys/mman.h>

#include <utility>

#include "src/ipc/profile_ring.h"
#include "src/ipc/tuning_segment.h"
#include "src/memory/memory_node.h"
#include "src/memory/missing_pages.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {
namespace {

/// Returns the node on which the memory lies, by those of five of its pages that are there; -1 if
/// there are several nodes, and on hosts with one.
int NodeOf(const Mapping& mapping) {
  static const bool kSeveralNodes = MemoryNodeCount() > 1;
  if (!kSeveralNodes) return -1;
  int node = -1;
  for (const size_t quarter : {0, 1, 2, 3, 4}) {
    const int of_page = NodeOfPage(mapping.data() + (mapping.size() - 1) / 4 * quarter);
    if (of_page < 0 || of_page == node) continue;
    if (node >= 0) return -1;
    node = of_page;
  }
  return node;
}

/// Maps memory of a fixed size, whose words the daemon reads, or writes for the process.
Result<std::unique_ptr<RegionMemory>> MapWords(Account& account, ControlMessage& message,
                                               const char* what, size_t bytes) {
  if (message.descriptors.size() != 1) return InvalidArgument("{} comes with one descriptor", what);
  auto memory = std::make_unique<RegionMemory>();
  HZ_ASSIGN_OR_RETURN(memory->place, account.Take(Resource::kRegions, 1));
  HZ_ASSIGN_OR_RETURN(memory->bytes,
                      account.Take(Resource::kRegisteredBytes, static_cast<int64_t>(bytes)));
  HZ_ASSIGN_OR_RETURN(memory->mapping, MapAndSeal(message.descriptors.front().get(), bytes));
  memory->guard = FaultGuard(memory->mapping.data(), memory->mapping.size());
  HZ_RETURN_IF_ERROR(MissingPages::Refuse(memory->mapping.data(), memory->mapping.size()));
  MissingPages::BringIn(memory->mapping.data(), memory->mapping.size());
  return memory;
}

}  // namespace

Result<std::unique_ptr<RegionMemory>> MapRegion(Account& account, const MessageHeader& header,
                                                ControlMessage& message) {
  HZ_ASSIGN_OR_RETURN(const auto request, DecodeBody<RegisterRegionRequest>(header, message.bytes));
  if (message.descriptors.size() != 1) {
    return InvalidArgument("a region comes with one descriptor");
  }
  if (request.bytes > INT64_MAX) {
    return InvalidArgument("a region of {} bytes", request.bytes);
  }
  auto memory = std::make_unique<RegionMemory>();
  HZ_ASSIGN_OR_RETURN(Holding place, account.Take(Resource::kRegions, 1));
  HZ_ASSIGN_OR_RETURN(
      Holding bytes, account.Take(Resource::kRegisteredBytes, static_cast<int64_t>(request.bytes)));
  HZ_ASSIGN_OR_RETURN(Mapping mapping, MapAndSeal(message.descriptors.front().get(), request.bytes,
                                                  HugePageFiles::kAccept));
  madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
  memory->place = std::move(place);
  memory->bytes = std::move(bytes);
  memory->mapping = std::move(mapping);
  memory->guard = FaultGuard(memory->mapping.data(), memory->mapping.size());
  HZ_RETURN_IF_ERROR(MissingPages::Refuse(memory->mapping.data(), memory->mapping.size()));
  // The first operation need not wait for them. The tenant waits here, on its own thread.
  MissingPages::BringIn(memory->mapping.data(), memory->mapping.size());
  memory->node = NodeOf(memory->mapping);
  Result<Holding> descriptor = account.Take(Resource::kRegionDescriptors, 1);
  if (descriptor.ok()) {
    memory->descriptor_place = std::move(*descriptor);
    memory->descriptor = std::move(message.descriptors.front());
  }
  return memory;
}

Result<std::unique_ptr<RegionMemory>> TakeBuffer(Account& account, const MessageHeader& header,
                                                 ControlMessage& message) {
  HZ_ASSIGN_OR_RETURN(const auto request, DecodeBody<LendBufferRequest>(header, message.bytes));
  if (message.descriptors.size() != 1) {
    return InvalidArgument("memory for checkpoints comes with one descriptor");
  }
  if (request.bytes > INT64_MAX) {
    return InvalidArgument("memory for checkpoints of {} bytes", request.bytes);
  }
  auto memory = std::make_unique<RegionMemory>();
  HZ_ASSIGN_OR_RETURN(memory->place, account.Take(Resource::kRegions, 1));
  HZ_ASSIGN_OR_RETURN(
      memory->bytes, account.Take(Resource::kCheckpointBytes, static_cast<int64_t>(request.bytes)));
  HZ_ASSIGN_OR_RETURN(memory->descriptor_place, account.Take(Resource::kRegionDescriptors, 1));
  // It is mapped for the checks that come with it, and for a moment only.
  HZ_RETURN_IF_ERROR(
      MapAndSeal(message.descriptors.front().get(), request.bytes, HugePageFiles::kAccept)
          .status());
  memory->descriptor = std::move(message.descriptors.front());
  return memory;
}

Result<std::unique_ptr<RegionMemory>> MapProfileRing(Account& account, const MessageHeader& header,
                                                     ControlMessage& message) {
  HZ_RETURN_IF_ERROR(DecodeBody<OpenProfileRequest>(header, message.bytes).status());
  return MapWords(account, message, "a ring for profiler events", sizeof(ProfileRing));
}

Result<std::unique_ptr<RegionMemory>> MapTuningPosition(Account& account,
                                                        const MessageHeader& header,
                                                        ControlMessage& message) {
  HZ_RETURN_IF_ERROR(DecodeBody<OpenTuningRequest>(header, message.bytes).status());
  return MapWords(account, message, "a tuner's position", kTuningPositionBytes);
}

}  // namespace harmonaize::daemon
