#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/checkpoint/folder.h"

namespace harmonaize::store {

/// A file that gets its name once it is whole and durable. It is gone if it never does. Thread:
/// one.
class ObjectFile {
 public:
  /// Makes a file without contents, with a TemporaryName of its owner. Requires: `folder` outlives
  /// this object. Errors: kSystemError.
  static Result<ObjectFile> Make(const checkpoint::Folder& folder, std::string_view owner);
  ~ObjectFile();
  ObjectFile(ObjectFile&& other) noexcept;
  ObjectFile& operator=(ObjectFile&&) = delete;

  /// Appends bytes. Errors: kSystemError: the disk is full, ...
  Status Write(std::span<const std::byte> bytes);
  /// Waits until the contents are durable, and takes them out of the kernel's cache, where they
  /// would push out what the job uses. Errors: kSystemError.
  Status Sync();
  /// Gives the file its name, in place of a file that has it. Errors: kSystemError.
  Status Name(const std::string& name);

 private:
  ObjectFile(const checkpoint::Folder* folder, std::string temporary, FileDescriptor file);

  const checkpoint::Folder* folder_;
  std::string temporary_;  ///< "": the file has its name.
  FileDescriptor file_;
  uint64_t bytes_ = 0;
  uint64_t begun_ = 0;  ///< Bytes whose way to the disk was begun.
};

}  // namespace harmonaize::store
