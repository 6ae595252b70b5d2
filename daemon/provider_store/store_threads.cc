#include "daemon/provider_store/store_threads.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/runtime/event_loop.h"
#include "src/base/log.h"
#include "src/base/low_priority.h"

namespace harmonaize::daemon {
namespace {

/// Most threads: some tenants whose checkpoints are large do not hold up the others, and a disk is
/// not asked for more than it can order.
constexpr size_t kMostThreads = 8;
/// Most tasks of a tenant that wait: each rank of a host waits for one at a time.
constexpr size_t kMostWaiting = 16'384;
/// Time for which the end waits for tasks that run.
constexpr std::chrono::seconds kEndPatience{5};

}  // namespace

struct StoreThreads::Shared {
  struct Queue {
    uint32_t tenant = 0;
    std::deque<Task> tasks;
  };

  Shared(Kind its_kind, EventLoop* its_loop) : kind(its_kind), loop(its_loop) {}

  void Run();
  Task TakeNext(uint32_t* tenant);

  const Kind kind;
  EventLoop* const loop;  ///< Not there after the end.
  std::atomic<bool> is_ending{false};
  std::mutex mutex;
  std::condition_variable ended;
  std::list<Queue> queues = {};     // under mutex; in the order of turns, none is empty
  std::set<uint32_t> running = {};  // under mutex: tenants with a task that runs
  size_t threads = 0;               // under mutex
};

/// Returns the next task of a tenant of which none runs; an empty one: there is none.
StoreThreads::Task StoreThreads::Shared::TakeNext(uint32_t* tenant) {
  for (auto queue = queues.begin(); queue != queues.end(); ++queue) {
    if (running.contains(queue->tenant)) continue;
    *tenant = queue->tenant;
    Task task = std::move(queue->tasks.front());
    queue->tasks.pop_front();
    if (queue->tasks.empty()) {
      queues.erase(queue);
    } else {
      queues.splice(queues.end(), queues, queue);
    }
    return task;
  }
  return nullptr;
}

void StoreThreads::Shared::Run() {
  if (kind == Kind::kWrite) TakeLowestPriority();
  std::unique_lock lock(mutex);
  for (;;) {
    uint32_t tenant = 0;
    Task task = is_ending ? nullptr : TakeNext(&tenant);
    if (task == nullptr) break;
    running.insert(tenant);
    lock.unlock();
    std::function<void()> then = task(is_ending);
    // Its end may take the lock: what it owns may post a task.
    task = nullptr;
    lock.lock();
    running.erase(tenant);
    if (then != nullptr && !is_ending) loop->Post(std::move(then));
  }
  --threads;
  ended.notify_all();
}

StoreThreads::StoreThreads(Kind kind, EventLoop* loop)
    : shared_(std::make_shared<Shared>(kind, loop)) {}

StoreThreads::~StoreThreads() {
  std::list<Shared::Queue> dropped;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->is_ending = true;
    dropped.swap(shared_->queues);
    const bool have_ended =
        shared_->ended.wait_for(lock, kEndPatience, [this] { return shared_->threads == 0; });
    if (have_ended) return;
  }
  Log(LogLevel::kWarning, kLogInit,
      "the file system of the store of checkpoints does not answer: what was being written is "
      "lost");
}

Status StoreThreads::Post(uint32_t tenant, Task task) {
  const std::lock_guard lock(shared_->mutex);
  auto& queues = shared_->queues;
  auto queue = queues.begin();
  while (queue != queues.end() && queue->tenant != tenant) ++queue;
  if (queue == queues.end()) queue = queues.insert(queue, {.tenant = tenant, .tasks = {}});
  if (queue->tasks.size() >= kMostWaiting) {
    return InvalidUsage("{} requests of this user wait for the store of checkpoints", kMostWaiting);
  }
  queue->tasks.push_back(std::move(task));
  if (shared_->threads >= kMostThreads || shared_->running.contains(tenant)) return Status::Ok();
  try {
    std::thread([shared = shared_] { shared->Run(); }).detach();
    ++shared_->threads;
  } catch (const std::system_error& error) {
    if (shared_->threads > 0) return Status::Ok();
    queue->tasks.pop_back();
    if (queue->tasks.empty()) queues.erase(queue);
    return SystemError("no thread for the store of checkpoints: {}", error.what());
  }
  return Status::Ok();
}

}  // namespace harmonaize::daemon
