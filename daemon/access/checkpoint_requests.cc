#include "daemon/access/checkpoint_requests.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/access/reply_document.h"
#include "daemon/checkpoint/checkpoint_keeper.h"
#include "daemon/checkpoint/stored_parts.h"
#include "daemon/communicator/communicator.h"
#include "daemon/formation/membership.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

/// One request of a session.
class CheckpointRequest {
 public:
  CheckpointRequest(EngineRooms& rooms, Session& session,
                    const std::shared_ptr<Connection>& connection, const MessageHeader& header,
                    const ControlMessage& message)
      : rooms_(rooms),
        session_(session),
        connection_(connection),
        header_(header),
        message_(message) {}

  Status Lend(std::shared_ptr<RegionMemory> memory) {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<LendBufferRequest>());
    HZ_ASSIGN_OR_RETURN(const Communicator* communicator, Find(request.member));
    HZ_ASSIGN_OR_RETURN(const uint32_t buffer,
                        keeper().Lend(session_.id(), *communicator, RankOf(request.member),
                                      std::move(memory), request.bytes));
    return Reply(LendBufferReply{.buffer = buffer});
  }

  Status Return() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<ReturnBufferRequest>());
    HZ_RETURN_IF_ERROR(keeper().Return(session_.id(), request.buffer));
    return Reply(EmptyReply{});
  }

  Status Begin() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<BeginSaveRequest>());
    HZ_ASSIGN_OR_RETURN(const CheckpointKeeper::Begun begun,
                        keeper().Begin(session_.id(), request.buffer, request.step));
    return Reply(BeginSaveReply{
        .round = begun.round, .save = begun.save, .waits = begun.waits ? uint32_t{1} : 0});
  }

  Status Commit() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<CommitSaveRequest>());
    HZ_RETURN_IF_ERROR(keeper().Commit(session_.id(), request.buffer,
                                       {.bytes = request.bytes,
                                        .stall_seconds = request.stall_seconds,
                                        .is_kept = (request.flags & kSaveIsKept) != 0,
                                        .to_store = (request.flags & kSaveToStore) != 0}));
    return Reply(EmptyReply{});
  }

  Status TellSaved() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<SavedRequest>());
    HZ_ASSIGN_OR_RETURN(const Communicator* communicator, Find(request.member));
    HZ_ASSIGN_OR_RETURN(const CheckpointKeeper::Saved saved, keeper().SavedBy(*communicator));
    return Reply(SavedReply{.round = saved.round,
                            .step = saved.step,
                            .peer_round = saved.peer_round,
                            .stored = saved.stored,
                            .not_stored = saved.not_stored,
                            .has_store = keeper().stored().has_store() ? uint32_t{1} : 0});
  }

  Status OpenPart() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<OpenPartRequest>());
    HZ_ASSIGN_OR_RETURN(const Communicator* communicator, Find(request.member));
    const JobTable::Key job = JobTable::KeyOf(*communicator->job());
    const KeptPart* const part = keeper().parts().FindPart(job, request.save, request.rank);
    if (part != nullptr) return ReplyPart(*part->memory, part->bytes, false);
    const PartName name = {job, request.save, request.rank};
    PartCopies::View copy = keeper().others().Find(name);
    if (copy.memory == nullptr) copy = keeper().stored().Find(name);
    if (copy.memory != nullptr) return ReplyPart(*copy.memory, copy.bytes, true);
    return Reply(OpenPartReply{});
  }

  /// Answered once the range is here.
  Status FetchPart() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<FetchPartRequest>());
    HZ_ASSIGN_OR_RETURN(const Communicator* communicator, Find(request.member));
    const PartName name = {
        .job = JobTable::KeyOf(*communicator->job()), .save = request.save, .rank = request.rank};
    auto fetched = [connection = connection_, type = header_.type](const Result<uint64_t>& bytes) {
      if (!bytes.ok()) return connection->ReplyFailure(type, bytes.status());
      connection->Reply(type, FetchPartReply{.bytes = *bytes});
    };
    if (keeper().others().Knows(name)) {
      keeper().others().Fetch(*communicator, name, request.at, request.bytes, std::move(fetched));
    } else {
      keeper().stored().Fetch(communicator->tenant(), name, request.at, request.bytes,
                              std::move(fetched));
    }
    return Status::Ok();
  }

  /// Answered once other hosts have told what they have.
  Status ListSaves() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<ListSavesRequest>());
    HZ_ASSIGN_OR_RETURN(const Communicator* communicator, Find(request.member));
    keeper().listings().List(
        JobTable::KeyOf(*communicator->job()), communicator,
        [connection = connection_, type = header_.type](const nlohmann::json& document) {
          ReplyDocument(*connection, type, JsonText(document));
        });
    return Status::Ok();
  }

  Status PostChoice() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<PostChoiceRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator, Find(request.member));
    if (RankOf(request.member) != 0) return InvalidUsage("rank 0 chooses for all ranks");
    keeper().choices().Post(*communicator, FieldText(request.choice));
    return Reply(EmptyReply{});
  }

  Status HearChoice() {
    HZ_ASSIGN_OR_RETURN(const auto request, Decode<HearChoiceRequest>());
    HZ_ASSIGN_OR_RETURN(const Communicator* communicator, Find(request.member));
    HZ_ASSIGN_OR_RETURN(const std::optional<std::string> choice,
                        keeper().choices().Hear(*communicator, RankOf(request.member)));
    HearChoiceReply reply;
    reply.is_there = choice.has_value() ? 1 : 0;
    SetFieldText(reply.choice, choice.value_or(""));
    return Reply(reply);
  }

 private:
  CheckpointKeeper& keeper() { return rooms_.checkpoints(); }

  Status ReplyPart(const PartMemory& memory, uint64_t bytes, bool is_partial) {
    const int descriptors[] = {memory.descriptor()};
    return Reply(OpenPartReply{.bytes = bytes, .is_partial = is_partial ? uint32_t{1} : 0},
                 descriptors);
  }

  template <typename Body>
  Result<Body> Decode() const {
    return DecodeBody<Body>(header_, message_.bytes);
  }
  template <typename Body>
  Status Reply(const Body& body, std::span<const int> descriptors = {}) {
    connection_->Reply(header_.type, body, descriptors);
    return Status::Ok();
  }
  Result<Communicator*> Find(uint32_t member) {
    HZ_ASSIGN_OR_RETURN(Communicator * communicator, rooms_.membership().Find(session_, member));
    if (communicator->job() == nullptr) return InvalidUsage("the communicator is not ready");
    return communicator;
  }
  /// Requires: Find has found its communicator.
  int RankOf(uint32_t member) { return session_.FindMember(member)->rank; }

  EngineRooms& rooms_;
  Session& session_;
  const std::shared_ptr<Connection>& connection_;
  const MessageHeader& header_;
  const ControlMessage& message_;
};

}  // namespace

Status AnswerCheckpointRequest(EngineRooms& rooms, Session& session,
                               const std::shared_ptr<Connection>& connection,
                               const MessageHeader& header, const ControlMessage& message,
                               std::shared_ptr<RegionMemory> memory) {
  CheckpointRequest request(rooms, session, connection, header, message);
  switch (header.type) {
    case MessageType::kLendBuffer: return request.Lend(std::move(memory));
    case MessageType::kReturnBuffer: return request.Return();
    case MessageType::kBeginSave: return request.Begin();
    case MessageType::kCommitSave: return request.Commit();
    case MessageType::kSaved: return request.TellSaved();
    case MessageType::kOpenPart: return request.OpenPart();
    case MessageType::kListSaves: return request.ListSaves();
    case MessageType::kPostChoice: return request.PostChoice();
    case MessageType::kHearChoice: return request.HearChoice();
    case MessageType::kFetchPart: return request.FetchPart();
    default: break;
  }
  return InvalidUsage("control message {} is not about checkpoints", static_cast<int>(header.type));
}

}  // namespace harmonaize::daemon
