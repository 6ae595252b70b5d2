#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/checkpoint/part_image.h"
#include "src/checkpoint/shard.h"
#include "src/store/part_writer.h"
#include "src/store/store.h"

namespace harmonaize::testing {

// A small model whose state at a step is known, and how ranks save and load it: rows of the large
// tensors are divided, the rest is the first rank's, and each rank has an object of its own.

/// Returns the shards that a rank of so many has.
std::vector<checkpoint::Shard> ModelShards(int32_t rank, int32_t ranks);
/// Returns the bytes that a shard has at a step. Tensors whose names end in "frozen" never change.
std::vector<std::byte> ModelBytes(const checkpoint::Shard& shard, uint64_t step);
/// Returns the image of a rank's part.
std::vector<std::byte> ModelImage(const checkpoint::PartIdentity& identity);
/// Returns what reads an image in memory. Requires: it outlives the result.
checkpoint::ReadImage ReaderOf(const std::vector<std::byte>& image);

/// Writes all parts of a checkpoint to a store, one after the other, and commits it.
Status SaveModel(const store::Store& store, const checkpoint::OpenStore& options, uint64_t step,
                 uint64_t save, bool is_kept = false);
/// Reads a checkpoint as each of `ranks` ranks would. Errors: kInvalidArgument if a byte is not
/// what the model has at its step; those of reading.
Status CheckModel(const std::string& folder, std::optional<uint64_t> step, int32_t ranks);

}  // namespace harmonaize::testing
