#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace harmonaize {

// What NCCL's profiler plugin tells the daemon of each event, as it lies in a ProfileRing. The
// daemon trusts none of it: see CheckedProfileRecord.

/// What a record is about.
enum class ProfileKind : uint8_t {
  kCommunicator,  ///< No event: it says which communicator an index stands for from now on.
  kGroup,         ///< A group of operations, as NCCL launches it.
  kCollective,
  kPointToPoint,
  kProxySend,     ///< The work of NCCL's proxy thread for one channel of an operation.
  kProxyReceive,  ///< The same, for what arrives.
  kProxyStep,     ///< One network transfer of such work.
  kProxyControl,  ///< What a proxy thread does besides.
  kKernel,        ///< The work of a GPU's kernel for one channel of an operation.
  kGroupCall,
  kCollectiveCall,
  kPointToPointCall,
  kKernelLaunch,
  kCopyCollective,  ///< A collective that the GPUs' copy engines carry out.
  kCopySync,
  kCopyBatch,
};
inline constexpr int kProfileKindCount = 16;

/// NCCL's functions; sixteen of them, so that one fits four bits of a handle.
enum class ProfileFunction : uint8_t {
  kNone,
  kOther,  ///< One that this release does not know.
  kAllGather,
  kAllReduce,
  kAllToAll,
  kBroadcast,
  kGather,
  kRecv,
  kReduce,
  kReduceScatter,
  kScatter,
  kSend,
  kSendRecv,
  kPutSignal,
  kSignal,
  kWaitSignal,
};
inline constexpr int kProfileFunctionCount = 16;

enum class ProfileAlgorithm : uint8_t {
  kNone,
  kOther,
  kTree,
  kRing,
  kCollNetDirect,
  kCollNetChain,
  kNvls,
  kNvlsTree,
  kPat,
};
inline constexpr int kProfileAlgorithmCount = 9;

enum class ProfileProtocol : uint8_t { kNone, kOther, kLl, kLl128, kSimple };
inline constexpr int kProfileProtocolCount = 5;

/// Return the names, in lower case for kinds ("collective") and as NCCL writes them for the others
/// ("AllReduce", "RING", "SIMPLE"); "" for kNone. "other" for values that are none.
std::string_view ProfileKindName(ProfileKind kind);
std::string_view ProfileFunctionName(ProfileFunction function);
std::string_view ProfileAlgorithmName(ProfileAlgorithm algorithm);
std::string_view ProfileProtocolName(ProfileProtocol protocol);

/// Events that a provider may want, as NCCL numbers the bits of its activation mask.
enum ProfileEvents : uint32_t {
  kProfileGroups = 1 << 0,
  kProfileCollectives = 1 << 1,
  kProfilePointToPoint = 1 << 2,
  kProfileProxyOperations = 1 << 3,
  kProfileProxySteps = 1 << 4,
  kProfileProxyControl = 1 << 5,
  kProfileKernels = 1 << 6,
  kProfileGroupCalls = 1 << 8,
  kProfileCollectiveCalls = 1 << 9,
  kProfilePointToPointCalls = 1 << 10,
  kProfileKernelLaunches = 1 << 11,
  kProfileCopyCollectives = 1 << 12,
  kProfileCopySyncs = 1 << 13,
  kProfileCopyBatches = 1 << 14,
};

/// An event's name in the daemon's configuration, such as "collective".
struct ProfileEventName {
  std::string_view name;
  uint32_t event;
};
/// Returns all of them.
std::span<const ProfileEventName> ProfileEventNames();

/// Flags of a record.
enum ProfileFlags : uint8_t {
  /// All channels of the operation have told when its kernels began and ended: `duration_ns` is the
  /// time from the first beginning to the last end, by the GPU's clock. Without it the duration is
  /// that of the host's calls, which launch the operation and do not wait for it.
  kTimedByKernels = 1,
};

/// Number of 64-bit words of a record.
inline constexpr size_t kProfileWords = 7;
using ProfileWords = std::array<uint64_t, kProfileWords>;

/// An event that has ended.
struct ProfileRecord {
  ProfileKind kind = ProfileKind::kGroup;
  ProfileFunction function = ProfileFunction::kNone;
  ProfileAlgorithm algorithm = ProfileAlgorithm::kNone;
  ProfileProtocol protocol = ProfileProtocol::kNone;
  uint16_t communicator = 0;  ///< Its index in the process.
  uint8_t flags = 0;          ///< Of ProfileFlags.
  uint8_t kernels = 0;        ///< Channels whose kernels have ended.
  uint64_t begin_ns = 0;      ///< By the monotonic clock.
  uint64_t duration_ns = 0;
  uint64_t bytes = 0;
  uint64_t launch_ns = 0;          ///< Time that the host's calls took.
  uint64_t kernels_ns = 0;         ///< Sum of the times of the kernels.
  uint64_t longest_kernel_ns = 0;  ///< The largest of these.
};
static_assert(sizeof(ProfileRecord) == sizeof(ProfileWords));

/// The communicator that an index stands for: a record of kind kCommunicator.
struct ProfiledCommunicator {
  ProfileKind kind = ProfileKind::kCommunicator;
  uint8_t reserved[3] = {};
  uint16_t communicator = 0;  ///< Its index in the process.
  uint16_t reserved2 = 0;
  uint64_t id = 0;     ///< NCCL's hash of its id; 0: not known.
  int32_t ranks = 0;   ///< 0: not known. NCCL tells ranks and hosts from 2.27 on.
  int32_t rank = -1;   ///< -1: not known.
  int32_t hosts = 0;   ///< 0: not known.
  char name[28] = {};  ///< Its beginning; "": it has none.
};
static_assert(sizeof(ProfiledCommunicator) == sizeof(ProfileWords));

/// Communicators of a process that are told apart at the same time.
inline constexpr uint16_t kMostProfiledCommunicators = 1024;

/// Returns the record in untrusted words; nullopt for one that no plugin writes: an enumeration or
/// an index out of range, or a kind that is no event's.
std::optional<ProfileRecord> CheckedProfileRecord(const ProfileWords& words);
/// Returns the communicator in them; nullopt if there is none, or its numbers contradict each
/// other. The name may lack its end and hold any bytes.
std::optional<ProfiledCommunicator> CheckedProfiledCommunicator(const ProfileWords& words);

}  // namespace harmonaize
