#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/store_format.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "src/store/verify.h"

namespace harmonaize::store {

/// What an export has made.
struct ExportSummary {
  uint64_t files = 0;
  uint64_t linked_files = 0;  ///< Files of the store that take no room of their own.
  uint64_t bytes = 0;
  uint64_t written_bytes = 0;
  std::vector<std::string> notes = {};  ///< What a reader of the export would miss, in sentences.
};

struct ExportOptions {
  checkpoint::StoreFormat format = checkpoint::StoreFormat::kSafetensors;
  std::string target = {};
  bool uses_links = true;  ///< If not, every file is written anew.
};

/// Makes a folder of a checkpoint as other programs read it. It appears whole, or not at all.
/// Errors: kInvalidUsage if the target exists; kInvalidArgument if the checkpoint is damaged;
/// kSystemError.
Result<ExportSummary> Export(checkpoint::StoredCheckpoint* stored, const ExportOptions& options,
                             const Progress& progress);

}  // namespace harmonaize::store
