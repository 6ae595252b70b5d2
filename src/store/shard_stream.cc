#include "src/store/shard_stream.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "src/checkpoint/checksum.h"

namespace harmonaize::store {

ShardStream::ShardStream(std::function<Status()> go_on)
    : go_on_(std::move(go_on)), buffer_(kBufferBytes) {}

Result<ShardSums> ShardStream::Sum(const ReadShard& read, size_t shard, uint64_t bytes,
                                   bool with_crc32) {
  checkpoint::Checksum checksum;
  uLong crc = 0;
  for (uint64_t at = 0; at < bytes; at += buffer_.size()) {
    HZ_RETURN_IF_ERROR(go_on_());
    const auto piece = std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), bytes - at));
    HZ_RETURN_IF_ERROR(read(shard, at, piece));
    checksum.Add(piece);
    if (with_crc32) {
      crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    }
  }
  return ShardSums{.checksum = checksum.value(), .crc32 = static_cast<uint32_t>(crc)};
}

Status ShardStream::Run(const ObjectLayout& layout, std::span<const ShardSums> sums,
                        const ReadShard& read, const TakeBytes& take) {
  for (const Piece& piece : layout.pieces) {
    if (piece.shard == Piece::kOwn) {
      HZ_RETURN_IF_ERROR(take(std::as_bytes(std::span(piece.own))));
    } else {
      HZ_RETURN_IF_ERROR(RunShard(piece, sums[piece.shard].checksum, read, take));
    }
  }
  return Status::Ok();
}

Status ShardStream::RunShard(const Piece& piece, uint64_t expected, const ReadShard& read,
                             const TakeBytes& take) {
  checkpoint::Checksum checksum;
  for (uint64_t at = 0; at < piece.bytes; at += buffer_.size()) {
    HZ_RETURN_IF_ERROR(go_on_());
    const auto bytes =
        std::span(buffer_).first(std::min<uint64_t>(buffer_.size(), piece.bytes - at));
    HZ_RETURN_IF_ERROR(read(piece.shard, at, bytes));
    checksum.Add(bytes);
    HZ_RETURN_IF_ERROR(take(bytes));
  }
  if (checksum.value() == expected) return Status::Ok();
  return InvalidUsage("the data of a shard changed while it was being written");
}

}  // namespace harmonaize::store
