#pragma once

#include <pthread.h>
#include <signal.h>

namespace harmonaize_torch {

/// Blocks all signals in the calling thread for as long as the object lives: a thread that is
/// started meanwhile takes none, and leaves them to the program's threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace harmonaize_torch
