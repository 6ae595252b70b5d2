#include "src/client/pipes/pipe_port.h"

#include <utility>

namespace harmonaize {

Result<OpenDoorReply> PipePort::OpenDoor(Session& session) {
  return session.Call<OpenDoorReply>(OpenDoorRequest{});
}

template <typename Request>
Result<std::unique_ptr<PipePort>> PipePort::Make(std::shared_ptr<Session> session,
                                                 const Request& request) {
  HZ_ASSIGN_OR_RETURN(const MemberReply reply, session->template Call<MemberReply>(request));
  if (reply.member == kNoMember) return std::unique_ptr<PipePort>();
  if (reply.member >= kMaxMembers) {
    return InternalError("the daemon answered with member {}", reply.member);
  }
  return std::unique_ptr<PipePort>(new PipePort(std::move(session), reply.member));
}

Result<std::unique_ptr<PipePort>> PipePort::Knock(std::shared_ptr<Session> session,
                                                  const UniqueId& door, const std::string& name) {
  KnockRequest request;
  request.door = door;
  SetFieldText(request.name, name);
  return Make(std::move(session), request);
}

uint32_t PipePort::Knocks(const Session& session) {
  return session.knocks();
}

Result<std::unique_ptr<PipePort>> PipePort::TakeKnock(std::shared_ptr<Session> session) {
  return Make(std::move(session), TakeKnockRequest{});
}

PipePort::~PipePort() {
  if (session_->inherited() || session_->lost()) return;
  const uint32_t departures = slot().departures.load(std::memory_order_acquire);
  LeaveRequest request;
  request.member = member_;
  // Where this fails the daemon is gone, and keeps nothing of this rank.
  if (!session_->Call<EmptyReply>(request).ok()) return;
  static_cast<void>(session_->WaitForDeparture(member_, departures));
}

Status PipePort::State() {
  if (session_->lost()) return session_->CheckAlive();
  switch (static_cast<MemberState>(slot().state.load(std::memory_order_acquire))) {
    case MemberState::kReady: return Status::Ok();
    case MemberState::kForming:
      HZ_RETURN_IF_ERROR(session_->CheckAlive());
      return {Code::kInProgress, "the other process has not accepted yet"};
    default:
      return {static_cast<Code>(slot().error_code.load(std::memory_order_acquire)),
              slot().error.Get()};
  }
}

Status PipePort::CheckHealth() {
  HZ_RETURN_IF_ERROR(session_->CheckAlive());
  return State();
}

std::string PipePort::LastFailure() const {
  return slot().error.Get();
}

Status PipePort::Post(const Message& message) {
  if (!session_->room().Take(1)) return {Code::kInProgress, "the daemon holds as much as it may"};
  OperationDescriptor descriptor;
  descriptor.flags = message.awaited ? kPipeMessage : kPipeMessage | kNotAwaited;
  descriptor.collective = message.sends ? Collective::kSend : Collective::kReceive;
  descriptor.member = member_;
  descriptor.stream = member_;
  descriptor.root = 1 - slot().rank.load(std::memory_order_relaxed);
  descriptor.sequence = message.name;
  descriptor.count = message.bytes;
  descriptor.scalar = message.pipe;
  descriptor.send = message.sends ? message.data : message.outcome;
  descriptor.receive = message.sends ? message.outcome : message.data;
  const Status submitted = session_->Submit({&descriptor, 1});
  if (!submitted.ok()) session_->room().GiveBack(1);
  return submitted;
}

Status PipePort::ClosePipe(uint32_t pipe) {
  ClosePipeRequest request;
  request.member = member_;
  request.peer = 1 - slot().rank.load(std::memory_order_relaxed);
  request.pipe = pipe;
  return session_->Call<EmptyReply>(request).status();
}

}  // namespace harmonaize
