#include "src/store/commit.h"

#include <algorithm>
#include <span>
#include <utility>

#include "src/checkpoint/checksum.h"
#include "src/checkpoint/manifest.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "src/store/sha256.h"

namespace harmonaize::store {
namespace {

using checkpoint::CommitRecord;
using checkpoint::Folder;
using checkpoint::PartManifest;

/// Returns the number of the next commit of a store.
Result<uint64_t> NextNumber(const Folder& steps) {
  HZ_ASSIGN_OR_RETURN(const std::vector<checkpoint::CheckpointSummary> list,
                      checkpoint::ListCheckpointsIn(steps));
  uint64_t newest = 0;
  for (const checkpoint::CheckpointSummary& one : list) newest = std::max(newest, one.number);
  return std::min(newest + 1, checkpoint::kMostCommitNumber);
}

Status AddPart(const Folder& folder, int32_t rank, int32_t ranks, CommitRecord* record) {
  const std::string name = checkpoint::PartFileName(rank);
  HZ_ASSIGN_OR_RETURN(const std::string text,
                      folder.ReadFile(name, checkpoint::kMostManifestBytes));
  HZ_ASSIGN_OR_RETURN(const PartManifest part, checkpoint::ParseManifestHead(text));
  const checkpoint::PartIdentity& identity = part.identity;
  const bool is_its = checkpoint::CheckpointId{identity.step, identity.save} == record->id &&
                      identity.rank == rank && identity.ranks == ranks;
  if (!is_its) {
    return InvalidArgument("{} belongs to another checkpoint", folder.PathOf(name));
  }
  if (rank == 0) {
    record->job = part.job;
    record->format = part.format;
  }
  record->is_kept = record->is_kept || identity.is_kept;
  record->bytes += part.bytes;
  record->new_bytes += part.new_bytes;
  record->time = std::max(record->time, part.time);
  record->parts.push_back({.sha256 = Sha256Of(text),
                           .checksum = checkpoint::ChecksumOf(std::as_bytes(std::span(text)))});
  return Status::Ok();
}

}  // namespace

Commit::Commit(const Store* store, OpenCheckpoint checkpoint, int32_t rank, int32_t ranks)
    : store_(store), checkpoint_(std::move(checkpoint)), rank_(rank), ranks_(ranks) {}

Result<bool> Commit::Look() {
  const Folder& folder = checkpoint_.folder;
  if (folder.BytesOfFile(checkpoint::kCommitFile).ok()) return true;
  if (IsMarkedFailed(checkpoint_)) {
    return RemoteError("another rank's part of step {} could not be written", checkpoint_.id.step);
  }
  // Files are looked for by name: lists of a network's file system may be old. Each rank begins at
  // its neighbour's, so that most looks find nothing soon.
  while (found_ < ranks_) {
    const Status found = folder.BytesOfFile(checkpoint::PartFileName(missing_rank())).status();
    if (found.code() == Code::kUnavailable) return false;
    HZ_RETURN_IF_ERROR(found);
    ++found_;
  }
  HZ_ASSIGN_OR_RETURN(const std::string text, RecordText());
  HZ_ASSIGN_OR_RETURN(is_ours_, WriteDurably(folder, checkpoint::kCommitFile, text));
  return true;
}

Result<std::string> Commit::RecordText() const {
  CommitRecord record = {.id = checkpoint_.id};
  HZ_ASSIGN_OR_RETURN(record.number, NextNumber(store_->steps()));
  for (int32_t rank = 0; rank < ranks_; ++rank) {
    HZ_RETURN_IF_ERROR(AddPart(checkpoint_.folder, rank, ranks_, &record));
  }
  return checkpoint::CommitText(record);
}

void MarkFailed(const OpenCheckpoint& checkpoint) {
  // Without it the others wait until their time is over.
  [[maybe_unused]] const Result<bool> marked =
      WriteDurably(checkpoint.folder, checkpoint::kFailedFile, "");
}

bool IsMarkedFailed(const OpenCheckpoint& checkpoint) {
  return checkpoint.folder.BytesOfFile(checkpoint::kFailedFile).ok();
}

}  // namespace harmonaize::store
