#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/checkpoint/folder.h"
#include "src/checkpoint/store_names.h"

namespace harmonaize::store {

/// A store of checkpoints that is written to (docs/checkpoint-store.md). Processes of several hosts
/// use one at the same time, and any may end at any moment.
class Store {
 public:
  /// Opens a store. Where there is none, it is made: the folder above must exist, and the folder
  /// must be empty if it does. Errors: kInvalidArgument for a folder of something else, or a store
  /// of a later release; kSystemError.
  static Result<Store> Open(const std::string& folder);

  const checkpoint::Folder& root() const { return root_; }
  const checkpoint::Folder& steps() const { return steps_; }

  /// Gives a checkpoint's folder of objects the pool's object of this name, if there is a sound
  /// one. Returns whether it has it now.
  bool LinkFromPool(const std::string& name, uint64_t bytes,
                    const checkpoint::Folder& objects) const;
  /// Gives the pool an object. Requires: it is durable. Where that cannot be done, later
  /// checkpoints write the object again.
  void LinkIntoPool(const std::string& name, const checkpoint::Folder& objects) const;
  /// Removes the pool's object of this name if no checkpoint has it.
  void RemoveUnused(const std::string& name) const;
  /// Removes all objects of the pool that no checkpoint has. Errors: kSystemError.
  Status RemoveAllUnused() const;

 private:
  Store() = default;

  checkpoint::Folder root_;
  checkpoint::Folder pool_;
  checkpoint::Folder steps_;
};

/// A checkpoint's folder that this process writes to. Nobody removes it meanwhile.
struct OpenCheckpoint {
  checkpoint::CheckpointId id = {};
  checkpoint::Folder folder = {};
  checkpoint::Folder objects = {};
  FileDescriptor lock = {};  ///< Not valid where the file system has no locks.

  /// Opens it, and makes it where it does not exist. Errors: kSystemError; kUnavailable if others
  /// remove it again and again.
  static Result<OpenCheckpoint> Join(const Store& store, const checkpoint::CheckpointId& id);
};

/// Writes a small file that is whole and durable as soon as it has its name. A file that has the
/// name already stays. Returns whether the file is the new one. Errors: kSystemError.
Result<bool> WriteDurably(const checkpoint::Folder& folder, const std::string& name,
                          const std::string& text);

/// Makes names in a folder durable. Errors: kSystemError.
Status SyncFolder(const checkpoint::Folder& folder);

/// Returns a name for a file that is being written, which no other file has. It begins with
/// TemporaryPrefix of whoever writes it.
std::string TemporaryName(std::string_view owner);
/// Returns "tmp-OWNER-".
std::string TemporaryPrefix(std::string_view owner);
/// Removes files of a folder whose names begin so.
void RemoveFiles(const checkpoint::Folder& folder, std::string_view prefix);

}  // namespace harmonaize::store
