#include "plugins/nccl-tuner/tuner.h"

#include <array>
#include <atomic>
#include <memory>

#include "plugins/nccl-abi/communicator_of_thread.h"
#include "plugins/nccl-tuner/advice_link.h"
#include "src/base/status.h"
#include "src/ipc/tuning_segment.h"

namespace harmonaize::nccl_abi {
namespace {

/// Most communicators of a process that are tuned at a time. Others keep NCCL's choices.
constexpr size_t kMostTuned = 1024;

/// A communicator's place. It is never freed, so that a late call finds it.
struct Place {
  std::atomic<bool> taken{false};
  /// Set while the place is taken; NCCL calls for a communicator one at a time.
  std::unique_ptr<AdviceLink> link;
};
using Places = std::array<Place, kMostTuned>;
/// Never destroyed: threads of NCCL's may call until the process ends.
Places& places = *new Places;

Place* PlaceAt(void* context) noexcept {
  const auto offset =
      reinterpret_cast<uintptr_t>(context) - reinterpret_cast<uintptr_t>(places.data());
  if (context == nullptr || offset >= sizeof(Places) || offset % sizeof(Place) != 0) return nullptr;
  auto* const place = static_cast<Place*>(context);
  // Acquire: the link was set before.
  return place->taken.load(std::memory_order_acquire) ? place : nullptr;
}

Place* Put(std::unique_ptr<AdviceLink> link) noexcept {
  for (Place& place : places) {
    // A link is set while no context is out, so nobody looks at it.
    bool free = false;
    if (!place.taken.compare_exchange_strong(free, true, std::memory_order_acq_rel)) continue;
    place.link = std::move(link);
    return &place;
  }
  return nullptr;
}

/// Returns the advice for a call; nullptr: none. Every call is counted, whatever it is about.
const TuningCell* CellFor(void* context, int function, size_t bytes) noexcept {
  Place* const place = PlaceAt(context);
  if (place == nullptr) return nullptr;
  const TuningTable* const table = place->link->Next(function, bytes);
  if (table == nullptr || function < 0 || function >= kTunedFunctions) return nullptr;
  return &table->cells[function][TunedSizeOf(bytes)];
}

// CollNet takes any number of channels that it is told, even more than the communicator has.
void SetChannels(const TuningCell& cell, bool has_collnet, int* channels) noexcept {
  if (channels != nullptr && cell.channels > 0 && !has_collnet) *channels = cell.channels;
}

}  // namespace

ncclResult_t InitTuner(const TunedDescription& communicator, Logger logger,
                       void** context) noexcept {
  SetLogger(logger);
  if (context == nullptr) return ncclSuccess;
  *context = nullptr;
  TunedDescription described = communicator;
  if (described.id == 0) {
    described.id = TakeCommunicatorOfThread(described.ranks, described.hosts);
  }
  if (described.id == 0 || described.hosts < 2) return ncclSuccess;
  try {
    Result<std::unique_ptr<AdviceLink>> link =
        AdviceLink::Open(described.id, described.ranks, described.hosts);
    if (!link.ok()) {
      Log(LogLevel::kInfo, kLogOfTuning, "NCCL's own choices are used: {}",
          link.status().message());
    } else if (*link != nullptr) {
      *context = Put(std::move(*link));
    }
  } catch (...) {
    // Memory is gone. NCCL does without advice.
  }
  return ncclSuccess;
}

ncclResult_t FinalizeTuner(void* context) noexcept {
  Place* const place = PlaceAt(context);
  if (place == nullptr) return ncclSuccess;
  // A forked child does not have the memory that it would unmap.
  if (place->link->inherited()) {
    static_cast<void>(place->link.release());
  }
  place->link.reset();
  place->taken.store(false, std::memory_order_release);
  return ncclSuccess;
}

ncclResult_t AdjustCosts(void* context, int function, size_t bytes, TunerCosts costs,
                         int algorithms, int protocols, int* channels) noexcept {
  const TuningCell* const cell = CellFor(context, function, bytes);
  if (cell == nullptr || costs == nullptr || protocols <= 0) return ncclSuccess;
  // The table is one block of numbers, whatever its type says.
  auto* const table = reinterpret_cast<float*>(costs);
  bool has_collnet = false;
  for (int algorithm = 0; algorithm < algorithms && algorithm < kTunedAlgorithms; ++algorithm) {
    float* const row = table + static_cast<ptrdiff_t>(algorithm) * protocols;
    for (int protocol = 0; protocol < protocols && protocol < kTunedProtocols; ++protocol) {
      // A negative cost stands for what NCCL cannot do.
      if (!(row[protocol] >= 0)) continue;
      if (algorithm == kNcclCollnetDirect || algorithm == kNcclCollnetChain) has_collnet = true;
      row[protocol] *= cell->factors[algorithm][protocol];
    }
  }
  SetChannels(*cell, has_collnet, channels);
  return ncclSuccess;
}

ncclResult_t Choose(void* context, int function, size_t bytes, bool has_collnet, int* algorithm,
                    int* protocol, int* channels) noexcept {
  const TuningCell* const cell = CellFor(context, function, bytes);
  if (cell == nullptr) return ncclSuccess;
  if (cell->algorithm >= 0 && algorithm != nullptr && protocol != nullptr) {
    *algorithm = cell->algorithm;
    *protocol = cell->protocol;
  }
  SetChannels(*cell, has_collnet, channels);
  return ncclSuccess;
}

}  // namespace harmonaize::nccl_abi
