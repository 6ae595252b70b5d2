#include "src/transport/tcp/poller.h"

#include <algorithm>
#include <cerrno>

namespace harmonaize::transport {

Result<std::unique_ptr<Poller>> Poller::Create() {
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoError(errno, "cannot make an epoll set");
  return std::unique_ptr<Poller>(new Poller(std::move(epoll)));
}

Status Poller::Add(int fd, uint32_t events, Handler* handler) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = handler;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return Status::Ok();
  return ErrnoError(errno, "cannot watch a connection");
}

void Poller::Change(int fd, uint32_t events, Handler* handler) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = handler;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::Remove(int fd, Handler* handler) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  for (int i = 0; i < batch_size_; ++i) {
    epoll_event& pending = batch_[static_cast<size_t>(i)];
    if (pending.data.ptr == handler) pending.data.ptr = nullptr;
  }
  std::replace(running_later_.begin(), running_later_.end(), handler,
               static_cast<Handler*>(nullptr));
  later_.erase(std::remove(later_.begin(), later_.end(), handler), later_.end());
}

void Poller::Later(Handler* handler) {
  if (std::find(later_.begin(), later_.end(), handler) == later_.end()) later_.push_back(handler);
}

int Poller::RunLater() {
  running_later_.swap(later_);
  int called = 0;
  for (size_t i = 0; i < running_later_.size(); ++i) {
    if (running_later_[i] == nullptr) continue;
    running_later_[i]->OnLater();
    ++called;
  }
  running_later_.clear();
  return called;
}

int Poller::Poll() {
  const int found =
      epoll_wait(epoll_.get(), batch_.data(), static_cast<int>(batch_.size()), /*timeout=*/0);
  batch_size_ = found > 0 ? found : 0;
  for (int i = 0; i < batch_size_; ++i) {
    const epoll_event event = batch_[static_cast<size_t>(i)];
    if (event.data.ptr != nullptr) static_cast<Handler*>(event.data.ptr)->OnReady(event.events);
  }
  const int handled = batch_size_;
  batch_size_ = 0;
  return handled;
}

}  // namespace harmonaize::transport
