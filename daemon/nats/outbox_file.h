#pragma once

#include <string>
#include <vector>

#include "daemon/nats/event_outbox.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// The file in which a daemon that ends leaves what it has not published, for the next one. Thread:
/// one at a time.
class OutboxFile {
 public:
  /// `folder` is closed to other users; "": there is none, and nothing is kept.
  explicit OutboxFile(std::string folder) : folder_(std::move(folder)) {}

  /// Writes the events into the file, in place of what it held.
  Status Save(const std::vector<EventOutbox::Entry>& entries) const;
  /// Returns what the file holds, in the order of Save; nothing without a file. Errors name the
  /// file: strangers may have written it, or it is damaged.
  Result<std::vector<EventOutbox::Entry>> Load() const;
  void Remove() const;

 private:
  std::string path() const;

  const std::string folder_;
};

}  // namespace harmonaize::daemon
