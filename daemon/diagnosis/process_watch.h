#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/cluster/messages/diagnosis.h"
#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {

/// A thread that looks at processes, twice within a tenth of a second, since /proc may keep its
/// readers waiting. It begins with the first look, and sleeps while there is nothing to look at.
class ProcessWatch {
 public:
  /// A process to look at.
  struct Wanted {
    uint32_t number = 0;     ///< The caller's.
    pid_t process = 0;       ///< 0: it cannot be seen from here.
    FileDescriptor pidfd{};  ///< Of the process, to tell that it is still the same.
  };
  struct Seen {
    uint32_t number = 0;
    Doing doing = Doing::kUnknown;
  };
  using Answer = std::function<void(std::vector<Seen>)>;

  /// `post` has a call run on the caller's thread. Requires: it may be called until the destructor
  /// returns.
  explicit ProcessWatch(std::function<void(std::function<void()>)> post)
      : post_(std::move(post)), thread_([this] { Run(); }) {}
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  /// Looks at processes, and posts what was seen. Does nothing while too many looks wait. Thread:
  /// the caller's.
  void Look(std::vector<Wanted> wanted, Answer answer);

 private:
  struct Job {
    std::vector<Wanted> wanted;
    Answer answer;
  };

  void Run();
  std::vector<Seen> LookTwice(const std::vector<Wanted>& wanted);
  bool WaitBetween();

  const std::function<void(std::function<void()>)> post_;
  /// By the caller's number: the kills for lack of memory when the process was first looked at.
  /// Used by the thread alone.
  std::map<uint32_t, std::optional<uint64_t>> oom_kills_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;   // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // declared last: it uses all of these
};

}  // namespace harmonaize::daemon
