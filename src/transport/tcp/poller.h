#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::transport {

/// An epoll set whose descriptor may itself be watched. For one thread.
class Poller {
 public:
  /// One for each descriptor.
  class Handler {
   public:
    /// `events` are epoll's. May remove itself and others, and add.
    virtual void OnReady(uint32_t events) = 0;
    /// What Later asked for.
    virtual void OnLater() {}

   protected:
    ~Handler() = default;
  };

  static Result<std::unique_ptr<Poller>> Create();

  Status Add(int fd, uint32_t events, Handler* handler);
  void Change(int fd, uint32_t events, Handler* handler);
  /// Nothing is called on `handler` afterwards. Before the descriptor is closed.
  void Remove(int fd, Handler* handler);

  /// Calls the handlers of what is ready now, without waiting. How many there were.
  int Poll();

  /// Has RunLater call OnLater of `handler`, once however often this is called before: what is
  /// better done for many things at once. Handlers that wait for it are to be added.
  void Later(Handler* handler);
  /// Not of those that ask for it meanwhile. How many there were.
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
