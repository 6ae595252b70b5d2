#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/checkpoint/part_image.h"
#include "src/checkpoint/shard_source.h"

namespace harmonaize {

/// A part of a checkpoint in shared memory of this host.
struct OpenPart {
  FileDescriptor memory;
  uint64_t bytes = 0;
  /// Brings a range here that is to be read; empty: all of the part is here.
  std::function<Status(uint64_t at, uint64_t bytes)> fetch = {};
  /// Returns the memory that the part lies in now: the daemon may have given the one above back,
  /// and cleared it, and have brought the part into another one since. Not valid: it has none, or
  /// its rank overwrites the part.
  std::function<Result<FileDescriptor>()> reopen = {};
  /// It was read without being looked at again.
  bool is_unconfirmed = false;
};

/// Reads shards from images of parts in shared memory, which other hosts' parts are first brought
/// to. The memory is read by system calls: whoever has saved it may take its pages away, which
/// would end this process at an access.
class MemorySource final : public checkpoint::ShardSource {
 public:
  /// Takes over the parts of one save. Errors: kInvalidArgument for what is no image, and for parts
  /// of another save.
  static Result<std::unique_ptr<MemorySource>> Of(std::vector<OpenPart> parts, uint64_t save);

  const std::vector<checkpoint::Shard>& shards() const override { return shards_; }
  Status Read(size_t shard, uint64_t at, std::span<std::byte> into) override;
  Status Confirm() override;

 private:
  struct Place {
    size_t part = 0;
    uint64_t at = 0;
  };

  MemorySource() = default;

  std::vector<OpenPart> parts_;
  std::vector<checkpoint::Shard> shards_;
  std::vector<Place> places_;  // by shard
};

}  // namespace harmonaize
