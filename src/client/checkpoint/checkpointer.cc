#include "src/client/checkpoint/checkpointer.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <variant>

#include "src/base/processors.h"
#include "src/base/wall_clock.h"
#include "src/client/checkpoint/parallel_copy.h"
#include "src/client/operation/communicator.h"

namespace harmonaize {
namespace {

using checkpoint::FromWriter;
using checkpoint::PartLayout;
using checkpoint::Shard;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Saves that an object can still tell of: those in both buffers, and some that are being stored.
constexpr size_t kMostRecords = 16;
/// Most threads that copy: beyond a few they wait for memory.
constexpr int kMostThreads = 4;
/// Shortest and longest pause between two questions to the daemon.
constexpr std::chrono::microseconds kFirstPause{100};
constexpr std::chrono::microseconds kLongestPause{20'000};
/// Longest time for which a save waits until the one before the last is written. A writer whose
/// disk hangs must not stop the job for good.
constexpr std::chrono::minutes kWriterPatience{10};
/// Part of a buffer that is left for shards that grow, so that not each one makes a new buffer.
constexpr uint64_t kSpareDivisor = 16;

/// A pause between questions, which grows.
class Pause {
 public:
  void Wait() {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, kLongestPause);
  }

 private:
  std::chrono::microseconds pause_ = kFirstPause;
};

/// Returns the rank's share of the processors that it may run on.
int ThreadsOf(const Communicator& communicator) {
  const int processors = static_cast<int>(UsableProcessors().size());
  return std::clamp(processors / std::max(1, communicator.ranks_together()), 1, kMostThreads);
}

/// Returns whether `round` is among those that a SavedReply tells by bits. The lowest stands for
/// `newest`.
bool IsAmong(uint64_t bits, uint64_t newest, uint64_t round) {
  return round <= newest && newest - round < 64 && (bits >> (newest - round) & 1) != 0;
}

bool HasShards(const PartLayout& layout, const std::vector<Shard>& shards) {
  return layout.bytes > 0 &&
         std::equal(layout.shards.begin(), layout.shards.end(), shards.begin(), shards.end(),
                    [](const checkpoint::PlacedShard& placed, const Shard& shard) {
                      return placed.shard == shard;
                    });
}

}  // namespace

Result<std::unique_ptr<Checkpointer>> Checkpointer::Make(const Communicator& communicator,
                                                         const CheckpointerOptions& options) {
  if (communicator.job().empty()) {
    return InvalidUsage("the communicator is not ready, so there is no job to save");
  }
  std::unique_ptr<Checkpointer> checkpointer(new Checkpointer(communicator, options));
  HZ_RETURN_IF_ERROR(checkpointer->CheckFolder());
  return checkpointer;
}

Checkpointer::Checkpointer(const Communicator& communicator, const CheckpointerOptions& options)
    : session_(communicator.shared_session()),
      member_(communicator.member()),
      rank_(communicator.rank()),
      ranks_(communicator.ranks()),
      job_(communicator.job()),
      options_(options),
      threads_(options.threads > 0 ? options.threads : ThreadsOf(communicator)) {}

Checkpointer::~Checkpointer() = default;

/// Tells now what the first save would find out.
Status Checkpointer::CheckFolder() {
  const std::string& folder = options_.folder;
  if (folder.empty()) return Status::Ok();
  if (has_provider_store()) {
    HZ_ASSIGN_OR_RETURN(const SavedReply reply, AskDaemon());
    if (reply.has_store != 0) return Status::Ok();
    return InvalidUsage("this provider stores no checkpoints ('{}'): name a folder of your own",
                        folder);
  }
  if (folder.front() != '/' || folder.size() > checkpoint::kMostFolderBytes) {
    return InvalidArgument("the folder '{}' is not an absolute path of up to {} bytes, or '{}'",
                           folder, checkpoint::kMostFolderBytes, kProviderStore);
  }
  return FindWriter().status();
}

// ---------------------------------------------------------------------------------------------
// A save

Result<std::vector<std::byte*>> Checkpointer::Begin(uint64_t step, bool is_kept,
                                                    std::vector<Shard> shards) {
  if (begun_.has_value()) {
    return InvalidUsage("the save of step {} has begun, and is not committed",
                        begun_->identity.step);
  }
  if (step > INT64_MAX) return InvalidArgument("step {} is not below 2^63", step);
  const auto since = steady_clock::now();
  HZ_RETURN_IF_ERROR(LayOut(std::move(shards)));
  Slot& slot = slots_[next_slot_];
  HZ_RETURN_IF_ERROR(AwaitWriter(slot));
  HZ_RETURN_IF_ERROR(MakeRoom(&slot));
  HZ_ASSIGN_OR_RETURN(const BeginSaveReply reply, AwaitRound(slot, step));
  slot.save = reply.save;
  begun_ = BegunSave{.slot = next_slot_,
                     .round = reply.round,
                     .identity = {.step = step,
                                  .save = reply.save,
                                  .rank = rank_,
                                  .ranks = ranks_,
                                  .is_kept = is_kept},
                     .since = since};
  std::vector<std::byte*> rooms;
  rooms.reserve(layout_.shards.size());
  for (const checkpoint::PlacedShard& placed : layout_.shards) {
    rooms.push_back(slot.buffer->data() + placed.at);
  }
  return rooms;
}

Status Checkpointer::Commit() {
  if (!begun_.has_value()) return InvalidUsage("no save has begun");
  BegunSave begun = *std::exchange(begun_, std::nullopt);
  begun.identity.saved_ns = static_cast<int64_t>(UnixSeconds() * 1e9);
  const SaveBuffer& buffer = *slots_[begun.slot].buffer;
  layout_.Write(begun.identity, buffer.data());
  CommitSaveRequest request;
  request.bytes = layout_.bytes;
  request.stall_seconds = std::chrono::duration<double>(steady_clock::now() - begun.since).count();
  request.buffer = buffer.number();
  if (begun.identity.is_kept) request.flags |= kSaveIsKept;
  if (has_provider_store()) request.flags |= kSaveToStore;
  HZ_RETURN_IF_ERROR(session_->Call<EmptyReply>(request).status());
  next_slot_ = (begun.slot + 1) % slots_.size();
  PrepareNext();
  if (records_.size() == kMostRecords) records_.pop_front();
  records_.push_back(
      {.step = begun.identity.step, .round = begun.round, .save = begun.identity.save});
  if (options_.folder.empty() || has_provider_store()) return Status::Ok();
  // What is in memory counts, whatever becomes of the writer.
  if (const Status handed = HandOver(begun); !handed.ok()) LoseWriter(handed);
  return Status::Ok();
}

Status Checkpointer::Abandon() {
  if (!begun_.has_value()) return InvalidUsage("no save has begun");
  begun_.reset();
  return Status::Ok();
}

Status Checkpointer::Save(uint64_t step, bool is_kept, std::vector<Shard> shards,
                          std::span<const std::byte* const> data) {
  if (data.size() != shards.size()) {
    return InvalidArgument("{} shards, and the data of {}", shards.size(), data.size());
  }
  HZ_ASSIGN_OR_RETURN(const std::vector<std::byte*> rooms, Begin(step, is_kept, std::move(shards)));
  std::vector<CopyPiece> pieces;
  pieces.reserve(rooms.size());
  for (size_t i = 0; i < rooms.size(); ++i) {
    pieces.push_back({data[i], rooms[i], BytesOf(layout_.shards[i].shard)});
  }
  CopyInParallel(pieces, threads_);
  return Commit();
}

/// Finds places for shards. Jobs save the same shards again and again.
Status Checkpointer::LayOut(std::vector<Shard> shards) {
  if (HasShards(layout_, shards)) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(layout_, PartLayout::Of(std::move(shards)));
  return Status::Ok();
}

/// Makes the slot's buffer large enough.
Status Checkpointer::MakeRoom(Slot* slot) {
  const bool has_room = slot->buffer != nullptr && slot->buffer->bytes() >= layout_.bytes;
  if (has_room && !slot->is_spoilt) return Status::Ok();
  if (slot->buffer != nullptr) {
    HZ_RETURN_IF_ERROR(slot->buffer->TakeBack());
    slot->buffer.reset();
  }
  slot->is_spoilt = false;
  HZ_ASSIGN_OR_RETURN(SharedMemory memory,
                      MemoryFor(layout_.bytes + layout_.bytes / kSpareDivisor));
  HZ_ASSIGN_OR_RETURN(slot->buffer, SaveBuffer::Lend(session_, member_, std::move(memory)));
  if (writer_ == nullptr) return Status::Ok();
  const Status lent = writer_->Lend(
      {.index = static_cast<uint32_t>(slot - slots_.data()), .bytes = slot->buffer->bytes()},
      slot->buffer->descriptor());
  if (!lent.ok()) LoseWriter(lent);
  return Status::Ok();
}

/// Returns memory of at least so many bytes: what was prepared, if it is enough.
Result<SharedMemory> Checkpointer::MemoryFor(uint64_t bytes) {
  const std::unique_ptr<PreparedMemory> prepared = std::exchange(prepared_, nullptr);
  if (prepared != nullptr && prepared->bytes() >= bytes) {
    std::optional<SharedMemory> memory = prepared->Take();
    if (memory.has_value()) return std::move(*memory);
  }
  return MakeSaveMemory(bytes);
}

/// Has memory made for the next save, beside the rank's work, if it has none yet.
void Checkpointer::PrepareNext() {
  if (slots_[next_slot_].buffer != nullptr || prepared_ != nullptr) return;
  prepared_ = std::make_unique<PreparedMemory>(slots_[1 - next_slot_].buffer->bytes());
}

/// Waits until all ranks have what this one has saved before, and voids what lies in the slot.
Result<BeginSaveReply> Checkpointer::AwaitRound(const Slot& slot, uint64_t step) {
  BeginSaveRequest request;
  request.step = step;
  request.buffer = slot.buffer->number();
  Pause pause;
  for (;;) {
    HZ_ASSIGN_OR_RETURN(const BeginSaveReply reply, session_->Call<BeginSaveReply>(request));
    if (reply.waits == 0) return reply;
    pause.Wait();
  }
}

// ---------------------------------------------------------------------------------------------
// The writer

Status Checkpointer::StartWriter() {
  HZ_ASSIGN_OR_RETURN(writer_,
                      WriterProcess::Start({.folder = options_.folder,
                                            .job = job_,
                                            .rank = rank_,
                                            .ranks = ranks_,
                                            .format = options_.format,
                                            .keep = options_.keep,
                                            .most_bytes_per_second = options_.most_bytes_per_second,
                                            .linger_seconds = options_.linger_seconds}));
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const SaveBuffer* const buffer = slots_[i].buffer.get();
    if (buffer == nullptr) continue;
    HZ_RETURN_IF_ERROR(writer_->Lend({.index = i, .bytes = buffer->bytes()}, buffer->descriptor()));
  }
  return Status::Ok();
}

Status Checkpointer::HandOver(const BegunSave& begun) {
  if (writer_ == nullptr) HZ_RETURN_IF_ERROR(StartWriter());
  HZ_RETURN_IF_ERROR(writer_->Save({.buffer = static_cast<uint32_t>(begun.slot),
                                    .step = begun.identity.step,
                                    .save = begun.identity.save,
                                    .bytes = layout_.bytes,
                                    .is_kept = begun.identity.is_kept}));
  slots_[begun.slot].is_being_written = true;
  return Status::Ok();
}

/// Waits until the writer has read the slot.
Status Checkpointer::AwaitWriter(const Slot& slot) {
  HZ_RETURN_IF_ERROR(HearWriter(0));
  const auto until = steady_clock::now() + kWriterPatience;
  while (slot.is_being_written) {
    // A wait is cut into pieces only so that a lost daemon is noticed.
    HZ_RETURN_IF_ERROR(HearWriter(100));
    HZ_RETURN_IF_ERROR(session_->CheckAlive());
    if (steady_clock::now() >= until) {
      LoseWriter(SystemError("the checkpoint before the last is not written after {} minutes",
                             kWriterPatience.count()));
    }
  }
  return Status::Ok();
}

/// Takes in what the writer has said, and waits so long for the first of it.
Status Checkpointer::HearWriter(int timeout_ms) {
  while (writer_ != nullptr) {
    const Result<std::optional<FromWriter>> message = writer_->Next(timeout_ms);
    if (!message.ok()) {
      LoseWriter(message.status());
      return Status::Ok();
    }
    if (!message->has_value()) return Status::Ok();
    Take(**message);
    timeout_ms = 0;
  }
  return Status::Ok();
}

/// Gives up the writer. The next save starts another one. This one may still be there and read: its
/// buffers are not written again, or it could store a mixture.
void Checkpointer::LoseWriter(const Status& why) {
  writer_.reset();
  for (Slot& slot : slots_) {
    slot.is_spoilt |= std::exchange(slot.is_being_written, false);
  }
  for (SaveRecord& record : records_) {
    if (!record.is_stored && record.failure.ok()) record.failure = why;
  }
}

void Checkpointer::Take(const FromWriter& message) {
  const auto release = [&](uint64_t save) {
    for (Slot& slot : slots_) {
      if (slot.save == save) slot.is_being_written = false;
    }
  };
  if (const auto* written = std::get_if<checkpoint::PartWritten>(&message)) {
    release(written->save);
  } else if (const auto* failed = std::get_if<checkpoint::SaveFailed>(&message)) {
    release(failed->save);
    SaveRecord* const record = FindRecord(failed->save);
    if (record != nullptr) record->failure = Status(failed->code, failed->message);
  } else if (const auto* committed = std::get_if<checkpoint::CheckpointCommitted>(&message)) {
    SaveRecord* const record = FindRecord(committed->save);
    if (record != nullptr) record->is_stored = true;
  }
}

// ---------------------------------------------------------------------------------------------
// What has become of saves

SaveRecord* Checkpointer::FindRecord(uint64_t save) {
  const auto found = std::find_if(records_.begin(), records_.end(),
                                  [&](const SaveRecord& one) { return one.save == save; });
  return found == records_.end() ? nullptr : &*found;
}

/// Asks what all ranks have saved, and takes it in.
Result<SavedReply> Checkpointer::AskDaemon() {
  SavedRequest request;
  request.member = member_;
  HZ_ASSIGN_OR_RETURN(const SavedReply reply, session_->Call<SavedReply>(request));
  for (SaveRecord& record : records_) {
    if (record.round <= reply.round) record.is_in_memory = true;
    // A round whose copies were not made before the next one's is not known to have any.
    if (record.round == reply.peer_round) record.is_at_peer = true;
    if (IsAmong(reply.stored, reply.round, record.round)) record.is_stored = true;
    if (IsAmong(reply.not_stored, reply.round, record.round)) {
      record.failure = InvalidUsage(
          "step {} is not in the provider's store: the event checkpoint.lost says why ('harmonaize "
          "events --types checkpoint.lost')",
          record.step);
    }
  }
  return reply;
}

Result<SaveRecord> Checkpointer::Look(uint64_t step) {
  HZ_RETURN_IF_ERROR(HearWriter(0));
  const auto found = std::find_if(records_.rbegin(), records_.rend(),
                                  [&](const SaveRecord& one) { return one.step == step; });
  if (found == records_.rend()) {
    return InvalidArgument("step {} is not among the last {} that were saved", step, kMostRecords);
  }
  const bool may_be_stored = has_provider_store() && !found->is_stored && found->failure.ok();
  if (!found->is_at_peer || may_be_stored) HZ_RETURN_IF_ERROR(AskDaemon().status());
  return *found;
}

Status Checkpointer::Await(uint64_t step, Place place, milliseconds timeout) {
  const auto until = steady_clock::now() + timeout;
  Pause pause;
  for (;;) {
    HZ_ASSIGN_OR_RETURN(const SaveRecord record, Look(step));
    if (place == Place::kMemory && record.is_in_memory) return Status::Ok();
    if (place == Place::kPeer && record.is_at_peer) return Status::Ok();
    if (place == Place::kStorage) {
      if (record.is_stored) return Status::Ok();
      HZ_RETURN_IF_ERROR(record.failure);
      if (options_.folder.empty()) return InvalidUsage("these checkpoints are not stored");
    }
    if (steady_clock::now() >= until) {
      return Status(Code::kInProgress, "the checkpoint is not there yet");
    }
    pause.Wait();
  }
}

Status Checkpointer::Close() {
  begun_.reset();
  writer_.reset();
  prepared_.reset();
  Status first;
  for (Slot& slot : slots_) {
    if (slot.buffer == nullptr) continue;
    const Status taken = slot.buffer->TakeBack();
    if (first.ok() && !taken.ok()) first = taken;
    slot.buffer.reset();
  }
  return first;
}

}  // namespace harmonaize
