#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/ipc/http_client.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {

/// What a subscriber asks a daemon for.
struct EventQuery {
  std::string types = {};     ///< As in GET /v1/events: "rank.*,plan.changed"; "": all.
  std::string job = {};       ///< The job's id; "": all of this tenant's.
  std::string after = {};     ///< The last event that was read; "": none.
  bool from_start = false;    ///< Without `after`: also what the daemon has kept.
  std::string severity = {};  ///< "": all.

  /// Returns the target of the request that follows events.
  std::string target() const;
};

/// The events of this tenant's jobs, as the host's daemon tells them. Connects anew when the daemon
/// has gone, and goes on behind the last event. Thread: one at a time.
class EventSubscription {
 public:
  /// Connects to the first daemon at these places. Errors: kUnavailable where none is trusted and
  /// listens; kInvalidArgument for a query that the daemon refuses, with its reason.
  static Result<std::unique_ptr<EventSubscription>> Open(std::vector<SocketPlace> places,
                                                         EventQuery query);
  ~EventSubscription();

  /// A descriptor, the same for all time, that is readable whenever Next may return an event.
  int fd() const { return epoll_.get(); }
  /// Returns whether there is a daemon. Without one Next seeks it, time and again.
  bool connected() const { return stream_ != nullptr; }
  /// Returns the next event, and waits for it for `timeout_ms`; -1: for ever; 0: not at all.
  /// Returns nullopt if none has come. Errors: those of Open, once a daemon that was gone is there
  /// again and refuses.
  Result<std::optional<ServerSentEvent>> Next(int timeout_ms);

 private:
  EventSubscription(std::vector<SocketPlace> places, EventQuery query)
      : places_(std::move(places)), query_(std::move(query)) {}

  Status Begin();
  Status Connect();
  Status ConnectAgain();
  void GiveUpConnection();
  Status AwaitNews(int timeout_ms);

  const std::vector<SocketPlace> places_;
  EventQuery query_;
  FileDescriptor epoll_;
  FileDescriptor timer_;                     ///< Becomes readable when it is time to connect again.
  std::unique_ptr<HttpEventStream> stream_;  ///< nullptr while there is no connection.
  int pause_ms_ = 0;
};

}  // namespace harmonaize
