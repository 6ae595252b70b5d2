#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/support/other_users.h"

namespace harmonaize::testing {

/// Another user's process, which does something and keeps what it has until the object goes.
class Stranger {
 public:
  /// Returns once `body` has.
  explicit Stranger(const std::function<void()>& body) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    process_ = StartAs(kBob, [&] {
      body();
      EXPECT_EQ(write(ready[1], "!", 1), 1);
      while (true) pause();
      return 0;
    });
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1) << "the stranger has failed";
    close(ready[0]);
  }
  ~Stranger() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

 private:
  pid_t process_ = -1;
};

}  // namespace harmonaize::testing
