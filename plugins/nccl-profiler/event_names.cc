#include "plugins/nccl-profiler/event_names.h"

#include <cstring>
#include <iterator>

#include "include/nccl.h"

namespace harmonaize::nccl_abi {
namespace {

template <typename Value>
struct Named {
  const char* name;
  Value value;
};

// The first letter decides between most of them, so a few comparisons do.
constexpr Named<ProfileFunction> kFunctions[] = {
    {"AllReduce", ProfileFunction::kAllReduce},
    {"AllGather", ProfileFunction::kAllGather},
    {"ReduceScatter", ProfileFunction::kReduceScatter},
    {"Send", ProfileFunction::kSend},
    {"Recv", ProfileFunction::kRecv},
    {"Broadcast", ProfileFunction::kBroadcast},
    {"Reduce", ProfileFunction::kReduce},
    {"AlltoAll", ProfileFunction::kAllToAll},
    {"Gather", ProfileFunction::kGather},
    {"Scatter", ProfileFunction::kScatter},
    {"SendRecv", ProfileFunction::kSendRecv},
    {"PutSignal", ProfileFunction::kPutSignal},
    {"Signal", ProfileFunction::kSignal},
    {"WaitSignal", ProfileFunction::kWaitSignal},
};
constexpr Named<ProfileAlgorithm> kAlgorithms[] = {
    {"RING", ProfileAlgorithm::kRing},
    {"TREE", ProfileAlgorithm::kTree},
    {"NVLS", ProfileAlgorithm::kNvls},
    {"NVLS_TREE", ProfileAlgorithm::kNvlsTree},
    {"PAT", ProfileAlgorithm::kPat},
    {"COLLNET_DIRECT", ProfileAlgorithm::kCollNetDirect},
    {"COLLNET_CHAIN", ProfileAlgorithm::kCollNetChain},
};
constexpr Named<ProfileProtocol> kProtocols[] = {{"LL", ProfileProtocol::kLl},
                                                 {"SIMPLE", ProfileProtocol::kSimple},
                                                 {"LL128", ProfileProtocol::kLl128}};
constexpr Named<uint64_t> kTypeBytes[] = {
    {"ncclFloat16", 2}, {"ncclBfloat16", 2},   {"ncclFloat32", 4},    {"ncclInt8", 1},
    {"ncclInt32", 4},   {"ncclUint32", 4},     {"ncclInt64", 8},      {"ncclUint64", 8},
    {"ncclFloat64", 8}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}, {"ncclUint8", 1},
    {"Unknown", 1},
};

template <typename Value, size_t kCount>
Value Find(const Named<Value> (&all)[kCount], const char* name, Value other) {
  for (const Named<Value>& one : all) {
    if (one.name[0] == name[0] && std::strcmp(one.name, name) == 0) return one.value;
  }
  return other;
}

template <typename Value, size_t kCount>
Value At(const Value (&all)[kCount], uint8_t number, Value other) {
  return number < kCount ? all[number] : other;
}

uint64_t Multiply(uint64_t count, uint64_t bytes) {
  uint64_t product = 0;
  return __builtin_mul_overflow(count, bytes, &product) ? UINT64_MAX : product;
}

}  // namespace

ProfileFunction FunctionOf(const char* name) noexcept {
  return name == nullptr ? ProfileFunction::kNone : Find(kFunctions, name, ProfileFunction::kOther);
}

ProfileAlgorithm AlgorithmOf(const char* name) noexcept {
  return name == nullptr ? ProfileAlgorithm::kNone
                         : Find(kAlgorithms, name, ProfileAlgorithm::kOther);
}

ProfileProtocol ProtocolOf(const char* name) noexcept {
  return name == nullptr ? ProfileProtocol::kNone : Find(kProtocols, name, ProfileProtocol::kOther);
}

ProfileFunction FunctionOf(uint8_t number) noexcept {
  static constexpr ProfileFunction kByNumber[] = {
      ProfileFunction::kBroadcast,     ProfileFunction::kReduce,    ProfileFunction::kAllGather,
      ProfileFunction::kReduceScatter, ProfileFunction::kAllReduce, ProfileFunction::kSendRecv,
      ProfileFunction::kSend,          ProfileFunction::kRecv};
  return At(kByNumber, number, ProfileFunction::kOther);
}

ProfileAlgorithm AlgorithmOf(uint8_t number) noexcept {
  static constexpr ProfileAlgorithm kByNumber[] = {
      ProfileAlgorithm::kTree,         ProfileAlgorithm::kRing, ProfileAlgorithm::kCollNetDirect,
      ProfileAlgorithm::kCollNetChain, ProfileAlgorithm::kNvls, ProfileAlgorithm::kNvlsTree,
      ProfileAlgorithm::kPat};
  return At(kByNumber, number, ProfileAlgorithm::kOther);
}

ProfileProtocol ProtocolOf(uint8_t number) noexcept {
  static constexpr ProfileProtocol kByNumber[] = {ProfileProtocol::kLl, ProfileProtocol::kLl128,
                                                  ProfileProtocol::kSimple};
  return At(kByNumber, number, ProfileProtocol::kOther);
}

uint64_t BytesOf(size_t count, const char* type) noexcept {
  return type == nullptr ? 0 : Multiply(count, Find(kTypeBytes, type, uint64_t{0}));
}

uint64_t BytesOf(size_t count, uint8_t type) noexcept {
  static constexpr uint64_t kByNumber[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  static_assert(ncclBfloat16 == 9 && ncclFloat8e5m2 == 11);
  return Multiply(count, At(kByNumber, type, uint64_t{0}));
}

}  // namespace harmonaize::nccl_abi
