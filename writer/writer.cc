#include "writer/writer.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/read_whole.h"
#include "src/checkpoint/folder.h"
#include "src/checkpoint/part_image.h"
#include "src/store/retention.h"
#include "writer/daemon_report.h"

namespace harmonaize::writer {
namespace {

using checkpoint::CheckpointCommitted;
using checkpoint::CheckpointId;
using checkpoint::OpenStore;
using checkpoint::PartManifest;
using checkpoint::PartWritten;
using checkpoint::SaveFailed;
using checkpoint::SaveImage;
using store::OpenCheckpoint;

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kNsPerSecond = 1'000'000'000;
/// Pauses between two looks for the parts of others: short at first, since ranks save together, and
/// then as long as a person hardly notices, for the sake of a file system that many ranks ask.
constexpr uint64_t kLeastLookPauseNs = 20 * kNsPerMs;
constexpr uint64_t kMostLookPauseNs = 2 * kNsPerSecond;
/// Longest wait for the parts of others, in nanoseconds: ranks begin a save together, and the
/// slowest disk of a job is not ten minutes behind.
constexpr uint64_t kCommitWithinNs = 600 * kNsPerSecond;
/// Most saves that wait for parts of others. The oldest makes room: if its parts did not come while
/// newer ones were written, they hardly will.
constexpr size_t kMostPending = 4;
/// Longest time, in nanoseconds, for which the writer that has committed a save comes back to old
/// checkpoints that others are at: the other writers have let go of them after their next look.
constexpr uint64_t kTidyForNs = 2 * kMostLookPauseNs;
/// Longest wait in seconds for a rank that does not read what it is told.
constexpr time_t kSendWithinSeconds = 5;

double SecondsSince(uint64_t begun_ns) {
  return static_cast<double>(MonotonicNanoseconds() - begun_ns) / 1e9;
}

CheckpointId IdOf(const SaveImage& save) {
  return {save.step, save.save};
}

/// Calls a function that may run out of memory.
template <typename Function>
auto Guarded(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& error) {
    return InternalError("a save could not be written: {}", error.what());
  }
}

}  // namespace

Writer::Writer(ControlSocket socket) : socket_(std::move(socket)) {
  const timeval patience{kSendWithinSeconds, 0};
  setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

Status Writer::Run() {
  while (has_rank_ || !queue_.empty() || HasToLook()) {
    if (has_rank_) {
      HZ_RETURN_IF_ERROR(Receive(queue_.empty() ? MillisecondsToNextLook() : 0));
    } else if (queue_.empty()) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kLeastLookPauseNs));
    }
    if (MonotonicNanoseconds() >= end_ns_) break;
    if (!queue_.empty()) WriteNext();
    LookAtCommits();
  }
  const Status late = Unavailable("the rank has ended, and the time to go on without it is over");
  for (const Queued& queued : queue_) Fail(queued.save, late);
  for (Pending& pending : pending_) GiveUp(&pending, late);
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------
// What the rank says

Status Writer::Receive(int timeout_ms) {
  Result<ControlMessage> message = socket_.Receive(timeout_ms);
  while (message.ok()) {
    HZ_RETURN_IF_ERROR(Take(std::move(*message)));
    message = socket_.Receive(0);
  }
  if (message.status().code() != Code::kInProgress) NoteThatRankHasGone();
  return Status::Ok();
}

void Writer::NoteThatRankHasGone() {
  if (!std::exchange(has_rank_, false)) return;
  const uint64_t linger = open_.has_value() ? open_->linger_seconds : 0;
  end_ns_ = MonotonicNanoseconds() + linger * kNsPerSecond;
}

Status Writer::Take(ControlMessage message) {
  const std::string_view text(reinterpret_cast<const char*>(message.bytes.data()),
                              message.bytes.size());
  HZ_ASSIGN_OR_RETURN(checkpoint::ToWriter said, checkpoint::DecodeToWriter(text));
  if (auto* const open = std::get_if<OpenStore>(&said)) return Take(std::move(*open));
  if (!open_.has_value()) return InvalidArgument("the rank has not named a store");
  if (const auto* const lend = std::get_if<checkpoint::LendBuffer>(&said)) {
    return Take(*lend, &message);
  }
  return Take(std::get<SaveImage>(said));
}

Status Writer::Take(OpenStore open) {
  if (open_.has_value()) return InvalidArgument("the rank names a store a second time");
  if (open.version != checkpoint::kWriterProtocolVersion) {
    return InvalidArgument("the rank speaks version {} of the protocol, and this writer {}",
                           open.version, checkpoint::kWriterProtocolVersion);
  }
  open_ = std::move(open);
  Send(checkpoint::StoreOpened{});
  return Status::Ok();
}

Status Writer::Take(const checkpoint::LendBuffer& lend, ControlMessage* message) {
  HZ_RETURN_IF_ERROR(message->descriptors_status);
  if (message->descriptors.size() != 1) return InvalidArgument("a buffer comes without its memory");
  struct stat state {};
  const FileDescriptor& memory = message->descriptors.front();
  const bool is_sound = fstat(memory.get(), &state) == 0 && S_ISREG(state.st_mode) &&
                        static_cast<uint64_t>(state.st_size) >= lend.bytes;
  if (!is_sound) return InvalidArgument("a buffer is no memory of {} bytes", lend.bytes);
  buffers_[lend.index] =
      std::make_shared<const Buffer>(Buffer{std::move(message->descriptors.front()), lend.bytes});
  return Status::Ok();
}

Status Writer::Take(const SaveImage& save) {
  const auto buffer = buffers_.find(save.buffer);
  if (buffer == buffers_.end() || save.bytes > buffer->second->bytes) {
    return InvalidArgument("a save of step {} lies in no buffer that was lent", save.step);
  }
  if (queue_.size() == checkpoint::kMostLentBuffers) {
    return InvalidArgument("more saves wait than there can be buffers");
  }
  queue_.push_back({save, buffer->second, MonotonicNanoseconds()});
  return Status::Ok();
}

void Writer::Send(const checkpoint::FromWriter& message) {
  if (!has_rank_) return;
  const Result<std::string> text = checkpoint::Encode(message);
  if (!text.ok() || !socket_.Send(std::as_bytes(std::span(*text))).ok()) {
    Log(LogLevel::kInfo, kLogInit, "the rank was not told what became of a save");
  }
}

// ---------------------------------------------------------------------------------------------
// Saves

Status Writer::GoOn() {
  if (has_rank_ && socket_.PeerGone()) {
    // What it said last is still to be read.
    HZ_RETURN_IF_ERROR(Receive(0));
  }
  if (MonotonicNanoseconds() >= end_ns_) {
    return Unavailable("the rank has ended, and the time to go on without it is over");
  }
  LookAtCommits();
  return Status::Ok();
}

Status Writer::OpenTheStore() {
  if (store_.has_value()) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(store_, store::Store::Open(open_->folder));
  // One of the ranks tidies up what earlier jobs have left.
  if (open_->rank == 0) HZ_RETURN_IF_ERROR(store::RemoveAbandoned(*store_));
  part_writer_ = std::make_unique<store::PartWriter>(&*store_, *open_, [this] { return GoOn(); });
  return Status::Ok();
}

void Writer::WriteNext() {
  const Queued queued = queue_.front();
  queue_.pop_front();
  const SaveImage& save = queued.save;
  std::optional<OpenCheckpoint> checkpoint;
  const Result<PartManifest> written = Guarded([&]() { return WritePart(queued, &checkpoint); });
  if (!written.ok()) {
    if (checkpoint.has_value()) store::GiveUp(*store_, std::move(*checkpoint));
    Fail(save, written.status());
    ReportFailure(open_->job, save.step, written.status().message());
    return;
  }
  Send(PartWritten{.step = save.step,
                   .save = save.save,
                   .bytes = written->bytes,
                   .new_bytes = written->new_bytes,
                   .seconds = SecondsSince(queued.at_ns)});
  Follow(std::move(*checkpoint), queued, written->bytes);
}

Result<PartManifest> Writer::WritePart(const Queued& queued,
                                       std::optional<OpenCheckpoint>* checkpoint) {
  const SaveImage& save = queued.save;
  HZ_RETURN_IF_ERROR(OpenTheStore());
  HZ_ASSIGN_OR_RETURN(*checkpoint, OpenCheckpoint::Join(*store_, IdOf(save)));
  // A writer before this one may have written the part; nothing of a committed one changes.
  if ((*checkpoint)->folder.BytesOfFile(checkpoint::kCommitFile).ok()) return PartManifest();
  if (store::IsMarkedFailed(**checkpoint)) {
    return RemoteError("another rank's part of step {} could not be written", save.step);
  }
  const int memory = queued.buffer->memory.get();
  const checkpoint::ReadImage read = [&](uint64_t at, std::span<std::byte> into) {
    return ReadWholeAt(memory, at, into, "the rank's buffer");
  };
  return part_writer_->Write(save, read, **checkpoint);
}

void Writer::Fail(const SaveImage& save, const Status& status) {
  Log(LogLevel::kWarning, kLogInit, "step {} was not saved: {}", save.step, status.message());
  Send(SaveFailed{
      .step = save.step, .save = save.save, .code = status.code(), .message = status.message()});
}

// ---------------------------------------------------------------------------------------------
// Commits

void Writer::Follow(OpenCheckpoint checkpoint, const Queued& queued, uint64_t bytes) {
  if (pending_.size() == kMostPending) {
    Pending& oldest = pending_.front();
    GiveUp(&oldest, RemoteError("the part of rank {} did not come while {} newer ones were saved",
                                oldest.commit.missing_rank(), kMostPending));
    pending_.pop_front();
  }
  pending_.push_back({store::Commit(&*store_, std::move(checkpoint), open_->rank, open_->ranks),
                      queued.at_ns, MonotonicNanoseconds() + kCommitWithinNs, bytes});
  look_pause_ns_ = kLeastLookPauseNs;
  next_look_ns_ = 0;
}

int Writer::MillisecondsToNextLook() const {
  if (!HasToLook()) return -1;
  const uint64_t now = MonotonicNanoseconds();
  return next_look_ns_ <= now ? 0 : static_cast<int>((next_look_ns_ - now) / kNsPerMs) + 1;
}

void Writer::LookAtCommits() {
  if (!HasToLook() || MonotonicNanoseconds() < next_look_ns_) return;
  // Telling of what has happened may take long; nothing of it looks again meanwhile.
  std::deque<Pending> looked_at = std::exchange(pending_, {});
  std::erase_if(looked_at, [&](Pending& pending) { return LookAt(&pending); });
  pending_ = std::move(looked_at);
  if (tidy_until_ns_ != 0) TidyUp();
  next_look_ns_ = MonotonicNanoseconds() + look_pause_ns_;
  look_pause_ns_ = std::min(look_pause_ns_ * 2, kMostLookPauseNs);
}

bool Writer::LookAt(Pending* pending) {
  const Result<bool> committed = Guarded([&]() { return pending->commit.Look(); });
  if (!committed.ok()) {
    GiveUp(pending, committed.status());
    return true;
  }
  if (*committed) {
    OnCommitted(*pending);
    return true;
  }
  if (MonotonicNanoseconds() < pending->deadline_ns) return false;
  const Status late = RemoteError("the part of rank {} did not come in {} s",
                                  pending->commit.missing_rank(), kCommitWithinNs / kNsPerSecond);
  GiveUp(pending, late);
  // One of the ranks tells the daemon, so that it hears of it once.
  if (open_->rank == 0) ReportFailure(open_->job, pending->commit.id().step, late.message());
  return true;
}

void Writer::OnCommitted(const Pending& pending) {
  const CheckpointId& id = pending.commit.id();
  Send(CheckpointCommitted{.step = id.step, .save = id.save});
  if (!pending.commit.is_ours()) return;
  ReportCommit(open_->job, id.step, SecondsSince(pending.begun_ns), pending.bytes);
  tidy_until_ns_ = MonotonicNanoseconds() + kTidyForNs;
  look_pause_ns_ = kLeastLookPauseNs;
}

void Writer::TidyUp() {
  const Result<uint32_t> in_use = Guarded([&]() -> Result<uint32_t> {
    HZ_ASSIGN_OR_RETURN(const uint32_t left, store::RemoveOld(*store_, open_->keep));
    if (!std::exchange(has_swept_, true)) HZ_RETURN_IF_ERROR(store_->RemoveAllUnused());
    return left;
  });
  if (!in_use.ok()) {
    Log(LogLevel::kWarning, kLogInit, "old checkpoints were not removed: {}",
        in_use.status().message());
  }
  const bool is_done = !in_use.ok() || *in_use == 0 || MonotonicNanoseconds() >= tidy_until_ns_;
  if (is_done) tidy_until_ns_ = 0;
}

void Writer::GiveUp(Pending* pending, const Status& status) {
  const CheckpointId id = pending->commit.id();
  store::GiveUp(*store_, std::move(pending->commit.checkpoint()));
  Fail({.step = id.step, .save = id.save}, status);
}

}  // namespace harmonaize::writer
