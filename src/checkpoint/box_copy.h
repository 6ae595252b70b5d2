#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "src/checkpoint/shard.h"

namespace harmonaize::checkpoint {

/// Returns what two boxes of one tensor have in common; nullopt if that has no element. Requires:
/// both have as many dimensions.
std::optional<Box> Intersection(const Box& one, const Box& other);

/// Appends what is left of a box without `hole`, which lies in it, as boxes that do not overlap.
void AppendRest(Box box, const Box& hole, std::vector<Box>* rest);

/// A contiguous run of bytes that lies in two row-major boxes.
struct ByteRun {
  uint64_t from = 0;  ///< Offset in the bytes of the box that is read.
  uint64_t to = 0;    ///< Offset in the bytes of the box that is written.
  uint64_t bytes = 0;
};

/// Calls `each` for the runs of which `common`, an Intersection of `from` and `to`, consists, in
/// the order of both. The runs are as long as they can be. Returns the first failure of `each`,
/// after which there are no more calls.
Status ForEachRun(const Box& from, const Box& to, const Box& common, uint64_t element_bytes,
                  const std::function<Status(const ByteRun&)>& each);

}  // namespace harmonaize::checkpoint
