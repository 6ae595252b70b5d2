// harmonaize.h: checkpoints.

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "include/harmonaize.h"
#include "shim/daemon_call.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/job_calls.h"
#include "shim/storage_terms.h"
#include "src/checkpoint/shard.h"
#include "src/client/checkpoint/checkpointer.h"
#include "src/client/checkpoint/provider_store.h"
#include "src/client/checkpoint/saved_checkpoint.h"
#include "src/client/operation/communicator.h"

/// The object behind hzCheckpointer_t. `state` detects handles that were destroyed or never made,
/// as ncclComm's.
struct hzCheckpointer {
  static constexpr uint64_t kAlive = 0x485a434b50545231;

  std::atomic<uint64_t> state{kAlive};
  std::unique_ptr<harmonaize::Checkpointer> saver;
  std::string failure;  ///< What the caller's hzCheckpointState_t points to.
};

/// The object behind hzCheckpoint_t.
struct hzCheckpoint {
  static constexpr uint64_t kAlive = 0x485a434b50544f31;

  std::atomic<uint64_t> state{kAlive};
  std::unique_ptr<harmonaize::SavedCheckpoint> saved;
};

namespace harmonaize::shim {
namespace {

using checkpoint::ElementType;
using checkpoint::Shard;

static_assert(hzComplex64 == static_cast<int>(ElementType::kC64));
static_assert(kProviderStore == HZ_PROVIDER_STORE);
static_assert(hzBfloat16 == static_cast<int>(ElementType::kBf16));

/// Largest number of milliseconds that is waited for at once, for a wait without end.
constexpr int64_t kEndlessMs = int64_t{365} * 86400 * 1000;

/// Returns kInvalidArgument unless the caller's structure is as long as this library's.
template <typename Struct>
Status CheckStruct(const Struct* value, const char* name, const char* initializer) {
  HZ_RETURN_IF_ERROR(CheckPointer(value, name));
  if (value->size == sizeof(Struct)) return Status::Ok();
  return InvalidArgument("{}->size is {}: begin with {}", name, value->size, initializer);
}

template <typename Handle>
Status CheckAlive(const Handle* handle, const char* name) {
  // Acquire: the handle may have been made by another thread.
  if (handle != nullptr && handle->state.load(std::memory_order_acquire) == Handle::kAlive) {
    return Status::Ok();
  }
  return InvalidArgument("{} is no handle, or one that has ended", name);
}

std::vector<int64_t> Lengths(const int64_t* lengths, int dimensions) {
  return {lengths, lengths + dimensions};
}

/// Returns the shard that a caller means.
Result<Shard> ShardOf(const hzShard_t& given) {
  HZ_RETURN_IF_ERROR(CheckStruct(&given, "shard", "HZ_SHARD_INITIALIZER"));
  HZ_RETURN_IF_ERROR(CheckPointer(given.name, "name"));
  if (given.dimensions < 0 || static_cast<size_t>(given.dimensions) > checkpoint::kMostDimensions) {
    return InvalidArgument("'{}' has {} dimensions", given.name, given.dimensions);
  }
  const int type = Number(given.type);
  if (type < 0 || type >= checkpoint::kElementTypeCount) {
    return InvalidArgument("'{}' has the type {}, which does not exist", given.name, type);
  }
  if (given.dimensions > 0) HZ_RETURN_IF_ERROR(CheckPointer(given.global_shape, "global_shape"));
  Shard shard = {.name = given.name,
                 .type = static_cast<ElementType>(type),
                 .is_object = given.is_object != 0,
                 .global_shape = Lengths(given.global_shape, given.dimensions)};
  shard.box.offset = given.offset != nullptr ? Lengths(given.offset, given.dimensions)
                                             : std::vector<int64_t>(shard.global_shape.size(), 0);
  if (given.shape != nullptr) {
    shard.box.shape = Lengths(given.shape, given.dimensions);
  } else {
    for (size_t i = 0; i < shard.global_shape.size(); ++i) {
      // CheckShard refuses offsets beyond the end; the difference must not overflow before.
      const int64_t offset = shard.box.offset[i];
      const bool is_within = offset >= 0 && offset <= shard.global_shape[i];
      shard.box.shape.push_back(is_within ? shard.global_shape[i] - offset : 0);
    }
  }
  HZ_RETURN_IF_ERROR(checkpoint::CheckShard(shard));
  return shard;
}

Result<std::vector<Shard>> ShardsOf(const hzShard_t* given, size_t count) {
  if (count > checkpoint::kMostShards) {
    return InvalidArgument("{} shards are more than {}", count, checkpoint::kMostShards);
  }
  if (count > 0) HZ_RETURN_IF_ERROR(CheckPointer(given, "shards"));
  std::vector<Shard> shards;
  shards.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    HZ_ASSIGN_OR_RETURN(Shard shard, ShardOf(given[i]));
    shards.push_back(std::move(shard));
  }
  return shards;
}

/// Returns the addresses of the shards' elements. One without any may have none.
Result<std::vector<std::byte*>> DataOf(const hzShard_t* given, const std::vector<Shard>& shards) {
  std::vector<std::byte*> data;
  data.reserve(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    if (given[i].data == nullptr && BytesOf(shards[i]) > 0) {
      return InvalidArgument("the data of '{}' is NULL", shards[i].name);
    }
    data.push_back(static_cast<std::byte*>(given[i].data));
  }
  return data;
}

/// Stands for "as the job's requirements state" as hzCheckpointerConfig_t::keep.
constexpr int kKeepAsStated = -1;

/// Returns what the program says. What it leaves to the job's requirements is as
/// CheckpointerOptions has it.
Result<CheckpointerOptions> ExplicitOptions(const hzCheckpointerConfig_t& config) {
  CheckpointerOptions options;
  if (config.folder != nullptr) options.folder = config.folder;
  if (config.format != nullptr) {
    const auto format = checkpoint::StoreFormatOf(config.format);
    if (!format.has_value()) {
      return InvalidArgument("format is '{}', and has to be safetensors, dcp or ucp",
                             config.format);
    }
    options.format = *format;
  }
  if (config.keep != kKeepAsStated) {
    if (config.keep < 0 || static_cast<uint32_t>(config.keep) > checkpoint::kMostKept) {
      return InvalidArgument("keep is {}", config.keep);
    }
    options.keep = static_cast<uint32_t>(config.keep);
  }
  // Below 2^53, so that the number of bytes is exact.
  if (!(config.most_bytes_per_second >= 0 && config.most_bytes_per_second < 0x1p53)) {
    return InvalidArgument("most_bytes_per_second is {}", config.most_bytes_per_second);
  }
  options.most_bytes_per_second = static_cast<uint64_t>(std::ceil(config.most_bytes_per_second));
  if (!(config.linger_seconds >= 0 && config.linger_seconds <= checkpoint::kMostLingerSeconds)) {
    return InvalidArgument("linger_seconds is {}, and may be up to {}", config.linger_seconds,
                           checkpoint::kMostLingerSeconds);
  }
  options.linger_seconds = static_cast<uint32_t>(config.linger_seconds);
  constexpr int kMostThreads = 64;
  if (config.threads < 0 || config.threads > kMostThreads) {
    return InvalidArgument("threads is {}, and may be up to {}", config.threads, kMostThreads);
  }
  options.threads = config.threads;
  return options;
}

/// Returns what the program says, and what the job's requirements say of the rest.
Result<CheckpointerOptions> OptionsOf(const Communicator& communicator,
                                      const hzCheckpointerConfig_t* given) {
  if (given != nullptr) {
    HZ_RETURN_IF_ERROR(CheckStruct(given, "config", "HZ_CHECKPOINTER_CONFIG_INITIALIZER"));
  }
  const hzCheckpointerConfig_t config =
      given != nullptr ? *given : hzCheckpointerConfig_t HZ_CHECKPOINTER_CONFIG_INITIALIZER;
  HZ_ASSIGN_OR_RETURN(CheckpointerOptions options, ExplicitOptions(config));
  const bool says_all = config.keep != kKeepAsStated && config.format != nullptr;
  // Both are about a folder of the program's.
  if (says_all || options.folder.empty() || options.folder == kProviderStore) return options;
  HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(communicator));
  const StorageTerms terms = GrantedStorageTerms(job);
  if (config.keep == kKeepAsStated) options.keep = terms.keep.value_or(options.keep);
  if (config.format == nullptr) options.format = terms.format.value_or(options.format);
  return options;
}

Status CheckFlags(int flags) {
  if ((flags & ~HZ_CHECKPOINT_EPOCH_END) == 0) return Status::Ok();
  return InvalidArgument("flags is {:#x}, of which only HZ_CHECKPOINT_EPOCH_END has a meaning",
                         flags);
}

/// Runs `body` with the object behind a handle.
template <typename Body>
ncclResult_t CallOnSaver(const char* function, hzCheckpointer_t saver, Body&& body) {
  return Call(function, nullptr, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckAlive(saver, "saver"));
    return body(*saver->saver);
  });
}

template <typename Body>
ncclResult_t CallOnSaved(const char* function, hzCheckpoint_t checkpoint, Body&& body) {
  return Call(function, nullptr, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckAlive(checkpoint, "checkpoint"));
    return body(*checkpoint->saved);
  });
}

Status Save(Checkpointer& saver, uint64_t step, int flags, const hzShard_t* given, size_t count) {
  HZ_RETURN_IF_ERROR(CheckFlags(flags));
  HZ_ASSIGN_OR_RETURN(std::vector<Shard> shards, ShardsOf(given, count));
  HZ_ASSIGN_OR_RETURN(const std::vector<std::byte*> data, DataOf(given, shards));
  const std::vector<const std::byte*> sources(data.begin(), data.end());
  return saver.Save(step, (flags & HZ_CHECKPOINT_EPOCH_END) != 0, std::move(shards), sources);
}

Status Begin(Checkpointer& saver, uint64_t step, int flags, const hzShard_t* given, size_t count,
             void** rooms) {
  HZ_RETURN_IF_ERROR(CheckFlags(flags));
  if (count > 0) HZ_RETURN_IF_ERROR(CheckPointer(rooms, "rooms"));
  HZ_ASSIGN_OR_RETURN(std::vector<Shard> shards, ShardsOf(given, count));
  HZ_ASSIGN_OR_RETURN(const std::vector<std::byte*> begun,
                      saver.Begin(step, (flags & HZ_CHECKPOINT_EPOCH_END) != 0, std::move(shards)));
  std::copy(begun.begin(), begun.end(), rooms);
  return Status::Ok();
}

Result<Checkpointer::Place> PlaceOf(int number) {
  switch (number) {
    case hzInMemory: return Checkpointer::Place::kMemory;
    case hzAtPeer: return Checkpointer::Place::kPeer;
    case hzInStorage: return Checkpointer::Place::kStorage;
    default: return InvalidArgument("place is {}, which does not exist", number);
  }
}

Status Open(ncclComm_t comm, const char* folder, int64_t step, hzCheckpoint_t* out) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "checkpoint"));
  *out = nullptr;
  const std::string where = folder != nullptr ? folder : "";
  std::optional<uint64_t> which;
  if (step >= 0) which = static_cast<uint64_t>(step);
  if (step < -1) return InvalidArgument("step is {}, and -1 stands for the newest", step);
  if (comm == nullptr && where.empty()) return InvalidArgument("comm and folder are both NULL");
  auto handle = std::make_unique<hzCheckpoint>();
  if (comm == nullptr) {
    HZ_ASSIGN_OR_RETURN(handle->saved, SavedCheckpoint::OpenStored(where, which));
  } else {
    HZ_ASSIGN_OR_RETURN(handle->saved, SavedCheckpoint::Open(*comm->communicator, where, which));
  }
  *out = handle.release();
  return Status::Ok();
}

Status StoreTensor(const SavedCheckpoint& saved, size_t index, hzShard_t* out) {
  HZ_RETURN_IF_ERROR(CheckStruct(out, "tensor", "HZ_SHARD_INITIALIZER"));
  if (index >= saved.tensors().size()) {
    return InvalidArgument("the checkpoint has {} tensors, and none of number {}",
                           saved.tensors().size(), index);
  }
  const SavedCheckpoint::Tensor& tensor = saved.tensors()[index];
  *out = HZ_SHARD_INITIALIZER;
  out->name = tensor.name.c_str();
  out->type = static_cast<hzElementType_t>(tensor.view.type);
  out->is_object = tensor.view.is_object ? 1 : 0;
  out->dimensions = static_cast<int>(tensor.view.shape.size());
  out->global_shape = tensor.view.shape.data();
  return Status::Ok();
}

Status StoreAdvice(ncclComm_t comm, const char** json) {
  HZ_RETURN_IF_ERROR(CheckPointer(json, "json"));
  HZ_ASSIGN_OR_RETURN(const std::string job, JobOf(comm, "advises nobody"));
  static thread_local std::string advice;
  HZ_ASSIGN_OR_RETURN(advice, CallDaemon({.target = RouteOfJob(job, "/checkpoints/advice")}));
  *json = advice.c_str();
  return Status::Ok();
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Checkpointer;
using harmonaize::Code;
using harmonaize::Communicator;
using harmonaize::InvalidUsage;
using harmonaize::SavedCheckpoint;
using harmonaize::Status;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_API(ncclResult_t)
hzCheckpointerCreate(ncclComm_t comm, const hzCheckpointerConfig_t* config,
                     hzCheckpointer_t* saver) {
  if (Forwarding()) {
    return Call("hzCheckpointerCreate", nullptr,
                [] { return InvalidUsage("calls go to stock NCCL, which saves no checkpoints"); });
  }
  return CallOn("hzCheckpointerCreate", comm, [&](Communicator& communicator) -> Status {
    HZ_RETURN_IF_ERROR(CheckPointer(saver, "saver"));
    *saver = nullptr;
    HZ_ASSIGN_OR_RETURN(const harmonaize::CheckpointerOptions options,
                        OptionsOf(communicator, config));
    auto handle = std::make_unique<hzCheckpointer>();
    HZ_ASSIGN_OR_RETURN(handle->saver, Checkpointer::Make(communicator, options));
    *saver = handle.release();
    return Status::Ok();
  });
}

HZ_API(ncclResult_t) hzCheckpointerDestroy(hzCheckpointer_t saver) {
  return CallOnSaver("hzCheckpointerDestroy", saver, [&](Checkpointer& object) {
    saver->state.store(0, std::memory_order_release);
    const Status closed = object.Close();
    delete saver;
    return closed;
  });
}

HZ_API(ncclResult_t)
hzCheckpointSave(hzCheckpointer_t saver, uint64_t step, int flags, const hzShard_t* shards,
                 size_t count) {
  return CallOnSaver("hzCheckpointSave", saver, [&](Checkpointer& object) {
    return Save(object, step, flags, shards, count);
  });
}

HZ_API(ncclResult_t)
hzCheckpointBegin(hzCheckpointer_t saver, uint64_t step, int flags, const hzShard_t* shards,
                  size_t count, void** rooms) {
  return CallOnSaver("hzCheckpointBegin", saver, [&](Checkpointer& object) {
    return Begin(object, step, flags, shards, count, rooms);
  });
}

HZ_API(ncclResult_t) hzCheckpointCommit(hzCheckpointer_t saver) {
  return CallOnSaver("hzCheckpointCommit", saver,
                     [](Checkpointer& object) { return object.Commit(); });
}

HZ_API(ncclResult_t) hzCheckpointAbandon(hzCheckpointer_t saver) {
  return CallOnSaver("hzCheckpointAbandon", saver,
                     [](Checkpointer& object) { return object.Abandon(); });
}

HZ_API(ncclResult_t) hzCheckpointAdvice(ncclComm_t comm, const char** json) {
  return Call("hzCheckpointAdvice", comm, [&] { return StoreAdvice(comm, json); });
}

HZ_API(ncclResult_t)
hzCheckpointLook(hzCheckpointer_t saver, uint64_t step, hzCheckpointState_t* state) {
  return CallOnSaver("hzCheckpointLook", saver, [&](Checkpointer& object) -> Status {
    HZ_RETURN_IF_ERROR(CheckStruct(state, "state", "HZ_CHECKPOINT_STATE_INITIALIZER"));
    HZ_ASSIGN_OR_RETURN(const harmonaize::SaveRecord record, object.Look(step));
    saver->failure = record.failure.message();
    state->is_in_memory = record.is_in_memory ? 1 : 0;
    state->is_at_peer = record.is_at_peer ? 1 : 0;
    state->is_stored = record.is_stored ? 1 : 0;
    state->has_failed = record.failure.ok() ? 0 : 1;
    state->failure = saver->failure.c_str();
    return Status::Ok();
  });
}

HZ_API(ncclResult_t)
hzCheckpointWait(hzCheckpointer_t saver, uint64_t step, hzCheckpointPlace_t place, int timeout_ms) {
  // That it takes longer is no failure, and leaves no error behind.
  bool waits = false;
  const ncclResult_t result =
      CallOnSaver("hzCheckpointWait", saver, [&](Checkpointer& object) -> Status {
        HZ_ASSIGN_OR_RETURN(const Checkpointer::Place where, PlaceOf(Number(place)));
        const std::chrono::milliseconds timeout(timeout_ms < 0 ? kEndlessMs : timeout_ms);
        const Status status = object.Await(step, where, timeout);
        waits = status.code() == Code::kInProgress;
        return waits ? Status::Ok() : status;
      });
  return waits ? ncclInProgress : result;
}

HZ_API(ncclResult_t)
hzCheckpointOpen(ncclComm_t comm, const char* folder, int64_t step, hzCheckpoint_t* checkpoint) {
  if (comm == nullptr) {
    return Call("hzCheckpointOpen", nullptr, [&] { return Open(comm, folder, step, checkpoint); });
  }
  if (Forwarding()) {
    return Call("hzCheckpointOpen", nullptr,
                [] { return InvalidUsage("calls go to stock NCCL, which saves no checkpoints"); });
  }
  return CallOn("hzCheckpointOpen", comm,
                [&](Communicator&) { return Open(comm, folder, step, checkpoint); });
}

HZ_API(ncclResult_t) hzCheckpointGetInfo(hzCheckpoint_t checkpoint, hzCheckpointInfo_t* info) {
  return CallOnSaved("hzCheckpointGetInfo", checkpoint, [&](SavedCheckpoint& saved) -> Status {
    HZ_RETURN_IF_ERROR(CheckStruct(info, "info", "HZ_CHECKPOINT_INFO_INITIALIZER"));
    info->step = saved.step();
    info->ranks = saved.ranks();
    info->tensors = saved.tensors().size();
    info->place = NameOf(saved.place());
    return Status::Ok();
  });
}

HZ_API(ncclResult_t)
hzCheckpointTensor(hzCheckpoint_t checkpoint, size_t index, hzShard_t* tensor) {
  return CallOnSaved("hzCheckpointTensor", checkpoint,
                     [&](SavedCheckpoint& saved) { return StoreTensor(saved, index, tensor); });
}

HZ_API(ncclResult_t)
hzCheckpointRead(hzCheckpoint_t checkpoint, const hzShard_t* wanted, size_t count) {
  return CallOnSaved("hzCheckpointRead", checkpoint, [&](SavedCheckpoint& saved) -> Status {
    HZ_ASSIGN_OR_RETURN(const std::vector<harmonaize::checkpoint::Shard> shards,
                        ShardsOf(wanted, count));
    HZ_ASSIGN_OR_RETURN(const std::vector<std::byte*> data, DataOf(wanted, shards));
    return saved.Read(shards, data);
  });
}

HZ_API(ncclResult_t) hzCheckpointClose(hzCheckpoint_t checkpoint) {
  return CallOnSaved("hzCheckpointClose", checkpoint, [&](SavedCheckpoint&) {
    checkpoint->state.store(0, std::memory_order_release);
    delete checkpoint;
    return Status::Ok();
  });
}
