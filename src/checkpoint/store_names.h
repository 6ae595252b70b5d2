#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harmonaize::checkpoint {

// Names in a store's folder (docs/checkpoint-store.md). A name that is read from a store is one of
// these, or it is left alone: none leads out of the folder.

/// Says that a folder is a store, and of which version.
inline constexpr char kStoreFile[] = "harmonaize-store.json";
inline constexpr uint64_t kStoreVersion = 1;
/// The pool of objects, from which later checkpoints take what has not changed.
inline constexpr char kPoolFolder[] = "objects";
/// The checkpoints.
inline constexpr char kStepsFolder[] = "steps";
/// In a checkpoint's folder: its objects; the file that makes it one; whom it must not be taken
/// from; and what tells all ranks that it will not come about.
inline constexpr char kObjectsFolder[] = "objects";
inline constexpr char kCommitFile[] = "checkpoint.json";
inline constexpr char kLockFile[] = "lock";
inline constexpr char kFailedFile[] = "failed";
/// Beginning of the names of files that are being written.
inline constexpr char kTemporaryPrefix[] = "tmp-";
/// Beginning of the names of folders that are being removed.
inline constexpr char kRemovedPrefix[] = "removed-";
/// Digits of a SHA-256, which an object's name begins with.
inline constexpr size_t kDigestDigits = 64;

/// Tells checkpoints of a store apart.
struct CheckpointId {
  uint64_t step = 0;
  uint64_t save = 0;

  auto operator<=>(const CheckpointId&) const = default;
};

/// Returns the name of a checkpoint's folder: 20 digits of the step, 16 hexadecimal ones of the
/// save.
std::string CheckpointFolderName(const CheckpointId& id);
/// Reads such a name; nullopt for any other.
std::optional<CheckpointId> CheckpointIdOf(std::string_view name);

/// Returns the name of the manifest of a rank's part.
std::string PartFileName(int32_t rank);

/// Returns whether this is the name of an object: a digest, and an extension that is ours.
bool IsObjectName(std::string_view name);

}  // namespace harmonaize::checkpoint
