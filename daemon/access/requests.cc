#include "daemon/access/requests.h"

#include <array>
#include <optional>
#include <utility>

#include "daemon/access/checkpoint_requests.h"
#include "daemon/access/reply_document.h"
#include "daemon/communicator/communicator.h"
#include "daemon/formation/membership.h"
#include "daemon/nccl_tuning/nccl_tuning.h"
#include "daemon/probing/probe_service.h"
#include "daemon/profiles/profiles.h"
#include "daemon/reports/explain_communicator.h"
#include "daemon/reports/explain_report.h"
#include "daemon/reports/status_report.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/session_keeper.h"
#include "src/executor/host/executor.h"
#include "src/ipc/messages.h"
#include "src/schedule/check/check.h"

namespace harmonaize::daemon {
namespace {

Reader ReaderAt(const Connection& connection) {
  return {connection.tenant().number, connection.is_operator()};
}

/// Returns whether a request of this type leaves the engine and the session as they were.
bool OnlyReads(MessageType type) {
  return type == MessageType::kStatus || type == MessageType::kExplain ||
         type == MessageType::kEstimate || type == MessageType::kMapPeerRegion ||
         type == MessageType::kNewcomers || type == MessageType::kLostRanks ||
         type == MessageType::kSaved || type == MessageType::kOpenPart ||
         type == MessageType::kListSaves;
}

/// One request on its way to an answer.
class Request {
 public:
  Request(EngineRooms& rooms, Session& session, const std::shared_ptr<Connection>& connection,
          const MessageHeader& header, const ControlMessage& message,
          std::shared_ptr<RegionMemory> region)
      : rooms_(rooms),
        session_(session),
        connection_(connection),
        header_(header),
        message_(message),
        region_(std::move(region)) {}

  void Answer() {
    const Status status = Dispatch();
    if (!status.ok()) connection_->ReplyFailure(header_.type, status);
  }

 private:
  Status Dispatch() {
    switch (header_.type) {
      case MessageType::kCreateId: return CreateId();
      case MessageType::kJoin: return Join();
      case MessageType::kSplit: return Split();
      case MessageType::kShrink: return Shrink();
      case MessageType::kCreateGrowId: return CreateGrowId();
      case MessageType::kGrow: return Grow();
      case MessageType::kLeave: return Leave();
      case MessageType::kAbort: return Abort();
      case MessageType::kRevoke: return Revoke();
      case MessageType::kRegisterRegion: return RegisterRegion();
      case MessageType::kUnregisterRegion: return UnregisterRegion();
      case MessageType::kOpenStream: return OpenStream();
      case MessageType::kCloseStream: return CloseStream();
      case MessageType::kEstimate: return Estimate();
      case MessageType::kStatus: return ReportStatus();
      case MessageType::kAttachInline: return AttachInline();
      case MessageType::kOfferRegion: return OfferRegion();
      case MessageType::kMapPeerRegion: return MapPeerRegion();
      case MessageType::kExplain: return Explain();
      case MessageType::kProbe: break;  // the reception takes it only without a session
      case MessageType::kHello: break;
      case MessageType::kDocument: break;      // the reception answers it
      case MessageType::kNcclSettings: break;  // likewise
      case MessageType::kMakeTicket: return MakeTicket();
      case MessageType::kBurnTickets: return BurnTickets();
      case MessageType::kNewcomers: return CountNewcomers();
      case MessageType::kAdmit: return Admit();
      case MessageType::kJoinJob: return JoinJob();
      case MessageType::kLostRanks: return FindLostRanks();
      case MessageType::kOpenDoor: return OpenDoor();
      case MessageType::kKnock: return Knock();
      case MessageType::kTakeKnock: return ReplyMember(rooms_.membership().TakeKnock(session_));
      case MessageType::kClosePipe: return ClosePipe();
      case MessageType::kLendBuffer:
      case MessageType::kReturnBuffer:
      case MessageType::kBeginSave:
      case MessageType::kCommitSave:
      case MessageType::kSaved:
      case MessageType::kOpenPart:
      case MessageType::kListSaves:
      case MessageType::kPostChoice:
      case MessageType::kHearChoice:
      case MessageType::kFetchPart:
        return AnswerCheckpointRequest(rooms_, session_, connection_, header_, message_,
                                       std::move(region_));
      case MessageType::kOpenProfile: return OpenProfile();
      case MessageType::kOpenTuning: return OpenTuning();
      case MessageType::kCloseTuning: return CloseTuning();
    }
    return InvalidUsage("control message {} is not expected here", static_cast<int>(header_.type));
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
  Status ReplyMember(const Result<uint32_t>& member) {
    if (!member.ok()) return member.status();
    return Reply(MemberReply{*member});
  }
  Status CreateId() {
    HZ_ASSIGN_OR_RETURN(const UniqueId id, rooms_.membership().CreateId(session_));
    return Reply(CreateIdReply{id});
  }

  Status Join() {
    HZ_ASSIGN_OR_RETURN(const JoinRequest request, Decode<JoinRequest>());
    return ReplyMember(rooms_.membership().Join(session_, request.id, request.ranks, request.rank,
                                                request.on_gpu != 0, CleanFieldText(request.name)));
  }

  Status Split() {
    HZ_ASSIGN_OR_RETURN(const SplitRequest request, Decode<SplitRequest>());
    const std::optional<int> color =
        request.has_color != 0 ? std::optional<int>(request.color) : std::nullopt;
    return ReplyMember(rooms_.membership().Split(session_, request.member, color, request.key,
                                                 CleanFieldText(request.name)));
  }

  Status Shrink() {
    HZ_ASSIGN_OR_RETURN(const ShrinkRequest request, Decode<ShrinkRequest>());
    HZ_ASSIGN_OR_RETURN(std::vector<int32_t> excluded, DecodeNumbers(header_, message_.bytes));
    return ReplyMember(rooms_.membership().Shrink(session_, request.member, std::move(excluded),
                                                  request.abort_parent != 0,
                                                  CleanFieldText(request.name)));
  }

  Status OpenDoor() {
    HZ_ASSIGN_OR_RETURN(const OpenDoorReply reply, rooms_.membership().OpenDoor(session_));
    return Reply(reply);
  }

  Status Knock() {
    HZ_ASSIGN_OR_RETURN(const KnockRequest request, Decode<KnockRequest>());
    return ReplyMember(
        rooms_.membership().Knock(session_, request.door, CleanFieldText(request.name)));
  }

  Status ClosePipe() {
    HZ_ASSIGN_OR_RETURN(const ClosePipeRequest request, Decode<ClosePipeRequest>());
    // Messages that were posted before may still be in the ring. If this fails, the session has
    // ended, and no process waits for the answer.
    if (!rooms_.session_keeper().TakeInPosted(session_)) return Status::Ok();
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    HZ_RETURN_IF_ERROR(communicator->ClosePipe(
        {session_.FindMember(request.member)->rank, request.peer, request.pipe}));
    return Reply(EmptyReply{});
  }

  Status CreateGrowId() {
    HZ_ASSIGN_OR_RETURN(const CreateGrowIdRequest request, Decode<CreateGrowIdRequest>());
    rooms_.membership().CreateGrowId(
        session_, request.member,
        [connection = connection_, type = header_.type](const Result<UniqueId>& id) {
          if (!id.ok()) return connection->ReplyFailure(type, id.status());
          connection->Reply(type, CreateIdReply{*id});
        });
    return Status::Ok();
  }

  Status Grow() {
    HZ_ASSIGN_OR_RETURN(const GrowRequest request, Decode<GrowRequest>());
    Membership& membership = rooms_.membership();
    const std::string name = CleanFieldText(request.name);
    if (request.member != kNoMember) {
      return ReplyMember(membership.GrowFrom(session_, request.member, request.ranks, name));
    }
    return ReplyMember(
        membership.JoinGrowth(session_, request.id, request.ranks, request.rank, name));
  }

  Status Leave() {
    HZ_ASSIGN_OR_RETURN(const LeaveRequest request, Decode<LeaveRequest>());
    // If this fails, the session has ended, and no process waits for the answer.
    if (!rooms_.session_keeper().TakeInPosted(session_)) return Status::Ok();
    Member* const member = session_.FindMember(request.member);
    HZ_RETURN_IF_ERROR(
        rooms_.membership().Leave(session_, request.member, [member] { member->TellDeparture(); }));
    return Reply(EmptyReply{});
  }

  Status Abort() {
    HZ_ASSIGN_OR_RETURN(const AbortRequest request, Decode<AbortRequest>());
    HZ_RETURN_IF_ERROR(rooms_.membership().Abort(session_, request.member));
    return Reply(EmptyReply{});
  }

  Status Revoke() {
    HZ_ASSIGN_OR_RETURN(const RevokeRequest request, Decode<RevokeRequest>());
    HZ_RETURN_IF_ERROR(rooms_.membership().Revoke(session_, request.member));
    return Reply(EmptyReply{});
  }

  Status RegisterRegion() {
    HZ_ASSIGN_OR_RETURN(const uint32_t region, session_.AddRegion(std::move(region_)));
    return Reply(RegisterRegionReply{region, session_.FindRegion(region)->shareable() ? 1u : 0u});
  }

  Status UnregisterRegion() {
    HZ_ASSIGN_OR_RETURN(const UnregisterRegionRequest request, Decode<UnregisterRegionRequest>());
    // Operations that use it may still be in the ring.
    // If this fails, the session has ended, and no process waits for the answer.
    if (!rooms_.session_keeper().TakeInPosted(session_)) return Status::Ok();
    HZ_RETURN_IF_ERROR(session_.GiveUpRegion(request.region));
    const bool gone = session_.FindRegion(request.region) == nullptr;
    return Reply(UnregisterRegionReply{gone ? 1u : 0u});
  }

  Status OpenStream() {
    HZ_ASSIGN_OR_RETURN(const Session::OpenedStream opened, session_.OpenStream());
    return Reply(OpenStreamReply{opened.position, opened.stream, 0});
  }

  Status CloseStream() {
    HZ_ASSIGN_OR_RETURN(const CloseStreamRequest request, Decode<CloseStreamRequest>());
    HZ_RETURN_IF_ERROR(session_.CloseStream(request.stream));
    return Reply(EmptyReply{});
  }

  Status Estimate() {
    HZ_ASSIGN_OR_RETURN(const EstimateRequest request, Decode<EstimateRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    const int ranks = communicator->ranks();
    if (static_cast<int>(request.collective) >= kCollectiveCount ||
        DataTypeSize(request.type) == 0 ||
        (HasRoot(request.collective) && (request.root < 0 || request.root >= ranks))) {
      return InvalidArgument("an estimate for an operation that does not exist");
    }
    if (communicator->state() != Communicator::State::kReady) return communicator->failure();
    // The schedule is one of all ranks, as if they were on one host. It grows with their square.
    constexpr int kMostEstimatedRanks = 64;
    if (communicator->other_hosts() != nullptr && ranks > kMostEstimatedRanks) {
      return InvalidUsage("an estimate over hosts is for up to {} ranks", kMostEstimatedRanks);
    }
    const uint64_t block = request.count * DataTypeSize(request.type);
    communicator->plans().With(request.collective, request.root, false,
                               [executor = &rooms_.executor(), connection = connection_,
                                type = header_.type, block](const Result<const Schedule*>& plan) {
                                 if (!plan.ok())
                                   return connection->ReplyFailure(type, plan.status());
                                 const HostTraffic traffic = CountTraffic(**plan).hosts.front();
                                 connection->Reply(
                                     type, EstimateReply{executor->EstimateSeconds(
                                               traffic.read * block, traffic.written * block)});
                               });
    return Status::Ok();
  }

  Status AttachInline() {
    HZ_ASSIGN_OR_RETURN(const AttachInlineRequest request, Decode<AttachInlineRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    HZ_ASSIGN_OR_RETURN(InlineSegment* const segment, communicator->Inline());
    if (segment == nullptr) return Reply(AttachInlineReply{});
    Member& member = *session_.FindMember(request.member);
    if (std::exchange(member.attached_inline, true)) {
      return InvalidUsage("member {} has been given the segment already", request.member);
    }
    segment->Attach(member.rank, &member.slot->inline_path);
    const int descriptors[] = {segment->descriptor()};
    HZ_RETURN_IF_ERROR(Reply(AttachInlineReply{communicator->id(), segment->bytes()}, descriptors));
    segment->NoteHanded();
    return Status::Ok();
  }

  Status OfferRegion() {
    HZ_ASSIGN_OR_RETURN(const OfferRegionRequest request, Decode<OfferRegionRequest>());
    HZ_RETURN_IF_ERROR(rooms_.membership().Find(session_, request.member).status());
    HZ_RETURN_IF_ERROR(session_.OfferRegion(session_.FindMember(request.member), request.region));
    return Reply(OfferRegionReply{});
  }

  Status MapPeerRegion() {
    HZ_ASSIGN_OR_RETURN(const MapPeerRegionRequest request, Decode<MapPeerRegionRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    const bool exists = request.rank >= 0 && request.rank < communicator->ranks();
    Member* const peer = exists ? communicator->member(request.rank) : nullptr;
    Region* const region = peer == nullptr ? nullptr : peer->session->FindRegion(request.region);
    if (region == nullptr || !region->shareable() || !peer->Offers(request.region)) {
      return RemoteError(
          "rank {} has no region {} any more, or none that this communicator may map", request.rank,
          request.region);
    }
    const int descriptors[] = {region->descriptor()};
    return Reply(MapPeerRegionReply{region->bytes()}, descriptors);
  }

  /// Returns the call that answers with what `reply` makes of what a home has answered.
  template <typename Reply>
  TicketClient::Done ReplyLater(Reply reply) {
    return [connection = connection_, type = header_.type,
            reply](const Result<TicketsMessage>& answer) {
      if (!answer.ok()) return connection->ReplyFailure(type, answer.status());
      connection->Reply(type, reply(*answer));
    };
  }

  Status MakeTicket() {
    HZ_ASSIGN_OR_RETURN(const MakeTicketRequest request, Decode<MakeTicketRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    rooms_.membership().tickets().Make(
        {.communicator = communicator}, true, request.uses, request.seconds,
        [connection = connection_, type = header_.type](const Result<TicketClient::Made>& made) {
          if (!made.ok()) return connection->ReplyFailure(type, made.status());
          MakeTicketReply reply;
          SetFieldText(reply.ticket, made->text);
          connection->Reply(type, reply);
        });
    return Status::Ok();
  }

  Status BurnTickets() {
    HZ_ASSIGN_OR_RETURN(const BurnTicketsRequest request, Decode<BurnTicketsRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    rooms_.membership().tickets().Burn(
        *communicator, ReplyLater([](const TicketsMessage&) { return EmptyReply{}; }));
    return Status::Ok();
  }

  Status CountNewcomers() {
    HZ_ASSIGN_OR_RETURN(const NewcomersRequest request, Decode<NewcomersRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    rooms_.membership().tickets().Count(*communicator, ReplyLater([](const TicketsMessage& answer) {
      return NewcomersReply{answer.waiting};
    }));
    return Status::Ok();
  }

  Status Admit() {
    HZ_ASSIGN_OR_RETURN(const AdmitRequest request, Decode<AdmitRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    if (request.most < 0) {
      return InvalidArgument("most is {}, less than 0 newcomers", request.most);
    }
    rooms_.membership().tickets().Admit(
        *communicator, request.most,
        ReplyLater([](const TicketsMessage& answer) { return AdmitReply{answer.ranks}; }));
    return Status::Ok();
  }

  Status FindLostRanks() {
    HZ_ASSIGN_OR_RETURN(const LostRanksRequest request, Decode<LostRanksRequest>());
    HZ_ASSIGN_OR_RETURN(Communicator * communicator,
                        rooms_.membership().Find(session_, request.member));
    rooms_.membership().lost_ranks().Ask(
        *communicator,
        [connection = connection_, type = header_.type](const Result<LostRanks::Lost>& lost) {
          if (!lost.ok()) return connection->ReplyFailure(type, lost.status());
          connection->Reply(type, LostRanksReply{lost->count}, {},
                            std::as_bytes(std::span(lost->ranks)));
        });
    return Status::Ok();
  }

  Status JoinJob() {
    HZ_ASSIGN_OR_RETURN(const JoinJobRequest request, Decode<JoinJobRequest>());
    rooms_.membership().JoinJob(
        session_, CleanFieldText(request.job), FieldText(request.ticket), request.wait_ms,
        [connection = connection_,
         type = header_.type](const Result<std::optional<JobPlace>>& place) {
          if (!place.ok()) return connection->ReplyFailure(type, place.status());
          if (!place->has_value()) return connection->Reply(type, JoinJobReply{});
          connection->Reply(type, JoinJobReply{.id = (*place)->id,
                                               .ranks = (*place)->ranks,
                                               .rank = (*place)->rank,
                                               .admitted = 1});
        });
    return Status::Ok();
  }

  Status OpenProfile() {
    HZ_ASSIGN_OR_RETURN(const OpenProfileRequest request, Decode<OpenProfileRequest>());
    HZ_ASSIGN_OR_RETURN(const uint32_t events,
                        rooms_.profiles().Open(session_, request.communicator, std::move(region_)));
    return Reply(OpenProfileReply{.events = events});
  }

  Status OpenTuning() {
    HZ_ASSIGN_OR_RETURN(const OpenTuningRequest request, Decode<OpenTuningRequest>());
    HZ_ASSIGN_OR_RETURN(const NcclTuning::Opened opened,
                        rooms_.nccl_tuning().Open(session_, request.communicator, request.ranks,
                                                  request.hosts, std::move(region_)));
    if (opened.number == 0) return Reply(OpenTuningReply{});
    return Reply(OpenTuningReply{.number = opened.number}, std::array{opened.descriptor});
  }

  Status CloseTuning() {
    HZ_ASSIGN_OR_RETURN(const CloseTuningRequest request, Decode<CloseTuningRequest>());
    HZ_RETURN_IF_ERROR(rooms_.nccl_tuning().Close(session_, request.number));
    return Reply(CloseTuningReply{});
  }

  Status ReportStatus() {
    AnswerStatus(rooms_, *connection_);
    return Status::Ok();
  }

  Status Explain() {
    HZ_ASSIGN_OR_RETURN(const ExplainRequest request, Decode<ExplainRequest>());
    AnswerExplain(rooms_, *connection_, request);
    return Status::Ok();
  }

  EngineRooms& rooms_;
  Session& session_;
  const std::shared_ptr<Connection> connection_;
  const MessageHeader header_;
  const ControlMessage& message_;
  std::shared_ptr<RegionMemory> region_;
};

}  // namespace

void AnswerGuarded(Connection& connection, MessageType type, const std::function<void()>& answer) {
  const bool answered = Guarded(answer, [&](const Status& exception) {
    LogException("a request", exception);
    connection.ReplyFailure(type, exception);
  });
  if (!answered) connection.CutSoon();
}

void AnswerStatus(EngineRooms& rooms, Connection& connection) {
  ReplyDocument(connection, MessageType::kStatus,
                StatusReport(rooms.report_sources(), ReaderAt(connection)));
}

void AnswerExplain(EngineRooms& rooms, Connection& connection, const ExplainRequest& request) {
  const std::string communicator = CleanFieldText(request.communicator);
  const Reader reader = ReaderAt(connection);
  Result<std::string> report =
      communicator.empty() ? ExplainReport(rooms.report_sources(), reader, request.ranks)
                           : ExplainCommunicator(rooms.report_sources(), reader, communicator);
  if (!report.ok()) return connection.ReplyFailure(MessageType::kExplain, report.status());
  ReplyDocument(connection, MessageType::kExplain, *std::move(report));
}

void AnswerProbe(EngineRooms& rooms, const std::shared_ptr<Connection>& connection,
                 const ProbeRequest& request, const std::string& addresses) {
  Result<std::vector<transport::NetworkAddress>> parsed = ParseProbeAddresses(addresses);
  if (!parsed.ok()) return connection->ReplyFailure(MessageType::kProbe, parsed.status());
  ProbeService::Calls calls;
  calls.progress = [connection](const std::string& what) {
    ProbeReply reply;
    SetFieldText(reply.progress, what);
    connection->Tell(MessageType::kProbe, reply);
  };
  calls.done = [connection](const Result<std::string>& measured) {
    connection->probe = 0;
    if (!measured.ok()) return connection->ReplyFailure(MessageType::kProbe, measured.status());
    ReplyDocument(*connection, MessageType::kProbe, *measured, ProbeReply{measured->size(), {}});
  };
  if (connection->probe != 0) {
    return connection->ReplyFailure(MessageType::kProbe,
                                    InvalidUsage("this connection has asked for a probe already"));
  }
  const Result<uint64_t> probe = rooms.probes().Lead(
      {std::move(*parsed), request.seconds, connection->is_operator()}, std::move(calls));
  if (!probe.ok()) return connection->ReplyFailure(MessageType::kProbe, probe.status());
  connection->probe = *probe;
}

void ForgetAsker(EngineRooms& rooms, const Connection& connection) {
  if (connection.probe != 0) rooms.probes().Cancel(connection.probe);
}

void AnswerRequest(EngineRooms& rooms, uint32_t session,
                   const std::shared_ptr<Connection>& connection, const ControlMessage& message,
                   std::shared_ptr<RegionMemory> region) {
  Session* const found = rooms.session_keeper().FindSessionOf(*connection, session);
  if (found == nullptr) return;
  const Result<MessageHeader> header = DecodeHeader(message.bytes);
  if (!header.ok()) {
    rooms.session_keeper().CutOff(*found, header.status().message());
    return;
  }
  const bool dealt_with = Guarded(
      [&] { Request(rooms, *found, connection, *header, message, std::move(region)).Answer(); },
      [&](const Status& exception) {
        LogException("a request", exception);
        connection->ReplyFailure(header->type, exception);
        if (OnlyReads(header->type)) return;
        // The request may have changed half of what it was to change: a rank without its place in a
        // formation, say. The loss of a session cleans up after any state, and tells its peers, so
        // the session is ended. The tenant still reads the reply first.
        Session* const left = rooms.session_keeper().FindSessionOf(*connection, session);
        if (left != nullptr) rooms.session_keeper().CutOff(*left, exception.message());
      });
  // The reception's thread sees the end of the connection, and ends the session.
  if (!dealt_with) connection->CutSoon();
}

}  // namespace harmonaize::daemon
