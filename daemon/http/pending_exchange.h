#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "daemon/http/http_connection.h"
#include "daemon/http/http_exchange.h"
#include "daemon/http/http_thread.h"

namespace harmonaize::daemon {

/// The request of a connection while the handler has it. Thread: any.
class PendingExchange final : public HttpExchange {
 public:
  PendingExchange(std::shared_ptr<HttpThread> thread, std::weak_ptr<HttpConnection> connection,
                  HttpRequest request)
      : thread_(std::move(thread)),
        connection_(std::move(connection)),
        request_(std::move(request)) {}
  ~PendingExchange() override;

  const HttpRequest& request() const override { return request_; }
  void Respond(HttpResponse response) override;
  std::shared_ptr<HttpStream> RespondWithStream(HttpStreamNews news) override;

 private:
  const std::shared_ptr<HttpThread> thread_;
  // The connection lives and ends on its thread, so that no other one closes its socket.
  const std::weak_ptr<HttpConnection> connection_;
  const HttpRequest request_;
  std::atomic<bool> answered_{false};
};

}  // namespace harmonaize::daemon
