#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "src/base/status.h"
#include "src/checkpoint/folder.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "src/store/export.h"
#include "src/store/object_layout.h"
#include "src/store/shard_stream.h"

namespace harmonaize::store {

/// The folder that an export makes: it has another name until it is whole, and is removed if it
/// never is. Thread: one.
class ExportFolder {
 public:
  /// Errors: kInvalidUsage if the target exists; kSystemError.
  static Result<std::unique_ptr<ExportFolder>> Make(checkpoint::StoredCheckpoint* stored,
                                                    const ExportOptions& options,
                                                    const Progress& progress);
  ~ExportFolder();

  /// Makes a folder below. Errors: kSystemError.
  Result<checkpoint::Folder> MakeFolder(const std::string& name);
  const checkpoint::Folder& folder() const { return folder_; }

  /// Gives `into` a file of the checkpoint under another name: a link, where that can be. Errors:
  /// kSystemError.
  Status AddObject(size_t object, const checkpoint::Folder& into, const std::string& name);
  /// Writes a file with data of shards. `data` are their bytes, by number in the layout that
  /// `lay_out` returns for their CRC-32s. Returns the layout. Errors: kSystemError; those of
  /// `read`.
  Result<ObjectLayout> AddFile(
      std::span<const checkpoint::Shard> shards, bool with_crc32,
      const std::function<ObjectLayout(std::span<const ShardToLay>)>& lay_out,
      const ReadShard& read, const checkpoint::Folder& into, const std::string& name);
  /// Writes a file of which all bytes are known. Errors: kSystemError.
  Status AddText(const std::string& text, const checkpoint::Folder& into, const std::string& name);

  /// Makes all of it durable, and gives it its name. Errors: kInvalidUsage if the target exists by
  /// now; kSystemError.
  Status Finish();
  ExportSummary& summary() { return summary_; }

 private:
  ExportFolder(checkpoint::StoredCheckpoint* stored, const ExportOptions& options,
               const Progress& progress);

  Status CopyObject(size_t object, const checkpoint::Folder& into, const std::string& name);
  void Advance(uint64_t bytes);

  checkpoint::StoredCheckpoint* const stored_;
  const ExportOptions options_;
  const Progress progress_;
  ShardStream stream_;
  std::string temporary_;  ///< "": it has its name.
  checkpoint::Folder folder_;
  ExportSummary summary_;
};

/// Each makes one kind of folder (export.h).
Status ExportSafetensors(checkpoint::StoredCheckpoint* stored, ExportFolder* folder);
Status ExportDcp(checkpoint::StoredCheckpoint* stored, ExportFolder* folder);
Status ExportUcp(checkpoint::StoredCheckpoint* stored, ExportFolder* folder);

}  // namespace harmonaize::store
