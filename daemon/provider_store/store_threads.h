#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "daemon/runtime/guarded.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class EventLoop;

/// Threads for work that waits for a file system, maybe for long. Tasks of one tenant run one after
/// the other. Those of different tenants run beside each other on a few threads, and take turns
/// where tenants are more than threads, so that none waits for all that another has asked for.
/// Thread: any.
class StoreThreads {
 public:
  enum class Kind {
    kWrite,  ///< Gives way to everything else on the host.
    kRead,   ///< A job waits for it.
  };
  /// `loop` outlives this object.
  StoreThreads(Kind kind, EventLoop* loop);
  /// Drops tasks that have not begun. Waits some seconds for those that run: a file system that
  /// hangs must not keep the daemon, so its threads are left alone then.
  ~StoreThreads();
  StoreThreads(const StoreThreads&) = delete;
  StoreThreads& operator=(const StoreThreads&) = delete;

  /// Runs `work(is_ending)`, which returns a Status or a Result, in the turn of `tenant`, and then
  /// `then(outcome)` on the loop's thread. An exception of `work` becomes its outcome. Both own all
  /// that they use: they may be dropped, and `then` does not run after the end of this object.
  /// `is_ending` becomes true when `work` had best return. Errors: kInvalidUsage if the tenant has
  /// too much work that waits; kSystemError if there is no thread.
  template <typename Work, typename Then>
  Status Run(uint32_t tenant, Work work, Then then) {
    return Post(tenant,
                [work = std::move(work), then = std::move(then)](
                    const std::atomic<bool>& is_ending) -> std::function<void()> {
                  // std::function copies what it holds, and an outcome may be for one owner.
                  auto outcome =
                      std::make_shared<std::invoke_result_t<Work, const std::atomic<bool>&>>(
                          Caught([&] { return work(is_ending); }));
                  return [then, outcome] { then(std::move(*outcome)); };
                });
  }

 private:
  struct Shared;
  /// Returns what is to run on the loop's thread.
  using Task = std::function<std::function<void()>(const std::atomic<bool>& is_ending)>;

  Status Post(uint32_t tenant, Task task);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace harmonaize::daemon
