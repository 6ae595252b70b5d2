#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "plugins/nccl-profiler/v1.h"
#include "plugins/nccl-profiler/v2.h"
#include "plugins/nccl-profiler/v3.h"
#include "plugins/nccl-profiler/v4.h"
#include "plugins/nccl-profiler/v5.h"
#include "plugins/nccl-profiler/v6.h"
#include "src/ipc/profile_record.h"

namespace harmonaize::testing {

/// The plugin's library, opened as NCCL opens it.
class ProfilerLibrary {
 public:
  explicit ProfilerLibrary(const char* path) : library_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
  }
  ~ProfilerLibrary() {
    if (library_ != nullptr) dlclose(library_);
  }
  ProfilerLibrary(const ProfilerLibrary&) = delete;
  ProfilerLibrary& operator=(const ProfilerLibrary&) = delete;

  /// Returns ncclProfiler_vN.
  template <typename Table>
  Table* Find(int version) const {
    void* const table = dlsym(library_, ("ncclProfiler_v" + std::to_string(version)).c_str());
    EXPECT_NE(table, nullptr) << version;
    return static_cast<Table*>(table);
  }

 private:
  void* library_;
};

template <int kVersion>
struct ProfilerTypes;
template <>
struct ProfilerTypes<1> {
  using Event = nccl_abi::ProfilerEventV1;
  using State = nccl_abi::ProfilerStateV1;
  using Table = nccl_abi::ProfilerV1;
};
template <>
struct ProfilerTypes<2> {
  using Event = nccl_abi::ProfilerEventV2;
  using State = nccl_abi::ProfilerStateV1;
  using Table = nccl_abi::ProfilerV2;
};
template <>
struct ProfilerTypes<3> {
  using Event = nccl_abi::ProfilerEventV3;
  using State = nccl_abi::ProfilerStateV1;
  using Table = nccl_abi::ProfilerV3;
};
template <>
struct ProfilerTypes<4> {
  using Event = nccl_abi::ProfilerEventV4;
  using State = nccl_abi::ProfilerStateV4;
  using Table = nccl_abi::ProfilerV4;
};
template <>
struct ProfilerTypes<5> {
  using Event = nccl_abi::ProfilerEventV5;
  using State = nccl_abi::ProfilerStateV4;
  using Table = nccl_abi::ProfilerV5;
};
template <>
struct ProfilerTypes<6> {
  using Event = nccl_abi::ProfilerEventV6;
  using State = nccl_abi::ProfilerStateV4;
  using Table = nccl_abi::ProfilerV6;
};

/// A communicator of a program that calls the plugin as NCCL does, in one version of the interface.
/// Every call of the plugin's has to succeed.
template <int kVersion>
class ProfiledHost {
 public:
  using Types = ProfilerTypes<kVersion>;
  using Event = typename Types::Event;
  using State = typename Types::State;
  using Table = typename Types::Table;
  static constexpr bool kTellsCommunicators = kVersion <= 3;
  static constexpr bool kHasKernels = kVersion >= 4;
  static constexpr int kKernelStopped = 22;

  ProfiledHost(const ProfilerLibrary& library, uint64_t id, const char* name, int ranks = 8,
               int rank = 0)
      : table(library.Find<Table>(kVersion)), id_(id), name_(name) {
    ncclResult_t result = ncclInternalError;
    if constexpr (kVersion <= 3) {
      result = table->init(&context, &mask);
    } else if constexpr (kVersion == 4) {
      result = table->init(&context, &mask, name, id, 2, ranks, rank, nullptr);
    } else {
      result = table->init(&context, id, &mask, name, 2, ranks, rank, nullptr);
    }
    EXPECT_EQ(result, ncclSuccess);
  }

  bool Wants(uint32_t events) const { return (static_cast<uint32_t>(mask) & events) == events; }

  void* Start(const Event& event) {
    Event copy = event;
    void* handle = &copy;
    EXPECT_EQ(table->start_event(context, &handle, &copy), ncclSuccess);
    return handle;
  }
  void Stop(void* handle) { EXPECT_EQ(table->stop_event(handle), ncclSuccess); }
  void Record(void* handle, int state, State* arguments) {
    EXPECT_EQ(table->record_event_state(handle, state, arguments), ncclSuccess);
  }
  void Finalize() { EXPECT_EQ(table->finalize(context), ncclSuccess); }

  static Event Of(uint32_t type, void* parent = nullptr) {
    Event event;
    std::memset(&event, 0, sizeof event);  // All of the union, as NCCL has it.
    event.type = static_cast<decltype(event.type)>(type);
    event.parent = parent;
    return event;
  }
  /// An all-reduce of `count` floats by the ring algorithm.
  Event AllReduce(size_t count, uint8_t channels) const {
    Event event = Of(kProfileCollectives);
    auto& collective = event.collective;
    collective.count = count;
    if constexpr (kVersion == 1) {
      collective.function = 4;
      collective.type = ncclFloat32;
      collective.algorithm = 1;
      collective.protocol = 2;
    } else {
      collective.function = "AllReduce";
      collective.type = "ncclFloat32";
      collective.algorithm = "RING";
      collective.protocol = "SIMPLE";
    }
    if constexpr (kTellsCommunicators) {
      collective.name = name_;
      collective.communicator = id_;
      collective.most_channels = channels;
    } else {
      collective.channels = channels;
    }
    return event;
  }
  /// A send of `count` bytes.
  Event Send(size_t count, uint8_t channels) const {
    Event event = Of(kProfilePointToPoint);
    auto& p2p = event.p2p;
    p2p.count = count;
    if constexpr (kVersion == 1) {
      p2p.function = 6;
      p2p.type = ncclInt8;
    } else {
      p2p.function = "Send";
      p2p.type = "ncclInt8";
    }
    if constexpr (kTellsCommunicators) {
      p2p.name = name_;
      p2p.communicator = id_;
    } else {
      p2p.channels = channels;
    }
    return event;
  }
  static Event Proxy(void* parent, bool is_send, int steps, int chunk_bytes) {
    Event event = Of(kProfileProxyOperations, parent);
    event.proxy.process = getpid();
    event.proxy.is_send = is_send ? 1 : 0;
    event.proxy.steps = steps;
    event.proxy.chunk_bytes = chunk_bytes;
    return event;
  }
  /// A kernel of one channel, from `begin` to `end` by the GPU's clock.
  void Kernel(void* parent, uint64_t begin, uint64_t end) {
    if constexpr (kHasKernels) {
      Event event = Of(kProfileKernels, parent);
      event.kernel.timer = begin;
      void* const handle = Start(event);
      State state{};
      state.kernel.timer = end;
      Record(handle, kKernelStopped, &state);
      Stop(handle);
    }
  }
  /// An all-reduce as NCCL tells of it: the group and the collective from the host's thread, and
  /// then kernels and a proxy operation from others. It takes `duration` nanoseconds of the GPU's.
  void RunAllReduce(size_t count, uint8_t channels, uint64_t duration) {
    void* const group = Start(Of(kProfileGroups));
    void* const collective = Start(AllReduce(count, channels));
    Stop(collective);
    Stop(group);
    void* const proxy = Start(Proxy(collective, true, 4, 1000));
    for (uint8_t channel = 0; channel < channels; ++channel) {
      Kernel(collective, 1'000'000 + channel, 1'000'000 + duration);
    }
    Stop(proxy);
  }

  Table* const table;
  void* context = nullptr;
  int mask = 0;

 private:
  const uint64_t id_;
  const char* const name_;
};

}  // namespace harmonaize::testing
