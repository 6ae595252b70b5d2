#include "src/ipc/profile_record.h"

namespace harmonaize {
namespace {

constexpr std::string_view kOther = "other";

constexpr std::string_view kKinds[kProfileKindCount] = {
    "communicator",  "group",           "collective", "p2p",        "proxy_send",      "proxy_recv",
    "proxy_step",    "proxy_control",   "kernel",     "group_call", "collective_call", "p2p_call",
    "kernel_launch", "copy_collective", "copy_sync",  "copy_batch"};
constexpr std::string_view kFunctions[kProfileFunctionCount] = {
    "",         kOther,      "AllGather", "AllReduce",     "AlltoAll", "Broadcast",
    "Gather",   "Recv",      "Reduce",    "ReduceScatter", "Scatter",  "Send",
    "SendRecv", "PutSignal", "Signal",    "WaitSignal"};
constexpr std::string_view kAlgorithms[kProfileAlgorithmCount] = {
    "", kOther, "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr std::string_view kProtocols[kProfileProtocolCount] = {"", kOther, "LL", "LL128",
                                                                "SIMPLE"};

constexpr ProfileEventName kEvents[] = {{"group", kProfileGroups},
                                        {"collective", kProfileCollectives},
                                        {"p2p", kProfilePointToPoint},
                                        {"proxy", kProfileProxyOperations},
                                        {"proxy_step", kProfileProxySteps},
                                        {"proxy_control", kProfileProxyControl},
                                        {"kernel", kProfileKernels},
                                        {"group_call", kProfileGroupCalls},
                                        {"collective_call", kProfileCollectiveCalls},
                                        {"p2p_call", kProfilePointToPointCalls},
                                        {"kernel_launch", kProfileKernelLaunches},
                                        {"copy_collective", kProfileCopyCollectives},
                                        {"copy_sync", kProfileCopySyncs},
                                        {"copy_batch", kProfileCopyBatches}};

/// Most ranks of a communicator; NCCL has an int for them, and the daemon's own bound is far below.
constexpr int32_t kMostRanks = 1 << 24;

template <typename Enumeration, size_t kCount>
std::string_view NameIn(const std::string_view (&names)[kCount], Enumeration value) {
  const auto index = static_cast<size_t>(value);
  return index < kCount ? names[index] : kOther;
}

template <typename Enumeration>
bool IsBelow(Enumeration value, int count) {
  return static_cast<int>(value) < count;
}

}  // namespace

std::string_view ProfileKindName(ProfileKind kind) {
  return NameIn(kKinds, kind);
}

std::string_view ProfileFunctionName(ProfileFunction function) {
  return NameIn(kFunctions, function);
}

std::string_view ProfileAlgorithmName(ProfileAlgorithm algorithm) {
  return NameIn(kAlgorithms, algorithm);
}

std::string_view ProfileProtocolName(ProfileProtocol protocol) {
  return NameIn(kProtocols, protocol);
}

std::span<const ProfileEventName> ProfileEventNames() {
  return kEvents;
}

std::optional<ProfileRecord> CheckedProfileRecord(const ProfileWords& words) {
  const auto record = std::bit_cast<ProfileRecord>(words);
  if (record.kind == ProfileKind::kCommunicator || !IsBelow(record.kind, kProfileKindCount) ||
      !IsBelow(record.function, kProfileFunctionCount) ||
      !IsBelow(record.algorithm, kProfileAlgorithmCount) ||
      !IsBelow(record.protocol, kProfileProtocolCount) ||
      record.communicator >= kMostProfiledCommunicators || (record.flags & ~kTimedByKernels) != 0) {
    return std::nullopt;
  }
  return record;
}

std::optional<ProfiledCommunicator> CheckedProfiledCommunicator(const ProfileWords& words) {
  const auto found = std::bit_cast<ProfiledCommunicator>(words);
  if (found.kind != ProfileKind::kCommunicator ||
      found.communicator >= kMostProfiledCommunicators) {
    return std::nullopt;
  }
  const bool knows_ranks = found.ranks != 0 || found.rank != -1 || found.hosts != 0;
  if (knows_ranks && (found.ranks < 1 || found.ranks > kMostRanks || found.rank < 0 ||
                      found.rank >= found.ranks || found.hosts < 0 || found.hosts > found.ranks)) {
    return std::nullopt;
  }
  return found;
}

}  // namespace harmonaize
