#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "src/base/clean_text.h"
#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/base/version_range.h"
#include "src/ipc/session_segment.h"
#include "src/ipc/ticket.h"
#include "src/ipc/unique_id.h"
#include "src/numerics/types.h"

namespace harmonaize {

// The control socket's messages. The tenant asks, the daemon answers, one message at a time. A
// message is a MessageHeader, one plain struct, and for some a tail of 32-bit numbers or text.
// Integers are in the machine's byte order, because both ends are on one host.
//
// Client and daemon may be of releases that are one apart: src/ipc/session_versions.h. The header
// and the form of a failure are the same in all versions. A type is only added, and FirstVersionOf
// tells since when. A struct grows at its end alone, and says by a BytesIn how long it was before.

enum class MessageType : uint16_t {
  kHello = 1,
  kCreateId,
  kJoin,
  kSplit,
  kShrink,
  kCreateGrowId,
  kGrow,
  kLeave,
  kAbort,
  kRevoke,
  kRegisterRegion,
  kUnregisterRegion,
  kOpenStream,
  kCloseStream,
  kEstimate,
  kStatus,
  kAttachInline,
  kOfferRegion,
  kMapPeerRegion,
  kExplain,
  kProbe,
  kDocument,
  kMakeTicket,
  kBurnTickets,
  kNewcomers,
  kAdmit,
  kJoinJob,
  kLostRanks,
  kLendBuffer,
  kReturnBuffer,
  kBeginSave,
  kCommitSave,
  kSaved,
  kOpenPart,
  kListSaves,
  kPostChoice,
  kHearChoice,
  kFetchPart,
  kOpenDoor,
  kKnock,
  kTakeKnock,
  kClosePipe,
  kNcclSettings,
  kOpenProfile,
  kOpenTuning,
  kCloseTuning,
};

/// Returns a request's subject in words for people, such as "a place in a communicator".
const char* RequestName(MessageType type);
/// Returns whether the answer may take long although all is well, because it waits for other hosts.
bool AnswerMayTakeLong(MessageType type);
/// Returns the first version of the protocol that has the request.
uint16_t FirstVersionOf(MessageType type);

struct MessageHeader {
  uint32_t magic = kSegmentMagic;
  uint16_t version = kProtocolVersion;  ///< The one in which the message is written.
  MessageType type = MessageType::kHello;
  /// In a reply: the Code. A failure's text is the tail. In a request: the latest version that the
  /// client speaks; 0: `version`.
  int32_t code = 0;
  /// Bytes after the plain struct.
  uint32_t tail_bytes = 0;
};

/// The kind of a job, where its processes say one.
enum class JobKind : uint32_t { kUnknown = 0, kTraining, kInference, kBatch };
inline constexpr int kJobKindCount = 4;
/// Returns "training", "inference" or "batch"; "unknown" for any other value.
const char* JobKindName(JobKind kind);

/// Opens the session. Carries the memfd of the session segment, as MapAndSeal requires it: filled
/// with zeros, and not memory of another session.
struct HelloRequest {
  static constexpr MessageType kType = MessageType::kHello;
  char program[64] = {};   ///< For the operator's eyes.
  char job_name[64] = {};  ///< The job that the process belongs to; "": it has no name.
  /// The same for all processes that were started together; 0: not known. Without a name it says
  /// which processes belong to one job.
  uint64_t job_group = 0;
  JobKind job_kind = JobKind::kUnknown;
  uint32_t reserved = 0;
};
/// Carries the doorbell's descriptor (an eventfd).
struct HelloReply {
  uint32_t session = 0;
  uint32_t workers = 0;
  char daemon_version[32] = {};
  /// Operations that the session may have posted and not yet seen retired (SessionSegment). The
  /// daemon ends a session that posts more.
  uint64_t most_operations = 0;
  // Since version 21: the versions that the daemon speaks.
  uint32_t oldest_version = 0;
  uint32_t latest_version = 0;

  static constexpr size_t BytesIn(uint16_t version) {
    return version < 21 ? offsetof(HelloReply, oldest_version) : sizeof(HelloReply);
  }
};

struct CreateIdRequest {
  static constexpr MessageType kType = MessageType::kCreateId;
  uint32_t reserved = 0;
};
struct CreateIdReply {
  UniqueId id;
};

/// Answered at once with the member that will stand for this rank; its slot turns kReady when all
/// ranks have joined.
struct JoinRequest {
  static constexpr MessageType kType = MessageType::kJoin;
  UniqueId id;
  int32_t ranks = 0;
  int32_t rank = 0;
  /// Not 0: the rank uses a GPU, and stock NCCL could carry the communicator for it.
  uint32_t on_gpu = 0;
  char name[64] = {};
};
struct MemberReply {
  uint32_t member = kNoMember;
};

struct SplitRequest {
  static constexpr MessageType kType = MessageType::kSplit;
  uint32_t member = kNoMember;
  uint32_t has_color = 1;  ///< 0: the rank takes no part, and gets kNoMember.
  int32_t color = 0;
  int32_t key = 0;
  char name[64] = {};
};

// Doors. A process that opens a door is found by other processes of its tenant, at whichever hosts:
// who knocks gets a communicator of two ranks with it.

/// Opens the door of this process, or returns the one that it has.
struct OpenDoorRequest {
  static constexpr MessageType kType = MessageType::kOpenDoor;
  uint32_t reserved = 0;
};
struct OpenDoorReply {
  UniqueId door;  ///< Of kind kDoor.
  /// What this host's NICs can send together by the provider's fabric file; 0: there is no file.
  uint64_t host_bytes_per_second = 0;
};
/// Knocks at the door of another process, or of this one. Answered at once with the member that
/// will be rank 0; its slot turns kReady when the other process has taken the knock.
struct KnockRequest {
  static constexpr MessageType kType = MessageType::kKnock;
  UniqueId door;
  char name[64] = {};
};
/// Takes the first of those that have knocked at this process's door, and joins as rank 1. The
/// member is kNoMember if nobody has.
struct TakeKnockRequest {
  static constexpr MessageType kType = MessageType::kTakeKnock;
  uint32_t reserved = 0;
};
/// Closes a pipe between the member and another rank (pipe_message.h): its messages end, at both
/// ranks.
struct ClosePipeRequest {
  static constexpr MessageType kType = MessageType::kClosePipe;
  uint32_t member = kNoMember;
  int32_t peer = 0;
  uint32_t pipe = 0;
  uint32_t reserved = 0;
};

/// Tail: the ranks to leave out, as int32.
struct ShrinkRequest {
  static constexpr MessageType kType = MessageType::kShrink;
  uint32_t member = kNoMember;
  uint32_t abort_parent = 0;
  char name[64] = {};
};

struct CreateGrowIdRequest {
  static constexpr MessageType kType = MessageType::kCreateGrowId;
  uint32_t member = kNoMember;
};

/// A rank of the parent sets `member`; a new rank sets `id` and `rank`.
struct GrowRequest {
  static constexpr MessageType kType = MessageType::kGrow;
  UniqueId id;
  uint32_t member = kNoMember;
  int32_t ranks = 0;
  int32_t rank = -1;
  char name[64] = {};
};

/// Answered at once; MemberSlot::departures tells when the daemon no longer uses the rank's
/// buffers.
struct LeaveRequest {
  static constexpr MessageType kType = MessageType::kLeave;
  uint32_t member = kNoMember;
};
/// Ends all operations that wait. The rank stays a member, so that its threads may still post what
/// they were about to, and be told. It leaves once they are out.
struct AbortRequest {
  static constexpr MessageType kType = MessageType::kAbort;
  uint32_t member = kNoMember;
};
struct RevokeRequest {
  static constexpr MessageType kType = MessageType::kRevoke;
  uint32_t member = kNoMember;
};
struct EmptyReply {
  uint32_t reserved = 0;
};

/// Makes a ticket of the job that the member's communicator belongs to.
struct MakeTicketRequest {
  static constexpr MessageType kType = MessageType::kMakeTicket;
  double seconds = 0;  ///< For how long it holds.
  uint32_t member = kNoMember;
  int32_t uses = 0;
};
struct MakeTicketReply {
  char ticket[kTicketTextBytes] = {};
};
/// Burns all tickets of the job that the member's communicator belongs to.
struct BurnTicketsRequest {
  static constexpr MessageType kType = MessageType::kBurnTickets;
  uint32_t member = kNoMember;
};
/// Asks how many newcomers wait for a place in the job of the member's communicator.
struct NewcomersRequest {
  static constexpr MessageType kType = MessageType::kNewcomers;
  uint32_t member = kNoMember;
};
struct NewcomersReply {
  int32_t waiting = 0;
};
/// Gives newcomers that wait places in the communicator to which the member's grows.
struct AdmitRequest {
  static constexpr MessageType kType = MessageType::kAdmit;
  uint32_t member = kNoMember;
  int32_t most = 0;
};
struct AdmitReply {
  int32_t ranks = 0;  ///< Size of the grown communicator; the present one's if nobody waits.
};
/// Waits for a place in a job. Answered when there is one, or after the wait, and then to be sent
/// again: the daemon keeps the newcomer's turn for some seconds.
struct JoinJobRequest {
  static constexpr MessageType kType = MessageType::kJoinJob;
  char job[64] = {};  ///< Name of the job, or its id.
  char ticket[kTicketTextBytes] = {};
  uint32_t wait_ms = 0;
  uint32_t reserved = 0;
};
struct JoinJobReply {
  UniqueId id;            ///< Of the growth, as for GrowRequest.
  int32_t ranks = 0;      ///< Of the grown communicator.
  int32_t rank = 0;       ///< The newcomer's.
  uint32_t admitted = 0;  ///< 0: nobody has admitted the newcomer yet.
  uint32_t reserved = 0;
};

/// Asks which ranks of the member's communicator are gone.
struct LostRanksRequest {
  static constexpr MessageType kType = MessageType::kLostRanks;
  uint32_t member = kNoMember;
};
/// Tail: these ranks, rising, as int32; not more of them than kMostLostRanksNamed.
struct LostRanksReply {
  int32_t count = 0;  ///< How many there are.
};
/// Most lost ranks that an answer names. A shrink excludes as many: its list is one control message
/// too, of kMaxControlMessageBytes.
inline constexpr size_t kMostLostRanksNamed = 16000;

// Checkpoints. A rank lends the daemon buffers, and saves into them in turn. The daemon keeps what
// lies in them beyond the rank's end.

/// Lends memory of the rank to the daemon. Carries its memfd, as MapAndSeal requires it.
struct LendBufferRequest {
  static constexpr MessageType kType = MessageType::kLendBuffer;
  uint64_t bytes = 0;
  uint32_t member = kNoMember;
  uint32_t reserved = 0;
};
struct LendBufferReply {
  uint32_t buffer = 0;  ///< Never 0.
  uint32_t reserved = 0;
};
/// Takes a buffer back. The daemon forgets what lies in it.
struct ReturnBufferRequest {
  static constexpr MessageType kType = MessageType::kReturnBuffer;
  uint32_t buffer = 0;
  uint32_t reserved = 0;
};
/// Says that the rank is about to overwrite a buffer with its part of the next round.
struct BeginSaveRequest {
  static constexpr MessageType kType = MessageType::kBeginSave;
  uint64_t step = 0;
  uint32_t buffer = 0;
  uint32_t reserved = 0;
};
struct BeginSaveReply {
  uint64_t round = 0;  ///< Number of the round among those of the communicator, from 1 on.
  uint64_t save = 0;   ///< Tells the save from all others of the job; the same at all ranks.
  /// Not 0: the rank has saved, and others have not yet. Nothing has begun; to be asked again.
  uint32_t waits = 0;
  uint32_t reserved = 0;
};
/// Says that the part is whole in the buffer.
struct CommitSaveRequest {
  static constexpr MessageType kType = MessageType::kCommitSave;
  uint64_t bytes = 0;        ///< Of the part, from the buffer's beginning.
  double stall_seconds = 0;  ///< For how long the save has kept the rank from its work.
  uint32_t buffer = 0;
  uint32_t flags = 0;  ///< Of kSaveIsKept and kSaveToStore.
};
/// Flags of a save: it is the end of an epoch; the provider is to store it.
inline constexpr uint32_t kSaveIsKept = 1;
inline constexpr uint32_t kSaveToStore = 2;
/// Asks what the communicator's ranks have saved.
struct SavedRequest {
  static constexpr MessageType kType = MessageType::kSaved;
  uint32_t member = kNoMember;
  uint32_t reserved = 0;
};
struct SavedReply {
  uint64_t round = 0;  ///< The newest one of which all ranks have their parts in memory; 0: none.
  uint64_t step = 0;   ///< Its step.
  uint64_t peer_round = 0;  ///< The newest one of which other hosts have copies of all; 0: none.
  uint64_t stored = 0;      ///< Bit i: round `round` - i is in the provider's store.
  uint64_t not_stored = 0;  ///< Bit i: round `round` - i was to be there, and will not be.
  uint32_t has_store = 0;   ///< Not 0: the provider has a store.
  uint32_t reserved = 0;
};
/// Asks for a part of a checkpoint of the member's job that this host has in memory. The reply
/// carries its memfd, unless `bytes` is 0: then it is not here.
struct OpenPartRequest {
  static constexpr MessageType kType = MessageType::kOpenPart;
  uint64_t save = 0;
  uint32_t member = kNoMember;
  int32_t rank = 0;  ///< The rank that has saved it.
};
struct OpenPartReply {
  uint64_t bytes = 0;  ///< Of the part.
  /// Not 0: it is a copy, of which only what FetchPartRequest has brought is there.
  uint32_t is_partial = 0;
  uint32_t reserved = 0;
};
/// Brings a range of a part that another host or the provider's store has into this host's memory,
/// where OpenPartRequest then finds it. The list of ListSavesRequest comes before.
struct FetchPartRequest {
  static constexpr MessageType kType = MessageType::kFetchPart;
  uint64_t save = 0;
  uint64_t at = 0;
  uint64_t bytes = 0;
  uint32_t member = kNoMember;
  int32_t rank = 0;
};
struct FetchPartReply {
  uint64_t bytes = 0;  ///< Of the part.
};

/// Asks which checkpoints of the member's job are in memory or in the provider's store, and where:
/// a document of JSON, as StatusRequest.
struct ListSavesRequest {
  static constexpr MessageType kType = MessageType::kListSaves;
  uint32_t member = kNoMember;
  uint32_t reserved = 0;
};
/// Tells all ranks of the communicator what rank 0, whose member this is, has chosen for them.
struct PostChoiceRequest {
  static constexpr MessageType kType = MessageType::kPostChoice;
  uint32_t member = kNoMember;
  char choice[508] = {};
};
/// Asks for the next choice of rank 0 that the member's rank has not heard.
struct HearChoiceRequest {
  static constexpr MessageType kType = MessageType::kHearChoice;
  uint32_t member = kNoMember;
  uint32_t reserved = 0;
};
struct HearChoiceReply {
  uint32_t is_there = 0;  ///< 0: it has not been made; to be asked again.
  char choice[508] = {};
};

/// Carries the region's memfd, as MapAndSeal requires it: from then on no other process can map it
/// writable, so it can become a region only once.
struct RegisterRegionRequest {
  static constexpr MessageType kType = MessageType::kRegisterRegion;
  uint64_t bytes = 0;
};
struct RegisterRegionReply {
  uint32_t region = 0;
  uint32_t shareable = 0;  ///< Whether other ranks may map it, see MapPeerRegionRequest.
};
/// Answered at once. A region that operations still use goes when they have ended. A client that
/// needs to know asks again, until it is gone or no longer registered.
struct UnregisterRegionRequest {
  static constexpr MessageType kType = MessageType::kUnregisterRegion;
  uint32_t region = 0;
};
struct UnregisterRegionReply {
  uint32_t gone = 0;
};

struct OpenStreamRequest {
  static constexpr MessageType kType = MessageType::kOpenStream;
  uint32_t reserved = 0;
};
struct OpenStreamReply {
  uint64_t position = 0;  ///< Start of the stream, whose slot may have served another one before.
  uint32_t stream = 0;
  uint32_t reserved = 0;
};
struct CloseStreamRequest {
  static constexpr MessageType kType = MessageType::kCloseStream;
  uint32_t stream = 0;
};

struct EstimateRequest {
  static constexpr MessageType kType = MessageType::kEstimate;
  uint64_t count = 0;
  uint32_t member = kNoMember;
  int32_t root = -1;
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kInt8;
  uint8_t reserved[6] = {};
};
struct EstimateReply {
  double seconds = 0;
};

/// Asks for the segment of the inline path. The reply carries its descriptor unless `bytes` is 0:
/// then the communicator has none.
struct AttachInlineRequest {
  static constexpr MessageType kType = MessageType::kAttachInline;
  uint32_t member = kNoMember;
};
struct AttachInlineReply {
  uint64_t communicator = 0;
  uint64_t bytes = 0;
};

/// Allows the other ranks of the member's communicator to map one of this session's regions.
struct OfferRegionRequest {
  static constexpr MessageType kType = MessageType::kOfferRegion;
  uint32_t member = kNoMember;
  uint32_t region = 0;
};
struct OfferRegionReply {
  uint32_t reserved = 0;
};

/// Asks for a region that another rank of the same communicator has offered to it. The reply
/// carries its descriptor.
struct MapPeerRegionRequest {
  static constexpr MessageType kType = MessageType::kMapPeerRegion;
  uint32_t member = kNoMember;
  int32_t rank = -1;
  uint32_t region = 0;
};
struct MapPeerRegionReply {
  uint64_t bytes = 0;
};

/// Asks for the daemon's status, a document of `bytes` of JSON. The reply carries its first piece
/// as the tail; DocumentRequests fetch the others one by one.
struct StatusRequest {
  static constexpr MessageType kType = MessageType::kStatus;
  uint32_t reserved = 0;
};
/// Asks for a document, as StatusRequest does. It tells how the daemon chooses between the inline
/// path and itself for communicators of so many ranks. Where `communicator` is not "", it tells how
/// the daemon carries out the collectives of that communicator, given by its number or name in the
/// status.
struct ExplainRequest {
  static constexpr MessageType kType = MessageType::kExplain;
  int32_t ranks = 2;
  uint32_t reserved = 0;
  char communicator[64] = {};
};
struct DocumentReply {
  uint64_t bytes = 0;
};
/// Asks for the piece that begins at `offset` of the last document of this connection. The answer
/// is a DocumentReply.
struct DocumentRequest {
  static constexpr MessageType kType = MessageType::kDocument;
  uint64_t offset = 0;
};

/// Has daemons measure the network among themselves, for operators. Tail: their addresses, one a
/// line; none: the daemons that this one is linked with, and itself. Several replies come: progress
/// messages, and at the end one that begins a document of `bytes` of JSON. Hanging up ends the
/// measurement.
struct ProbeRequest {
  static constexpr MessageType kType = MessageType::kProbe;
  double seconds = 0;  ///< Duration of each set of transfers.
};
struct ProbeReply {
  uint64_t bytes = 0;  ///< 0: there is more to measure.
  char progress[120] = {};
};

/// Asks for what the provider sets for stock NCCL; needs no session. Tail of the answer: the
/// settings, as EncodeNcclSettings writes them.
struct NcclSettingsRequest {
  static constexpr MessageType kType = MessageType::kNcclSettings;
  uint32_t reserved = 0;
};
struct NcclSettingsReply {
  uint32_t reserved = 0;
};

/// Has the daemon read the events of NCCL's profiler that the process writes into a ring. Carries
/// the ring's memfd (ProfileRing), as MapAndSeal requires it. A session has one ring.
struct OpenProfileRequest {
  static constexpr MessageType kType = MessageType::kOpenProfile;
  /// NCCL's hash of the id of the first communicator; 0: not known. A process that has said neither
  /// a job's name nor a group belongs to the job of this communicator.
  uint64_t communicator = 0;
};
struct OpenProfileReply {
  uint32_t events = 0;  ///< The events that the provider wants, of ProfileEvents; 0: none.
  uint32_t reserved = 0;
};

/// Has the provider advise a rank's tuner about one of NCCL's communicators. Carries the memfd of
/// the rank's TuningPosition, as MapAndSeal requires it: kTuningPositionBytes, filled with zeros.
struct OpenTuningRequest {
  static constexpr MessageType kType = MessageType::kOpenTuning;
  uint64_t communicator = 0;  ///< NCCL's hash of its id.
  int32_t ranks = 0;
  int32_t hosts = 0;  ///< NCCL's nodes.
};
/// Carries the TuningSegment's descriptor, for reading, unless `number` is 0.
struct OpenTuningReply {
  uint32_t number = 0;  ///< For kCloseTuning; 0: the provider has no advice for this communicator.
  uint32_t reserved = 0;
};

/// Ends what kOpenTuning began.
struct CloseTuningRequest {
  static constexpr MessageType kType = MessageType::kCloseTuning;
  uint32_t number = 0;
  uint32_t reserved = 0;
};
struct CloseTuningReply {
  uint32_t reserved = 0;
};

/// Returns the length of a plain struct in a version of the protocol.
template <typename Body>
constexpr size_t BodyBytes(uint16_t version) {
  if constexpr (requires { Body::BytesIn(version); }) {
    return Body::BytesIn(version);
  } else {
    return sizeof(Body);
  }
}

/// Returns header, body and tail in one buffer, as they are in `header.version`. Sets the header's
/// length of the tail.
template <typename Body>
std::vector<std::byte> Encode(MessageHeader header, const Body& body,
                              std::span<const std::byte> tail) {
  static_assert(std::is_trivially_copyable_v<Body>);
  header.tail_bytes = static_cast<uint32_t>(tail.size());
  const size_t body_bytes = BodyBytes<Body>(header.version);
  std::vector<std::byte> bytes(sizeof header + body_bytes + tail.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &body, body_bytes);
  if (!tail.empty()) {
    std::memcpy(bytes.data() + sizeof header + body_bytes, tail.data(), tail.size());
  }
  return bytes;
}
template <typename Body>
std::vector<std::byte> Encode(MessageType type, const Body& body,
                              std::span<const std::byte> tail = {},
                              uint16_t version = kProtocolVersion) {
  return Encode(MessageHeader{.version = version, .type = type}, body, tail);
}

/// Returns the first request of a connection, by a client that speaks these versions. It is written
/// in the oldest of them that has the request.
template <typename Request>
std::vector<std::byte> EncodeFirst(const Request& request, const VersionRange& spoken,
                                   std::span<const std::byte> tail = {}) {
  const auto oldest = static_cast<uint16_t>(spoken.oldest);
  return Encode(MessageHeader{.version = std::max(oldest, FirstVersionOf(Request::kType)),
                              .type = Request::kType,
                              .code = static_cast<int32_t>(spoken.latest)},
                request, tail);
}

/// Returns the versions that the sender of a request speaks, by its header.
VersionRange VersionsOf(const MessageHeader& request);

/// Returns a reply that reports a failure.
std::vector<std::byte> EncodeFailure(MessageType type, const Status& status,
                                     uint16_t version = kProtocolVersion);

/// Returns the header of an untrusted message, checked for magic and length. The version may be any
/// (AnswerVersion, CheckAnswer).
Result<MessageHeader> DecodeHeader(std::span<const std::byte> bytes);

/// Returns the failure that a reply reports, or ok when it reports none.
Status DecodeFailure(const MessageHeader& header, std::span<const std::byte> bytes);

/// Returns the plain struct after a checked header. What the header's version does not have of it
/// is as in an empty one. Errors: the length is not exactly right.
template <typename Body>
Result<Body> DecodeBody(const MessageHeader& header, std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<Body>);
  const size_t body_bytes = BodyBytes<Body>(header.version);
  const size_t expected = sizeof(MessageHeader) + body_bytes + header.tail_bytes;
  if (bytes.size() != expected) {
    return InvalidArgument("control message {} has {} bytes, not {}", static_cast<int>(header.type),
                           bytes.size(), expected);
  }
  Body body;
  std::memcpy(&body, bytes.data() + sizeof(MessageHeader), body_bytes);
  return body;
}

/// Returns the tail as numbers. Errors: it is not a whole number of them.
Result<std::vector<int32_t>> DecodeNumbers(const MessageHeader& header,
                                           std::span<const std::byte> bytes);

/// Returns a text field, which may lack its end, as a string.
template <size_t kBytes>
std::string FieldText(const char (&field)[kBytes]) {
  return std::string(field, strnlen(field, kBytes));
}

/// Returns FieldText of an untrusted field, fit for people's eyes and for JSON. Lines of the log
/// put names between quotation marks ('), so these are replaced.
template <size_t kBytes>
std::string CleanFieldText(const char (&field)[kBytes]) {
  std::string text = CleanText(FieldText(field), kBytes - 1);
  std::replace(text.begin(), text.end(), '\'', '`');
  return text;
}

/// Stores text into a field, cut to fit, always ended.
template <size_t kBytes>
void SetFieldText(char (&field)[kBytes], std::string_view text) {
  const size_t length = text.size() < kBytes ? text.size() : kBytes - 1;
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

}  // namespace harmonaize
