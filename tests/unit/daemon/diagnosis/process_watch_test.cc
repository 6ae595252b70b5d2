#include "daemon/diagnosis/process_watch.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <vector>

namespace harmonaize::daemon {
namespace {

FileDescriptor PidfdOf(pid_t process) {
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

/// Takes in what a watch posts.
class Answers {
 public:
  std::function<void(std::function<void()>)> Post() {
    return [this](std::function<void()> call) {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
      posted_.notify_one();
    };
  }
  /// Waits for one call, and makes it.
  void RunOne() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(
        posted_.wait_for(lock, std::chrono::seconds(30), [this] { return !calls_.empty(); }));
    const auto call = std::move(calls_.front());
    calls_.erase(calls_.begin());
    lock.unlock();
    call();
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<std::function<void()>> calls_;
};

/// A child that does something for as long as the object exists.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) : process_(fork()) {
    if (process_ != 0) return;
    body();
    _exit(0);
  }
  ~Child() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t process() const { return process_; }

 private:
  const pid_t process_;
};

TEST(ProcessWatch, TellsStoppedSleepingAndRunningProcessesApart) {
  const Child stopped([] { raise(SIGSTOP); });
  const Child sleeping([] { pause(); });
  const Child running([] {
    std::atomic<uint64_t> turns{0};
    while (true) ++turns;
  });
  int status = 0;
  ASSERT_EQ(waitpid(stopped.process(), &status, WUNTRACED), stopped.process());
  Answers answers;
  ProcessWatch watch(answers.Post());
  std::vector<ProcessWatch::Wanted> wanted;
  for (const Child* child : {&stopped, &sleeping, &running}) {
    wanted.push_back(
        {static_cast<uint32_t>(wanted.size()), child->process(), PidfdOf(child->process())});
  }
  std::vector<Doing> doing;
  watch.Look(std::move(wanted), [&](const std::vector<ProcessWatch::Seen>& seen) {
    for (const ProcessWatch::Seen& one : seen) doing.push_back(one.doing);
  });
  answers.RunOne();
  EXPECT_EQ(doing, std::vector<Doing>({Doing::kStopped, Doing::kSleeping, Doing::kRunning}));
}

// The number may stand for another process by the time that it is looked at.
TEST(ProcessWatch, SaysNothingOfAnotherProcessWithTheNumber) {
  FileDescriptor ended;
  {
    const Child child([] { pause(); });
    ended = PidfdOf(child.process());
  }
  ASSERT_TRUE(ended.valid());
  Answers answers;
  ProcessWatch watch(answers.Post());
  std::vector<ProcessWatch::Wanted> wanted;
  wanted.push_back({1, getpid(), std::move(ended)});
  wanted.push_back({2, getpid(), FileDescriptor()});
  wanted.push_back({3, 0, FileDescriptor()});
  std::vector<Doing> doing;
  watch.Look(std::move(wanted), [&](const std::vector<ProcessWatch::Seen>& seen) {
    for (const ProcessWatch::Seen& one : seen) doing.push_back(one.doing);
  });
  answers.RunOne();
  EXPECT_EQ(doing, std::vector<Doing>(3, Doing::kUnknown));
}

TEST(ProcessWatch, EndsInTheMiddleOfALook) {
  Answers answers;
  for (int round = 0; round < 5; ++round) {
    ProcessWatch watch(answers.Post());
    for (int i = 0; i < 40; ++i) {
      std::vector<ProcessWatch::Wanted> wanted;
      wanted.push_back({1, getpid(), PidfdOf(getpid())});
      watch.Look(std::move(wanted), [](const std::vector<ProcessWatch::Seen>&) {});
    }
  }
}

}  // namespace
}  // namespace harmonaize::daemon
