#include "daemon/formation/formation_request.h"

#include <cstring>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/multihost/host_group.h"

namespace harmonaize::daemon {
namespace {

bool GoesById(FormationKind kind) {
  return kind == FormationKind::kJoin || kind == FormationKind::kJoinGrowth;
}

}  // namespace

std::vector<uint8_t> EncodeId(const UniqueId& id) {
  std::vector<uint8_t> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

Result<UniqueId> DecodeId(const std::vector<uint8_t>& bytes) {
  UniqueId id;
  if (bytes.size() != sizeof id) return InvalidArgument("a unique id of the wrong size");
  std::memcpy(&id, bytes.data(), sizeof id);
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  return id;
}

const char* CallOf(FormationKind kind) {
  switch (kind) {
    case FormationKind::kSplit: return "ncclCommSplit";
    case FormationKind::kShrink: return "ncclCommShrink";
    case FormationKind::kGrow:
    case FormationKind::kJoinGrowth: return "ncclCommGrow";
    default: return "ncclCommInitRank";
  }
}

ApplyMessage EncodeRequest(const FormationRequest& request,
                           const CommunicatorRegistry& communicators) {
  ApplyMessage message{.kind = request.kind,
                       .round = request.round,
                       .ranks = request.ranks,
                       .rank = request.rank,
                       .takes_part = request.gets_communicator(),
                       .color = request.color.value_or(0),
                       .key = request.key,
                       .excluded = request.excluded,
                       .name = request.name,
                       .job = EncodeJob(request.claims),
                       .user = request.user,
                       .on_gpu = request.on_gpu};
  if (GoesById(request.kind)) {
    message.id = EncodeId(request.id);
  } else {
    message.communicator = communicators.FindById(request.parent)->host_group()->roster().key;
  }
  return message;
}

Result<FormationRequest> DecodeRequest(const ApplyMessage& message,
                                       const CommunicatorRegistry& communicators) {
  FormationRequest request{.kind = message.kind,
                           .round = message.round,
                           .ranks = message.ranks,
                           .rank = message.rank,
                           .key = message.key,
                           .excluded = message.excluded,
                           .name = message.name,
                           .claims = DecodeJob(message.job),
                           .user = message.user,
                           .on_gpu = message.on_gpu};
  if (GoesById(message.kind)) {
    HZ_ASSIGN_OR_RETURN(request.id, DecodeId(message.id));
  } else if (const Communicator* const parent = communicators.FindByKey(message.communicator)) {
    request.parent = parent->id();
  }
  if (message.kind == FormationKind::kSplit && message.takes_part) request.color = message.color;
  return request;
}

}  // namespace harmonaize::daemon
