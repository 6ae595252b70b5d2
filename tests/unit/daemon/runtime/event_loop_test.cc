#include "daemon/runtime/event_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <vector>

#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {
namespace {

FileDescriptor Rung() {
  return FileDescriptor(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
}

TEST(EventLoop, CallsWhatIsReady) {
  Result<std::unique_ptr<EventLoop>> made = EventLoop::Create();
  ASSERT_TRUE(made.ok());
  EventLoop* const loop = made->get();
  const FileDescriptor ready = Rung();
  const FileDescriptor silent(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int calls = 0;
  ASSERT_TRUE(loop->Watch(ready.get(), [&] { ++calls; }).ok());
  ASSERT_TRUE(loop->Watch(silent.get(), [&] { calls += 100; }).ok());
  loop->Wait(0);
  EXPECT_EQ(calls, 1);
  loop->Unwatch(ready.get());
  loop->Wait(0);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, HearsEveryRingOfABellThatNobodyReads) {
  Result<std::unique_ptr<EventLoop>> made = EventLoop::Create();
  ASSERT_TRUE(made.ok());
  EventLoop* const loop = made->get();
  const FileDescriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int calls = 0;
  ASSERT_TRUE(loop->WatchBell(bell.get(), [&] { ++calls; }).ok());
  loop->Wait(0);
  EXPECT_EQ(calls, 0);
  for (int ring = 1; ring <= 3; ++ring) {
    const uint64_t one = 1;
    ASSERT_EQ(write(bell.get(), &one, sizeof one), ssize_t{sizeof one});
    loop->Wait(0);
    EXPECT_EQ(calls, ring);
    loop->Wait(0);
    EXPECT_EQ(calls, ring) << "once for each";
  }
}

TEST(EventLoop, AnExceptionEndsOnlyTheCallThatThrew) {
  Result<std::unique_ptr<EventLoop>> made = EventLoop::Create();
  ASSERT_TRUE(made.ok());
  EventLoop* const loop = made->get();
  int calls = 0;
  loop->Post([&] { ++calls; });
  loop->Post([] { throw std::runtime_error("for the test"); });
  loop->Post([] { throw std::bad_alloc(); });
  loop->Post([] { throw 3; });
  loop->Post([&] { ++calls; });
  EXPECT_TRUE(loop->RunPosted());
  EXPECT_EQ(calls, 2);
  const FileDescriptor first = Rung();
  const FileDescriptor second = Rung();
  for (const int fd : {first.get(), second.get()}) {
    ASSERT_TRUE(loop->Watch(fd,
                            [&] {
                              ++calls;
                              throw std::runtime_error("for the test");
                            })
                    .ok());
  }
  loop->Wait(0);
  EXPECT_EQ(calls, 4);
  loop->Wait(0);
  EXPECT_EQ(calls, 6) << "they are watched still";
}

TEST(EventLoop, WhatCannotBeWatchedIsForgotten) {
  Result<std::unique_ptr<EventLoop>> made = EventLoop::Create();
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE((*made)->Watch(-1, [] {}).ok());
  const FileDescriptor ready = Rung();
  int calls = 0;
  ASSERT_TRUE((*made)->Watch(ready.get(), [&] { ++calls; }).ok());
  EXPECT_FALSE((*made)->Watch(ready.get(), [&] { calls += 100; }).ok()) << "it is watched already";
  (*made)->Wait(0);
  EXPECT_EQ(calls, 1);
}

// Two descriptors become ready in one round. The handler that runs first closes both, and opens
// others, which get the same numbers: what was reported is not theirs.
TEST(EventLoop, TellsDescriptorsOfOneNumberApart) {
  Result<std::unique_ptr<EventLoop>> made = EventLoop::Create();
  ASSERT_TRUE(made.ok());
  EventLoop* const loop = made->get();
  std::vector<FileDescriptor> old_ones;
  std::vector<FileDescriptor> new_ones;
  int old_calls = 0;
  int new_calls = 0;
  const auto replace = [&] {
    ++old_calls;
    for (const FileDescriptor& fd : old_ones) loop->Unwatch(fd.get());
    old_ones.clear();
    for (int i = 0; i < 2; ++i) {
      new_ones.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      ASSERT_TRUE(loop->Watch(new_ones.back().get(), [&] { ++new_calls; }).ok());
    }
  };
  old_ones.push_back(Rung());
  old_ones.push_back(Rung());
  const int first = old_ones[0].get();
  const int second = old_ones[1].get();
  ASSERT_TRUE(loop->Watch(first, replace).ok());
  ASSERT_TRUE(loop->Watch(second, replace).ok());
  loop->Wait(0);
  ASSERT_EQ(old_calls, 1);
  ASSERT_EQ(new_ones[0].get(), first);
  ASSERT_EQ(new_ones[1].get(), second);
  EXPECT_EQ(new_calls, 0);
}

}  // namespace
}  // namespace harmonaize::daemon
