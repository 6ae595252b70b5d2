#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "daemon/http/http_exchange.h"

namespace harmonaize::daemon {

/// The bounded queue between whoever writes to an event stream, on any thread, and the connection
/// that sends it, on the HTTP thread.
class EventQueue final : public HttpStream {
 public:
  /// `wake` makes the connection call Take soon. It may be called on any thread, after the
  /// connection has gone, too.
  EventQueue(size_t most_bytes, HttpStreamNews news, std::function<void()> wake)
      : most_bytes_(most_bytes), news_(std::move(news)), wake_(std::move(wake)) {}

  bool Write(std::string text) override;
  size_t queued() const override;
  void End() override;

  // Thread: HTTP.

  /// Removes and returns the oldest texts, joined, until they have `least_bytes`; "" if there are
  /// none. They count as queued until Sent.
  std::string Take(size_t least_bytes);
  /// The kernel has taken what Take returned last. Returns true if the writer waits to hear of
  /// room.
  bool Sent();
  /// Returns whether the stream is to end and nothing is left to send.
  bool Drained() const;
  /// Refuses all that comes, and drops what is queued. Returns false if that was so before.
  bool Finish();
  const HttpStreamNews& news() const { return news_; }

 private:
  void Wake(std::unique_lock<std::mutex>* lock);

  const size_t most_bytes_;
  const HttpStreamNews news_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::deque<std::string> texts_;  // guarded by mutex_, as is all below
  size_t queued_bytes_ = 0;        // of texts_ and of what was taken and not sent
  size_t taken_bytes_ = 0;
  bool ending_ = false;
  bool finished_ = false;
  bool refused_ = false;  // a Write was refused, and the writer has not heard of room since
  bool woken_ = false;    // wake_ was called, and Take not yet
};

}  // namespace harmonaize::daemon
