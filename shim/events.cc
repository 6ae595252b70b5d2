// harmonaize.h: events.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "include/harmonaize.h"
#include "shim/daemon_call.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/job_calls.h"
#include "src/base/log.h"
#include "src/base/signals_blocked.h"
#include "src/client/events/event_subscription.h"
#include "src/ipc/http_client.h"
#include "src/ipc/socket_path.h"

using harmonaize::EventQuery;
using harmonaize::EventSubscription;
using harmonaize::FileDescriptor;
using harmonaize::InvalidArgument;
using harmonaize::InvalidUsage;
using harmonaize::Result;
using harmonaize::ServerSentEvent;
using harmonaize::Status;

/// The object behind hzSubscription_t.
struct hzSubscription {
  static constexpr uint64_t kAlive = 0x485a45564e545331;

  std::atomic<uint64_t> state{kAlive};
  std::unique_ptr<EventSubscription> events;
  std::optional<ServerSentEvent> last;  ///< What the caller's hzEvent_t points to.
  // With a callback.
  hzEventCallback_t callback = nullptr;
  void* context = nullptr;
  pthread_t thread{};
  pid_t process = 0;  ///< The process that has the thread: a child of it has none.
  FileDescriptor stop;
};

namespace harmonaize::shim {
namespace {

/// Comes before each type's name in CloudEvents.
constexpr std::string_view kTypeOfMissed = "io.harmonaize.events.missed";

hzEvent_t View(const ServerSentEvent& event) {
  return {.type = event.event.c_str(),
          .id = event.id.c_str(),
          .json = event.data.c_str(),
          .missed = event.event == kTypeOfMissed ? 1 : 0};
}

Result<EventQuery> QueryFor(ncclComm_t comm, const char* types, const char* after) {
  EventQuery query{.types = types == nullptr ? "" : types};
  if (after != nullptr && *after == '\0') query.from_start = true;
  if (after != nullptr) query.after = after;
  if (comm != nullptr) {
    HZ_RETURN_IF_ERROR(CheckHandle(comm));
    HZ_ASSIGN_OR_RETURN(query.job, JobOf(*comm->communicator));
  }
  return query;
}

/// Runs callbacks until hzUnsubscribe.
void* RunCallbacks(void* argument) {
  auto* const subscription = static_cast<hzSubscription*>(argument);
  pthread_setname_np(pthread_self(), "hz-events");
  while (true) {
    const Result<std::optional<ServerSentEvent>> next = subscription->events->Next(0);
    if (!next.ok()) {
      Log(LogLevel::kWarning, kLogInit, "no more events: {}", next.status().message());
      return nullptr;
    }
    if (next->has_value()) {
      const hzEvent_t event = View(**next);
      subscription->callback(&event, subscription->context);
    }
    pollfd waits[] = {{subscription->events->fd(), POLLIN, 0},
                      {subscription->stop.get(), POLLIN, 0}};
    poll(waits, 2, next->has_value() ? 0 : -1);
    if ((waits[1].revents & POLLIN) != 0) return nullptr;
  }
}

Status StartThread(hzSubscription* subscription) {
  subscription->stop = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!subscription->stop.valid()) return ErrnoError(errno, "cannot make an eventfd");
  subscription->process = getpid();
  const SignalsBlocked blocked;
  const int error = pthread_create(&subscription->thread, nullptr, &RunCallbacks, subscription);
  return error == 0 ? Status::Ok() : ErrnoError(error, "cannot start a thread for events");
}

Status Subscribe(ncclComm_t comm, const char* types, const char* after, hzEventCallback_t callback,
                 void* context, hzSubscription_t* out) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "subscription"));
  *out = nullptr;
  if (Forwarding()) return InvalidUsage("calls go to stock NCCL, which has no events");
  HZ_ASSIGN_OR_RETURN(EventQuery query, QueryFor(comm, types, after));
  auto made = std::make_unique<hzSubscription>();
  HZ_ASSIGN_OR_RETURN(made->events,
                      EventSubscription::Open(ClientSocketPlaces(), std::move(query)));
  made->callback = callback;
  made->context = context;
  if (callback != nullptr) HZ_RETURN_IF_ERROR(StartThread(made.get()));
  *out = made.release();
  return Status::Ok();
}

/// Runs `body` on a subscription. Like a communicator's handle, it is told from one that was ended.
template <typename Body>
ncclResult_t CallOnSubscription(const char* function, hzSubscription_t subscription, Body&& body) {
  return Call(function, nullptr, [&]() -> Status {
    if (subscription == nullptr || subscription->state.load() != hzSubscription::kAlive) {
      return InvalidArgument("the subscription was not made by hzSubscribe, or has ended");
    }
    return body();
  });
}

Status CheckPolled(const hzSubscription& subscription) {
  if (subscription.callback == nullptr) return Status::Ok();
  return InvalidUsage("the subscription has a callback, which gets its events");
}

Status Unsubscribe(hzSubscription* subscription) {
  const bool has_thread = subscription->callback != nullptr && subscription->process == getpid();
  if (has_thread && pthread_equal(subscription->thread, pthread_self()) != 0) {
    return InvalidUsage("hzUnsubscribe waits for the callback that calls it: call it elsewhere");
  }
  if (has_thread) {
    const uint64_t one = 1;
    static_cast<void>(!write(subscription->stop.get(), &one, sizeof one));
    pthread_join(subscription->thread, nullptr);
  }
  subscription->state.store(0);
  delete subscription;
  return Status::Ok();
}

/// Most time that may be asked for, in seconds: what daemons allow.
constexpr double kMostAskedSeconds = 30 * 86400.0;

/// Answers an event: `what` is the end of the route, and `body` what it takes.
Status Answer(const char* id, const char* what, const std::string& body) {
  HZ_RETURN_IF_ERROR(CheckPointer(id, "id"));
  if (Forwarding()) return InvalidUsage("calls go to stock NCCL, which has no events");
  return CallDaemon(
             {.method = "POST", .target = "/v1/events/" + EncodeForUrl(id) + what, .body = body})
      .status();
}

}  // namespace
}  // namespace harmonaize::shim

using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_API(ncclResult_t)
hzSubscribe(ncclComm_t comm, const char* types, const char* after, hzEventCallback_t callback,
            void* context, hzSubscription_t* subscription) {
  return Call("hzSubscribe", comm,
              [&] { return Subscribe(comm, types, after, callback, context, subscription); });
}

HZ_API(ncclResult_t) hzSubscriptionDescriptor(hzSubscription_t subscription, int* descriptor) {
  return CallOnSubscription("hzSubscriptionDescriptor", subscription, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckPointer(descriptor, "descriptor"));
    HZ_RETURN_IF_ERROR(CheckPolled(*subscription));
    *descriptor = subscription->events->fd();
    return Status::Ok();
  });
}

HZ_API(ncclResult_t)
hzNextEvent(hzSubscription_t subscription, int timeout_ms, hzEvent_t* event) {
  return CallOnSubscription("hzNextEvent", subscription, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckPointer(event, "event"));
    HZ_RETURN_IF_ERROR(CheckPolled(*subscription));
    *event = {};
    HZ_ASSIGN_OR_RETURN(subscription->last, subscription->events->Next(timeout_ms));
    if (!subscription->last.has_value()) return Status(harmonaize::Code::kInProgress, "no event");
    *event = View(*subscription->last);
    return Status::Ok();
  });
}

HZ_API(ncclResult_t) hzAcknowledge(const char* id) {
  return Call("hzAcknowledge", nullptr, [&] { return Answer(id, "/acknowledge", "{}"); });
}

HZ_API(ncclResult_t) hzExtend(const char* id, double seconds) {
  return Call("hzExtend", nullptr, [&]() -> Status {
    if (!(seconds >= 1 && seconds <= kMostAskedSeconds)) {
      return InvalidArgument("hzExtend takes 1 to {:.0f} seconds, not {}", kMostAskedSeconds,
                             seconds);
    }
    return Answer(id, "/extend", fmt::format("{{\"seconds\":{:.3f}}}", seconds));
  });
}

HZ_API(ncclResult_t) hzUnsubscribe(hzSubscription_t subscription) {
  return CallOnSubscription("hzUnsubscribe", subscription,
                            [&] { return Unsubscribe(subscription); });
}
