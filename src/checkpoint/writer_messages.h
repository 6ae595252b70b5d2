#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "src/base/status.h"
#include "src/checkpoint/store_format.h"

namespace harmonaize::checkpoint {

// What a rank and its harmonaize-writer say to each other, over a SOCK_SEQPACKET socket that is the
// writer's descriptor 3 when the rank starts it. A message is a JSON object with one key, its kind:
// {"save":{"buffer":0,"step":1200,...}}. Keys that a reader does not know are left alone.
//
// The rank says OpenStore first, and once. It lends its buffers, each a memfd that is sealed
// against shrinking, and hands over saves in the order of their numbers. The writer answers a save
// by PartWritten, and later by CheckpointCommitted, or by SaveFailed. A buffer is the rank's again
// from PartWritten or SaveFailed on. The rank ends the work by closing its end: the writer goes on
// until what was handed over is committed or has failed, for OpenStore's time at most.

/// The protocol's version. Both ends come from one release, but a release may be installed between
/// the start of a job and its first save.
inline constexpr uint32_t kWriterProtocolVersion = 1;

/// Descriptor at which a writer finds its socket.
inline constexpr int kWriterSocket = 3;
/// Most bytes of a message: what the control socket sends at once.
inline constexpr size_t kMostWriterMessageBytes = 64 << 10;
/// Most bytes of a folder's path, as the kernel has it.
inline constexpr size_t kMostFolderBytes = 4095;
/// Most ranks of a job whose checkpoints are stored.
inline constexpr int32_t kMostStoredRanks = 1 << 20;
/// Most buffers that one rank lends.
inline constexpr uint32_t kMostLentBuffers = 16;
/// Most checkpoints that `keep` may ask for.
inline constexpr uint32_t kMostKept = 1'000'000;
/// Longest time that a writer may go on without its rank: a day.
inline constexpr uint32_t kMostLingerSeconds = 24 * 60 * 60;
/// Most bytes of a failure's message.
inline constexpr size_t kMostFailureBytes = 4096;

/// Names the store, and the part that this writer writes of each checkpoint.
struct OpenStore {
  uint32_t version = kWriterProtocolVersion;
  std::string folder = {};  ///< Absolute. It is made, in a folder that exists.
  std::string job = {};     ///< The job's name or id, for readers and for reports; "": no job.
  int32_t rank = 0;
  int32_t ranks = 1;
  StoreFormat format = StoreFormat::kSafetensors;
  uint32_t keep = 2;                   ///< Newest committed checkpoints that stay; 0: all stay.
  uint64_t most_bytes_per_second = 0;  ///< 0: no bound.
  uint32_t linger_seconds = 600;

  bool operator==(const OpenStore&) const = default;
};

/// Lends a buffer. Its memfd comes with the message.
struct LendBuffer {
  uint32_t index = 0;  ///< A number that was lent before now stands for the new memory.
  uint64_t bytes = 0;

  bool operator==(const LendBuffer&) const = default;
};

/// Hands over the image of a part (part_image.h) at the beginning of a buffer.
struct SaveImage {
  uint32_t buffer = 0;
  uint64_t step = 0;
  uint64_t save = 0;
  uint64_t bytes = 0;
  bool is_kept = false;

  bool operator==(const SaveImage&) const = default;
};

/// The writer is ready for saves. A store that cannot be opened is told by SaveFailed for each
/// save, since it is tried again with each.
struct StoreOpened {
  uint32_t version = kWriterProtocolVersion;

  bool operator==(const StoreOpened&) const = default;
};

/// The part is durable: it survives whatever happens to the host but the loss of its disk.
struct PartWritten {
  uint64_t step = 0;
  uint64_t save = 0;
  uint64_t bytes = 0;      ///< Of all shards of the part.
  uint64_t new_bytes = 0;  ///< Of files that did not lie in the store before.
  double seconds = 0;      ///< Since the writer had the save before it, or was handed this one.

  bool operator==(const PartWritten&) const = default;
};

/// The checkpoint is whole and durable.
struct CheckpointCommitted {
  uint64_t step = 0;
  uint64_t save = 0;

  bool operator==(const CheckpointCommitted&) const = default;
};

/// The checkpoint did not come about; the last committed one is as it was. It may follow
/// PartWritten, where another rank's part is missing.
struct SaveFailed {
  uint64_t step = 0;
  uint64_t save = 0;
  Code code = Code::kSystemError;
  std::string message = {};

  bool operator==(const SaveFailed&) const = default;
};

using ToWriter = std::variant<OpenStore, LendBuffer, SaveImage>;
using FromWriter = std::variant<StoreOpened, PartWritten, CheckpointCommitted, SaveFailed>;

/// Returns a message's text, of at most kMostWriterMessageBytes. Errors: kInvalidArgument for
/// values that the decoder would refuse.
Result<std::string> Encode(const ToWriter& message);
Result<std::string> Encode(const FromWriter& message);

/// Reads a message of the other side, which may be anybody's. Errors: kInvalidArgument, with what
/// is wrong with it.
Result<ToWriter> DecodeToWriter(std::string_view text);
Result<FromWriter> DecodeFromWriter(std::string_view text);

}  // namespace harmonaize::checkpoint
