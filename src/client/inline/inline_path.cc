#include "src/client/inline/inline_path.h"

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <random>
#include <string_view>

#include "src/base/asymmetric_fence.h"
#include "src/base/futex.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/settings.h"
#include "src/client/memory/device_memory.h"
#include "src/client/memory/memory.h"
#include "src/client/operation/operation.h"

namespace harmonaize {
namespace {

/// The segments that this process has mapped, by session and communicator. Leaked on purpose: see
/// RegionTable::Get.
struct MappedSegments {
  std::mutex mutex;
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<Mapping>> mappings;
};

MappedSegments& Segments() {
  static auto* const segments = new MappedSegments();
  return *segments;
}

}  // namespace

/// Whether this process follows the daemon's steering, from HARMONAIZE_INLINE.
enum class InlinePath::Inclination {
  kSteered,  ///< Follows the daemon's steering.
  kNever,    ///< "0": sends everything to the daemon.
  kRandom,   ///< "random": goes either way, as if the daemon changed its mind all the time.
};

InlinePath::Inclination InlinePath::ReadInclination() {
  const char* const value = Setting("HARMONAIZE_INLINE");
  const std::string_view text = value == nullptr ? "" : value;
  if (text == "0") return Inclination::kNever;
  if (text == "random") return Inclination::kRandom;
  if (!text.empty() && text != "1") {
    Log(LogLevel::kWarning, kLogEnvironment,
        "HARMONAIZE_INLINE is '{}', which is none of 0, 1 and random: taken for 1", text);
  }
  return Inclination::kSteered;
}

namespace {

bool TossCoin() {
  thread_local std::minstd_rand random(static_cast<uint32_t>(RandomNumber()));
  return random() % 2 == 0;
}

Result<std::shared_ptr<Mapping>> MapSegment(uint64_t session, const AttachInlineReply& reply,
                                            int descriptor) {
  MappedSegments& segments = Segments();
  const std::lock_guard lock(segments.mutex);
  std::erase_if(segments.mappings, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Mapping>& known = segments.mappings[{session, reply.communicator}];
  if (std::shared_ptr<Mapping> mapping = known.lock()) return mapping;
  HZ_ASSIGN_OR_RETURN(Mapping mapped, MapForeign(descriptor, reply.bytes, HugePageFiles::kRefuse,
                                                 Access::kReadAndWrite));
  auto mapping = std::make_shared<Mapping>(std::move(mapped));
  // A forked child makes its own communicators.
  madvise(mapping->data(), mapping->size(), MADV_DONTFORK);
  known = mapping;
  return mapping;
}

}  // namespace

Result<std::unique_ptr<InlinePath>> InlinePath::Attach(Session& session, uint32_t member, int rank,
                                                       int ranks) {
  AttachInlineRequest request;
  request.member = member;
  std::vector<FileDescriptor> descriptors;
  HZ_ASSIGN_OR_RETURN(const AttachInlineReply reply,
                      session.Call<AttachInlineReply>(request, {}, {}, &descriptors));
  if (reply.bytes == 0) return std::unique_ptr<InlinePath>();
  if (descriptors.size() != 1 || reply.bytes < InlineLayout(ranks).bytes()) {
    return InternalError("the daemon answered with a wrong segment for the inline path");
  }
  JoinAsymmetricFences();
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<Mapping> mapping,
                      MapSegment(session.number(), reply, descriptors.front().get()));
  return std::unique_ptr<InlinePath>(new InlinePath(
      std::move(mapping), session.member_slot(member).inline_path, member, rank, ranks));
}

InlinePath::InlinePath(std::shared_ptr<Mapping> mapping, InlineSlot& slot, uint32_t member,
                       int rank, int ranks)
    : mapping_(std::move(mapping)),
      base_(mapping_->data()),
      slot_(slot),
      layout_(ranks),
      rank_(rank),
      ranks_(ranks),
      inclination_(ReadInclination()),
      locator_(member),
      sends_(static_cast<size_t>(ranks)),
      receives_(static_cast<size_t>(ranks)) {}

bool InlinePath::Admits(const Operation& operation) {
  // Acquire: the regions that the count covers are visible.
  const uint32_t gone = slot_.gone.load(std::memory_order_acquire);
  if (gone != gone_seen_) ForgetGoneRegions(gone);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(operation.count, DataTypeSize(operation.type), &bytes) ||
      !SteeredInline(operation, bytes)) {
    return false;
  }
  if (IsDeviceMemory(operation.send) || IsDeviceMemory(operation.receive)) return false;
  return BuffersExist(operation, bytes);
}

void InlinePath::ForgetGoneRegions(uint32_t gone) {
  for (uint32_t i = 0; i < gone - gone_seen_ && i < kGoneRegions; ++i) {
    const uint32_t number = gone_seen_ + i;
    // Acquire: if the daemon has written a later number there, its count is seen below.
    peer_memory_.Forget(slot_.gone_regions[number % kGoneRegions].load(std::memory_order_acquire));
  }
  if (slot_.gone.load(std::memory_order_relaxed) - gone_seen_ >= kGoneRegions) {
    peer_memory_.ForgetAll();
  }
  gone_seen_ = gone;
}

// Relaxed throughout: the words read here only express this rank's wish.
bool InlinePath::SteeredInline(const Operation& operation, uint64_t bytes) const {
  if (inclination_ != Inclination::kSteered &&
      (inclination_ == Inclination::kNever || TossCoin())) {
    return false;
  }
  if (slot_.open.load(std::memory_order_relaxed) == 0) return false;
  if (operation.stream != nullptr && bytes > slot_.stream.load(std::memory_order_relaxed)) {
    return false;
  }
  const auto collective = static_cast<size_t>(operation.collective);
  const uint64_t registered = slot_.registered[collective].load(std::memory_order_relaxed);
  const uint64_t heap = slot_.heap[collective].load(std::memory_order_relaxed);
  if (bytes <= std::min(registered, heap)) return true;
  if (bytes > std::max(registered, heap)) return false;
  const auto in_region = [](const void* buffer) {
    return buffer == nullptr || RegionTable::Get().Contains(buffer, 1);
  };
  const bool all_registered = in_region(operation.send) && in_region(operation.receive);
  return bytes <= (all_registered ? registered : heap);
}

// A rank whose buffer does not exist declines, and the daemon tells all ranks whose it is.
bool InlinePath::BuffersExist(const Operation& operation, uint64_t block_bytes) {
  const BufferBlocks blocks = BlocksOf(operation.collective, ranks_, rank_, operation.root);
  // The face has refused sizes that would overflow.
  return probe_.Readable(operation.send, blocks.send * block_bytes) &&
         probe_.Writable(operation.receive, blocks.receive * block_bytes);
}

std::byte* InlinePath::PairSlot(int sender, int receiver, uint64_t slot) const {
  return base_ +
         layout_.PairSlotOffset(sender, receiver, static_cast<int>(slot % kInlinePairSlots));
}

void InlinePath::WakeSleepers() {
  header().events.fetch_add(1, std::memory_order_release);
  FutexWakeAllShared(&header().events);
}

uint32_t InlinePath::AnnounceSleep() {
  header().sleepers.fetch_add(1, std::memory_order_seq_cst);
  HeavyFence();
  return header().events.load(std::memory_order_acquire);
}

void InlinePath::Sleep(uint32_t announced, uint64_t nanoseconds) {
  FutexWaitShared(&header().events, announced, nanoseconds);
  CancelSleep();
}

void InlinePath::TellWait(Session& session, const InlineWait& wait) {
  if (++waits_told_ == 0) ++waits_told_;  // 0 tells of no wait
  TellInlineWait(wait, waits_told_, &slot_.wait);
  session.CountInlineWait(true);
}

void InlinePath::TakeBackWait(Session& session) {
  TakeBackInlineWait(&slot_.wait);
  session.CountInlineWait(false);
}

void InlinePath::CancelSleep() {
  header().sleepers.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace harmonaize
