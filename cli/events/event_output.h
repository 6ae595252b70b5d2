#pragma once

#include <cstdint>
#include <string>

#include "cli/events/event_line.h"
#include "src/base/status.h"

namespace harmonaize {

/// Writes events to standard output, for people or for programs. Thread: one.
class EventOutput {
 public:
  struct Options {
    EventLineStyle style = {};
    bool json = false;   ///< Each event as it is, in one line.
    uint64_t limit = 0;  ///< Most events; 0: any number.
  };

  explicit EventOutput(const Options& options) : options_(options) {}

  /// Writes an event, in one line of JSON. Errors: kRemoteError if it is no JSON object.
  Status Write(const std::string& event);
  /// Tells the user, on standard error, that so many events are lost.
  void TellMissed(uint64_t missed);
  /// Tells the user something on standard error, behind the events so far.
  void Tell(const std::string& what);
  /// Has the reader get what was written.
  void Flush();

  /// Number of events that may still be written; UINT64_MAX without a limit.
  uint64_t left() const { return options_.limit == 0 ? UINT64_MAX : options_.limit - written_; }
  /// Returns whether nothing more is to be written: there are as many as the user wanted, or the
  /// reader has gone, as that of `| head` does.
  bool done() const { return left() == 0 || reader_has_gone_; }
  uint64_t written() const { return written_; }

 private:
  void Put(const std::string& text);

  const Options options_;
  uint64_t written_ = 0;
  bool reader_has_gone_ = false;
};

}  // namespace harmonaize
