#include "src/ipc/messages.h"

namespace harmonaize {

const char* JobKindName(JobKind kind) {
  switch (kind) {
    case JobKind::kUnknown: break;
    case JobKind::kTraining: return "training";
    case JobKind::kInference: return "inference";
    case JobKind::kBatch: return "batch";
  }
  return "unknown";
}

const char* RequestName(MessageType type) {
  switch (type) {
    case MessageType::kHello: return "its greeting";
    case MessageType::kCreateId: return "a unique id";
    case MessageType::kJoin: return "a place in a communicator";
    case MessageType::kSplit: return "the split of a communicator";
    case MessageType::kShrink: return "the shrinking of a communicator";
    case MessageType::kCreateGrowId: return "a unique id for a growth";
    case MessageType::kGrow: return "the growth of a communicator";
    case MessageType::kLeave: return "leave to go from a communicator";
    case MessageType::kAbort: return "the abort of a communicator";
    case MessageType::kRevoke: return "the revocation of a communicator";
    case MessageType::kRegisterRegion: return "the registration of memory";
    case MessageType::kUnregisterRegion: return "the end of a registration of memory";
    case MessageType::kOpenStream: return "a host stream";
    case MessageType::kCloseStream: return "the end of a host stream";
    case MessageType::kEstimate: return "an estimate";
    case MessageType::kStatus: return "its status";
    case MessageType::kAttachInline: return "the memory of the inline path";
    case MessageType::kOfferRegion: return "that others may map its memory";
    case MessageType::kMapPeerRegion: return "another rank's memory";
    case MessageType::kExplain: return "an explanation";
    case MessageType::kProbe: return "a probe of the network";
    case MessageType::kDocument: return "the rest of a document";
    case MessageType::kMakeTicket: return "a ticket";
    case MessageType::kBurnTickets: return "the burning of tickets";
    case MessageType::kNewcomers: return "the number of newcomers";
    case MessageType::kAdmit: return "the admission of newcomers";
    case MessageType::kJoinJob: return "a place in a job";
    case MessageType::kLostRanks: return "the ranks that are lost";
    case MessageType::kLendBuffer: return "memory for checkpoints";
    case MessageType::kReturnBuffer: return "the return of memory for checkpoints";
    case MessageType::kBeginSave: return "the beginning of a checkpoint";
    case MessageType::kCommitSave: return "a checkpoint";
    case MessageType::kSaved: return "what was saved";
    case MessageType::kOpenPart: return "a part of a checkpoint";
    case MessageType::kListSaves: return "the checkpoints in memory";
    case MessageType::kPostChoice: return "the choice of a checkpoint";
    case MessageType::kHearChoice: return "the choice of a checkpoint";
    case MessageType::kFetchPart: return "a part of a checkpoint at another host";
    case MessageType::kOpenDoor: return "a door for other processes";
    case MessageType::kKnock: return "the way to another process";
    case MessageType::kTakeKnock: return "the next process at its door";
    case MessageType::kClosePipe: return "the end of a pipe";
    case MessageType::kNcclSettings: return "the provider's settings for NCCL";
    case MessageType::kOpenProfile: return "a ring for profiler events";
    case MessageType::kOpenTuning: return "advice for a tuner";
    case MessageType::kCloseTuning: return "the end of advice for a tuner";
  }
  return "an answer";
}

bool AnswerMayTakeLong(MessageType type) {
  switch (type) {
    case MessageType::kCreateGrowId:
    case MessageType::kProbe:
    case MessageType::kMakeTicket:
    case MessageType::kBurnTickets:
    case MessageType::kNewcomers:
    case MessageType::kAdmit:
    case MessageType::kJoinJob:
    case MessageType::kLostRanks:
    case MessageType::kListSaves:
    case MessageType::kFetchPart: return true;
    default: return false;
  }
}

uint16_t FirstVersionOf(MessageType type) {
  switch (type) {
    case MessageType::kMakeTicket:
    case MessageType::kBurnTickets:
    case MessageType::kNewcomers:
    case MessageType::kAdmit:
    case MessageType::kJoinJob: return 20;
    case MessageType::kLostRanks: return 21;
    case MessageType::kLendBuffer:
    case MessageType::kReturnBuffer:
    case MessageType::kBeginSave:
    case MessageType::kCommitSave:
    case MessageType::kSaved:
    case MessageType::kOpenPart:
    case MessageType::kListSaves:
    case MessageType::kPostChoice:
    case MessageType::kHearChoice:
    case MessageType::kFetchPart: return 22;
    case MessageType::kOpenDoor:
    case MessageType::kKnock:
    case MessageType::kTakeKnock:
    case MessageType::kClosePipe:
    case MessageType::kNcclSettings:
    case MessageType::kOpenProfile:
    case MessageType::kOpenTuning:
    case MessageType::kCloseTuning: return 23;
    default: return 1;
  }
}

VersionRange VersionsOf(const MessageHeader& request) {
  const uint32_t oldest = request.version;
  const bool says_latest = request.code > 0 && request.code <= UINT16_MAX;
  return {oldest, says_latest ? std::max(oldest, static_cast<uint32_t>(request.code)) : oldest};
}

std::vector<std::byte> EncodeFailure(MessageType type, const Status& status, uint16_t version) {
  const std::string& text = status.message();
  MessageHeader header;
  header.version = version;
  header.type = type;
  header.code = static_cast<int32_t>(status.code());
  header.tail_bytes = static_cast<uint32_t>(text.size());
  std::vector<std::byte> bytes(sizeof header + text.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, text.data(), text.size());
  return bytes;
}

Result<MessageHeader> DecodeHeader(std::span<const std::byte> bytes) {
  MessageHeader header;
  if (bytes.size() < sizeof header) {
    return InvalidArgument("a control message of {} bytes is too short", bytes.size());
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kSegmentMagic) {
    return InvalidArgument("a control message does not start with Harmonaize's magic number");
  }
  if (header.tail_bytes > bytes.size() - sizeof header) {
    return InvalidArgument("a control message promises {} bytes that it does not have",
                           header.tail_bytes);
  }
  return header;
}

Status DecodeFailure(const MessageHeader& header, std::span<const std::byte> bytes) {
  if (header.code == 0) return Status::Ok();
  const char* text = reinterpret_cast<const char*>(bytes.data()) + bytes.size() - header.tail_bytes;
  return Status(static_cast<Code>(header.code), std::string(text, header.tail_bytes));
}

Result<std::vector<int32_t>> DecodeNumbers(const MessageHeader& header,
                                           std::span<const std::byte> bytes) {
  if (header.tail_bytes % sizeof(int32_t) != 0) {
    return InvalidArgument("control message {} ends in half a number",
                           static_cast<int>(header.type));
  }
  std::vector<int32_t> numbers(header.tail_bytes / sizeof(int32_t));
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), bytes.data() + bytes.size() - header.tail_bytes, header.tail_bytes);
  }
  return numbers;
}

}  // namespace harmonaize
