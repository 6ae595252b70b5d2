#include "src/client/operation/stream.h"

#include <shared_mutex>
#include <unordered_set>

#include "src/client/operation/copier.h"
#include "src/client/operation/copy_queue.h"
#include "src/client/operation/notices.h"

namespace harmonaize {
namespace {

/// Positions that one stream may have queued before its caller waits, as a CUDA launch queue does.
constexpr uint64_t kQueueDepth = 1024;

/// Nanoseconds in which small operations end whose ranks are all there,
constexpr uint64_t kBriefWait = 200'000;
/// and bytes that staged data adds to that for each nanosecond, on a busy host.
constexpr uint64_t kStagedBytesPerNanosecond = 1;

std::shared_mutex streams_mutex;
std::unordered_set<const void*>& LiveStreams() {
  static auto* const streams = new std::unordered_set<const void*>();
  return *streams;
}

}  // namespace

HostStream::HostStream(std::shared_ptr<Session> session, uint32_t index, uint64_t position)
    : session_(std::move(session)),
      index_(index),
      copies_(std::make_shared<CopyQueue>(session_, index)),
      last_position_(position),
      failures_told_(session_->stream_slot(index).error_count.load(std::memory_order_acquire)) {}

Result<HostStream*> HostStream::Create() {
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::Get());
  HZ_ASSIGN_OR_RETURN(const OpenStreamReply reply,
                      session->Call<OpenStreamReply>(OpenStreamRequest{}));
  Copier::Get().Start();
  auto* stream = new HostStream(std::move(session), reply.stream, reply.position);
  const std::unique_lock lock(streams_mutex);
  LiveStreams().insert(stream);
  return stream;
}

HostStream* HostStream::From(const void* handle) {
  const std::shared_lock lock(streams_mutex);
  if (!LiveStreams().contains(handle)) return nullptr;
  return static_cast<HostStream*>(const_cast<void*>(handle));
}

Status HostStream::Destroy(HostStream* stream) {
  Status status = stream->Synchronize();
  {
    const std::unique_lock lock(streams_mutex);
    LiveStreams().erase(stream);
  }
  // A forked child has no part in the stream, and leaves the memory as it is.
  if (stream->session_->inherited()) return status;
  // After a failure something may be left that will never be done.
  static_cast<void>(stream->copies_->Drop(nullptr));
  CloseStreamRequest request;
  request.stream = stream->index_;
  const Result<EmptyReply> reply = stream->session_->Call<EmptyReply>(request);
  if (status.ok()) status = reply.status();
  delete stream;
  return status;
}

Status HostStream::CheckUsable() {
  if (!session_->inherited()) return Status::Ok();
  return InvalidUsage(
      "this process was forked from the one that made the host stream; make a new stream in the "
      "child");
}

Status HostStream::Query() {
  HZ_RETURN_IF_ERROR(CheckUsable());
  HZ_RETURN_IF_ERROR(session_->lost() ? session_->CheckAlive() : Status::Ok());
  if (!copies_->Reached(last_position_.load(std::memory_order_relaxed))) {
    HZ_RETURN_IF_ERROR(session_->CheckAlive());
    PassOnNotices();
    return Status(Code::kInProgress, "operations are queued");
  }
  return TakeFailure();
}

bool HostStream::Idle() {
  const uint64_t last = last_position_.load(std::memory_order_relaxed);
  if (session_->stream_slot(index_).completed.load(std::memory_order_acquire) < last) return false;
  return copies_->CopyUpTo(last);
}

bool HostStream::IdleSoon() {
  if (Idle()) {
    was_waited_for_.store(false, std::memory_order_relaxed);
    return true;
  }
  if (was_waited_for_.exchange(true, std::memory_order_relaxed) || copies_->has_windows()) {
    return false;
  }
  const uint64_t nanoseconds = kBriefWait + copies_->staged_bytes() / kStagedBytesPerNanosecond;
  session_->WaitBriefly(index_, last_position_.load(std::memory_order_relaxed), nanoseconds);
  const bool idle = Idle();
  if (idle) was_waited_for_.store(false, std::memory_order_relaxed);
  return idle;
}

Status HostStream::Drain(const std::function<Status()>& on_tick) {
  HZ_RETURN_IF_ERROR(CheckUsable());
  return copies_->Await(last_position_.load(std::memory_order_relaxed), on_tick);
}

Status HostStream::Synchronize() {
  HZ_RETURN_IF_ERROR(Drain([this] {
    PassOnNotices();
    return Status::Ok();
  }));
  return TakeFailure();
}

// Communicators come and go while a stream stays.
void HostStream::AddNotices(const std::shared_ptr<Notices>& notices) {
  const std::lock_guard lock(notices_mutex_);
  std::erase_if(notices_, [&](const std::weak_ptr<Notices>& one) {
    return one.expired() || one.lock() == notices;
  });
  notices_.push_back(notices);
}

// Other threads may add notices meanwhile, and free communicators.
void HostStream::PassOnNotices() {
  std::vector<std::weak_ptr<Notices>> all;
  {
    const std::lock_guard lock(notices_mutex_);
    all = notices_;
  }
  for (const std::weak_ptr<Notices>& one : all) {
    if (const std::shared_ptr<Notices> notices = one.lock()) notices->PassOn();
  }
}

bool HostStream::HasRoom() {
  const uint64_t last = last_position_.load(std::memory_order_relaxed);
  if (last < kQueueDepth) return true;
  return last - session_->stream_slot(index_).completed.load(std::memory_order_acquire) <
         kQueueDepth;
}

Status HostStream::AwaitRoom(const std::function<Status()>& on_tick) {
  const uint64_t last = last_position_.load(std::memory_order_relaxed);
  // Waits until half of the depth is free; otherwise it would wait anew at every operation.
  return copies_->Await(last - kQueueDepth / 2, on_tick);
}

Status HostStream::TakeFailure() {
  const std::lock_guard lock(failure_mutex_);
  const StreamSlot& slot = session_->stream_slot(index_);
  const uint32_t count = slot.error_count.load(std::memory_order_acquire);
  if (count == failures_told_) return Status::Ok();
  failures_told_ = count;
  const auto code = static_cast<Code>(slot.error_code.load(std::memory_order_relaxed));
  const uint32_t member = slot.error_member.load(std::memory_order_relaxed);
  return Status(code, member < kMaxMembers ? session_->member_slot(member).error.Get() : "");
}

}  // namespace harmonaize
