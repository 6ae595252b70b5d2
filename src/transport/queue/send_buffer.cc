#include "src/transport/queue/send_buffer.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

namespace harmonaize::transport {
namespace {

// Bytes that are written between two adjustments of a buffer.
constexpr size_t kSampleBytes = size_t{512} << 10;
// Least bytes of a buffer: two frames of large messages, and a reserve for when this thread is
// late.
constexpr size_t kLeastBytes = size_t{128} << 10;
// Least bytes of a buffer that several tenants share.
constexpr size_t kLeastSharedBytes = size_t{16} << 10;
// Most bytes of a buffer.
constexpr size_t kMostBytes = size_t{64} << 20;
// Headers of older systems lack this constant.
#ifdef SO_BUF_LOCK
constexpr int kBufferLock = SO_BUF_LOCK;
#else
constexpr int kBufferLock = 72;
#endif

}  // namespace

size_t SendBuffer::BytesFor(uint32_t round_trip_us, uint64_t bytes_per_second, bool shared) {
  const double on_the_way =
      static_cast<double>(round_trip_us) * 1e-6 * static_cast<double>(bytes_per_second);
  const double bytes = std::min(2 * on_the_way, static_cast<double>(kMostBytes));
  return std::max(static_cast<size_t>(bytes), shared ? kLeastSharedBytes : kLeastBytes);
}

void SendBuffer::SetShared(int socket, bool shared) {
  if (shared == shared_ || gave_up_) return;
  shared_ = shared;
  bytes_ = 0;
  Adjust(socket);
}

void SendBuffer::OnWritten(int socket, size_t bytes) {
  since_ += bytes;
  if (since_ < kSampleBytes || gave_up_) return;
  since_ = 0;
  Adjust(socket);
}

void SendBuffer::Adjust(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return;
  if (info.tcpi_delivery_rate == 0 || info.tcpi_min_rtt == UINT32_MAX) return;
  // A pause of the sender looks like a slow way, so the rate is forgotten slowly.
  rate_ = std::max<uint64_t>(info.tcpi_delivery_rate, rate_ - rate_ / 8);
  const size_t wanted = BytesFor(info.tcpi_min_rtt, rate_, shared_);
  if (bytes_ != 0 && wanted <= bytes_ + bytes_ / 4 && wanted >= bytes_ / 2) return;
  Set(socket, wanted);
}

void SendBuffer::Set(int socket, size_t bytes) {
  const int value = static_cast<int>(bytes);
  // The first option is for processes that may exceed net.core.wmem_max.
  if (setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &value, sizeof value) != 0 &&
      setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &value, sizeof value) != 0) {
    gave_up_ = true;
    return;
  }
  bytes_ = bytes;
  int now = 0;
  socklen_t length = sizeof now;
  const bool read = getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &now, &length) == 0;
  if (!read || static_cast<size_t>(now) >= bytes) return;
  // The system allows less than this way needs, so the kernel's own choice is better.
  const int unlocked = 0;
  setsockopt(socket, SOL_SOCKET, kBufferLock, &unlocked, sizeof unlocked);
  gave_up_ = true;
}

}  // namespace harmonaize::transport
