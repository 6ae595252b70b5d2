#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// A page of this user alone that leads a browser to a link. Every user of the host can read the
/// words with which a browser was started, and the link holds a secret, so the browser is started
/// with the path of this file. The destructor removes it.
class BrowserFile {
 public:
  /// Writes the file, in XDG_RUNTIME_DIR or else in the folder for temporary files. Errors:
  /// kSystemError.
  static Result<BrowserFile> Write(const std::string& link);
  BrowserFile(BrowserFile&& other) noexcept;
  BrowserFile& operator=(BrowserFile&& other) noexcept;
  ~BrowserFile();

  const std::string& path() const { return path_; }

 private:
  explicit BrowserFile(std::string path) : path_(std::move(path)) {}

  std::string path_;  // "": moved from
};

/// Returns whether this user has a display on which a browser could open.
bool HasDisplay();

/// Has the desktop's browser open a file (xdg-open), and does not wait for it. Errors: kSystemError
/// if there is no xdg-open, or it cannot be started.
Status OpenInBrowser(const std::string& path);

}  // namespace harmonaize
