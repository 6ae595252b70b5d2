#include "daemon/http/pending_exchange.h"

#include <utility>

#include <boost/asio/post.hpp>

#include "daemon/http/audit_request.h"
#include "daemon/http/event_queue.h"
#include "daemon/http/http_services.h"
#include "daemon/runtime/guarded.h"

namespace harmonaize::daemon {
namespace {

/// Runs `call` with the connection on its thread, if it still exists then.
template <typename Call>
void PostTo(HttpThread* thread, const std::weak_ptr<HttpConnection>& connection, Call call) {
  boost::asio::post(thread->context(), [connection, call = std::move(call)]() mutable {
    if (const std::shared_ptr<HttpConnection> found = connection.lock()) call(*found);
  });
}

}  // namespace

PendingExchange::~PendingExchange() {
  GuardedAndLogged("a request that nobody answered", [this] {
    Respond(HttpProblem(500, "the daemon dropped the request, which is a bug of the daemon's"));
  });
}

void PendingExchange::Respond(HttpResponse response) {
  if (answered_.exchange(true)) return;
  AuditRequest(thread_->services().audit.get(), request_, response);
  PostTo(thread_.get(), connection_,
         [response = std::move(response)](HttpConnection& connection) mutable {
           connection.OnAnswer(std::move(response));
         });
}

std::shared_ptr<HttpStream> PendingExchange::RespondWithStream(HttpStreamNews news) {
  auto wake = [thread = thread_, connection = connection_] {
    PostTo(thread.get(), connection, [](HttpConnection& found) { found.OnQueueWoken(); });
  };
  auto queue = std::make_shared<EventQueue>(thread_->services().limits.stream_bytes,
                                            std::move(news), std::move(wake));
  if (answered_.exchange(true)) {
    queue->Finish();
    return queue;
  }
  // A stream that finds its connection gone has ended before it began.
  boost::asio::post(thread_->context(), [connection = connection_, thread = thread_.get(), queue] {
    if (const std::shared_ptr<HttpConnection> found = connection.lock())
      return found->OnStream(queue);
    thread->EndStream(queue);
  });
  return queue;
}

}  // namespace harmonaize::daemon
