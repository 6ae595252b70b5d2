#include "plugins/nccl-net/carriers.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "plugins/nccl-abi/logger.h"

namespace harmonaize::nccl_net {
namespace {

/// Name of the communicators that carry connections, for people.
constexpr const char* kCarrierName = "nccl-net";

UniqueId DoorOf(const Handle& handle) {
  UniqueId door{.kind = UniqueId::Kind::kDoor};
  door.token = handle.token;
  std::memcpy(door.reserved.data(), handle.sealed_address.data(), handle.sealed_address.size());
  return door;
}

Handle HandleOf(const UniqueId& door, uint32_t listener) {
  Handle handle;
  handle.listener = listener;
  handle.token = door.token;
  std::memcpy(handle.sealed_address.data(), door.reserved.data(), handle.sealed_address.size());
  return handle;
}

/// Returns whether a carrier in this state is of use, or may come to be.
bool IsUsable(const Status& state) {
  return state.ok() || state.code() == Code::kInProgress;
}

}  // namespace

Carriers& Carriers::Get() {
  // A thread that is not in the child may have held the lock of its parent's table.
  static std::atomic<Carriers*> current{nullptr};
  static std::mutex making;
  Carriers* found = current.load(std::memory_order_acquire);
  if (found != nullptr && found->process_ == getpid()) return *found;
  const std::lock_guard lock(making);
  found = current.load(std::memory_order_relaxed);
  if (found == nullptr || found->process_ != getpid()) {
    found = new Carriers();
    current.store(found, std::memory_order_release);
  }
  return *found;
}

Result<Listener*> Carriers::Listen() {
  HZ_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Session::Get());
  HZ_ASSIGN_OR_RETURN(const OpenDoorReply opened, PipePort::OpenDoor(*session));
  const std::lock_guard lock(mutex_);
  auto listener = std::make_unique<Listener>();
  listener->number = next_listener_++;
  listener->session = session;
  listener->handle = HandleOf(opened.door, listener->number);
  return (listeners_[listener->number] = std::move(listener)).get();
}

void Carriers::Close(Listener* listener) {
  const std::lock_guard lock(mutex_);
  for (const auto& [carrier, pipe] : listener->waiting) {
    carrier->Send({.kind = Control::Kind::kRefused, .pipe = pipe});
    static_cast<void>(carrier->Advance());
    --carrier->users;
  }
  listeners_.erase(listener->number);
  DropUnused();
}

// ---------------------------------------------------------------------------------------------
// Connecting

Result<Connection*> Carriers::Connect(Handle* handle) {
  if (handle->magic != Handle::kMagic) {
    return InvalidArgument(
        "the handle was not made by Harmonaize's net plugin: all ranks must load the same one");
  }
  const std::lock_guard lock(mutex_);
  Reap();
  auto pending = pending_.find(handle->pending);
  if (pending == pending_.end()) {
    HZ_ASSIGN_OR_RETURN(handle->pending, Begin(*handle));
    pending = pending_.find(handle->pending);
  }
  Result<Connection*> connection = GoOn(&pending->second);
  if (connection.ok() && *connection == nullptr) return connection;
  if (!connection.ok()) --pending->second.carrier->users;
  pending_.erase(pending);
  handle->pending = 0;
  DropUnused();
  return connection;
}

Result<uint64_t> Carriers::Begin(const Handle& handle) {
  HZ_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Session::Get());
  const std::pair place(session->number(), handle.token);
  const auto found = outgoing_.find(place);
  if (found == outgoing_.end() || !IsUsable(found->second->Advance())) {
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<PipePort> port,
                        PipePort::Knock(session, DoorOf(handle), kCarrierName));
    if (port == nullptr) return InternalError("the daemon gave no place to a knock");
    outgoing_[place] = std::make_shared<Carrier>(std::move(port));
  }
  const std::shared_ptr<Carrier>& carrier = outgoing_[place];
  ++carrier->users;
  const uint64_t number = next_pending_++;
  Pending& pending = pending_[number];
  pending.carrier = carrier;
  pending.pipe = carrier->NewPipe();
  carrier->Send(
      {.kind = Control::Kind::kConnect, .pipe = pending.pipe, .listener = handle.listener});
  return number;
}

Result<Connection*> Carriers::GoOn(Pending* pending) {
  const Status state = pending->carrier->Advance();
  if (!IsUsable(state)) return state;
  TakeAnswers(pending->carrier);
  const auto answer = pending->carrier->answers.extract(pending->pipe);
  if (answer.empty()) return static_cast<Connection*>(nullptr);
  if (answer.mapped() != Control::Kind::kAccepted) {
    return RemoteError("the other process does not listen for this connection any more");
  }
  return new Connection(pending->carrier, pending->pipe, true);
}

void Carriers::TakeAnswers(const std::shared_ptr<Carrier>& carrier) {
  Control control;
  while (carrier->Receive(&control)) OnControl(carrier, control);
}

// ---------------------------------------------------------------------------------------------
// Accepting

Result<Connection*> Carriers::Accept(Listener* listener) {
  const std::lock_guard lock(mutex_);
  Reap();
  HZ_RETURN_IF_ERROR(AdvanceIncoming(listener->session));
  if (listener->waiting.empty()) return static_cast<Connection*>(nullptr);
  const auto [carrier, pipe] = listener->waiting.front();
  listener->waiting.pop_front();
  auto connection = std::make_unique<Connection>(carrier, pipe, false);
  carrier->Send({.kind = Control::Kind::kAccepted, .pipe = pipe});
  static_cast<void>(carrier->Advance());  // else at the next call
  return connection.release();
}

Status Carriers::AdvanceIncoming(const std::shared_ptr<Session>& session) {
  if (session->inherited()) {
    return InvalidUsage("this process was forked from the one that listens");
  }
  if (session->lost()) return session->CheckAlive();
  if (knocks_of_ != session->number()) {
    knocks_of_ = session->number();
    knocks_ = 0;
  }
  while (knocks_ != PipePort::Knocks(*session)) {
    ++knocks_;
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<PipePort> port, PipePort::TakeKnock(session));
    if (port != nullptr) incoming_.push_back(std::make_shared<Carrier>(std::move(port)));
  }
  for (const std::shared_ptr<Carrier>& carrier : incoming_) {
    static_cast<void>(carrier->Advance());  // its connections find out if it has failed
    TakeAnswers(carrier);
  }
  DropUnused();
  return Status::Ok();
}

void Carriers::OnControl(const std::shared_ptr<Carrier>& carrier, const Control& control) {
  if (control.kind != Control::Kind::kConnect) {
    carrier->answers[control.pipe] = control.kind;
    return;
  }
  const auto listener = listeners_.find(static_cast<uint32_t>(control.listener));
  if (listener == listeners_.end()) {
    carrier->Send({.kind = Control::Kind::kRefused, .pipe = control.pipe});
    static_cast<void>(carrier->Advance());
    return;
  }
  ++carrier->users;
  listener->second->waiting.emplace_back(carrier, control.pipe);
}

// ---------------------------------------------------------------------------------------------
// Ends

void Carriers::Close(Connection* connection) {
  connection->Close();
  const std::lock_guard lock(mutex_);
  closing_.emplace_back(connection);
  Reap();
  DropUnused();
}

void Carriers::GiveUpPending() {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, pending] : pending_) --pending.carrier->users;
  pending_.clear();
  DropUnused();
}

// Destroys the closed connections whose memory the daemon has let go of.
void Carriers::Reap() {
  std::erase_if(closing_, [](const std::unique_ptr<Connection>& connection) {
    if (!connection->Abandoned()) return false;
    --connection->carrier()->users;
    return true;
  });
}

// Gives up the carriers of this process's own that no connection uses, and those of others that
// have ended. One that others have made goes when they give it up.
void Carriers::DropUnused() {
  std::erase_if(outgoing_, [](const auto& entry) { return entry.second->users == 0; });
  std::erase_if(incoming_, [](const std::shared_ptr<Carrier>& carrier) {
    if (carrier->users > 0) return false;
    return !IsUsable(carrier->Advance());
  });
}

}  // namespace harmonaize::nccl_net
