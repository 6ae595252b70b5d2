#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonaize::transport {

/// Keeps the send buffer of a TCP connection near the size that its way needs. By default the
/// kernel grows it as long as no packet is lost, up to megabytes, and all that exceeds the capacity
/// of the way waits in the queues of switches. Throughput gains nothing. But every message, and
/// every readiness note, waits behind that data, and messages of a schedule wait for each other.
///
/// The size needed is the product of rate and round trip (Little's law; Jacobson, "Congestion
/// avoidance and control", 1988). The buffer gets twice that, by the least round trip seen, so it
/// grows again as soon as the rate does. Thread: one, the transport's owner.
class SendBuffer {
 public:
  /// Notes that `bytes` were written to the socket. Now and then asks the kernel, and sets the
  /// buffer.
  void OnWritten(int socket, size_t bytes);

  /// Tells whether several tenants have sent lately (TenantMix). Data in the kernel waits in the
  /// order in which it was written, so then as little as possible should wait there.
  void SetShared(int socket, bool shared);

  /// Returns the bytes for a round trip in microseconds and a rate, as SO_SNDBUF takes them (the
  /// kernel doubles them, for its own needs).
  static size_t BytesFor(uint32_t round_trip_us, uint64_t bytes_per_second, bool shared = false);

 private:
  void Adjust(int socket);
  void Set(int socket, size_t bytes);

  size_t since_ = 0;
  uint64_t rate_ = 0;
  size_t bytes_ = 0;  // as set; 0: the kernel's choice
  bool shared_ = false;
  bool gave_up_ = false;
};

}  // namespace harmonaize::transport
