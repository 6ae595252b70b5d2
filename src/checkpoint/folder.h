#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::checkpoint {

/// An open folder, through which what lies in it is reached. Below the first one no symbolic link
/// is followed, and nothing is waited for: others may have put anything there.
class Folder {
 public:
  Folder() = default;

  /// Opens the folder that a user has named. Errors: kUnavailable if there is none; kSystemError.
  static Result<Folder> OpenAt(const std::string& path);

  /// Opens a folder in this one. Errors: as OpenAt.
  Result<Folder> Open(const std::string& name) const;
  /// Opens a folder in this one, and makes it where there is none. Errors: kSystemError.
  Result<Folder> Make(const std::string& name) const;

  /// Opens a regular file for reading. Errors: kUnavailable if there is none; kSystemError;
  /// kInvalidArgument for what is no regular file.
  Result<FileDescriptor> OpenFile(const std::string& name) const;
  /// Reads a file of at most `most_bytes`. Errors: as OpenFile; kInvalidArgument for a larger one.
  Result<std::string> ReadFile(const std::string& name, uint64_t most_bytes) const;
  /// Returns the bytes of a regular file. Errors: as OpenFile.
  Result<uint64_t> BytesOfFile(const std::string& name) const;
  /// Returns whether `folder` is what lies under this name.
  bool Holds(const std::string& name, const Folder& folder) const;
  /// Returns the names of all that lies in it, sorted, without "." and "..". Errors: kSystemError.
  Result<std::vector<std::string>> Names() const;

  int fd() const { return fd_.get(); }
  /// The path by which it was reached, for people.
  const std::string& path() const { return path_; }
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

 private:
  Folder(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  FileDescriptor fd_;
  std::string path_;
};

}  // namespace harmonaize::checkpoint
