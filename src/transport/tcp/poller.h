#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::transport {

/// An epoll set whose descriptor may itself be watched. Thread: one.
class Poller {
 public:
  /// Handles the events of one descriptor.
  class Handler {
   public:
    /// `events` are epoll's. May remove itself and others, and add.
    virtual void OnReady(uint32_t events) = 0;
    /// Called as requested by Poller::Later.
    virtual void OnLater() {}

   protected:
    ~Handler() = default;
  };

  static Result<std::unique_ptr<Poller>> Create();

  Status Add(int fd, uint32_t events, Handler* handler);
  void Change(int fd, uint32_t events, Handler* handler);
  /// Stops calls to `handler`. To be called before the descriptor is closed.
  void Remove(int fd, Handler* handler);

  /// Calls the handlers of descriptors that are ready now, without waiting. Returns how many.
  int Poll();

  /// Makes RunLater call OnLater of `handler`, once however often this is called before: for work
  /// that is better done for many events at once. Requires: the handler is added while it waits.
  void Later(Handler* handler);
  /// Calls the waiting handlers, but not those that ask for it meanwhile. Returns how many.
  int RunLater();
  bool has_later() const { return !later_.empty(); }

  int fd() const { return epoll_.get(); }

 private:
  explicit Poller(FileDescriptor epoll) : epoll_(std::move(epoll)) {}

  FileDescriptor epoll_;
  std::array<epoll_event, 32> batch_{};
  int batch_size_ = 0;
  std::vector<Handler*> later_;
  std::vector<Handler*> running_later_;
};

}  // namespace harmonaize::transport
