#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonaize::transport {

/// Keeps the send buffer of a TCP connection near what the way needs. Left to itself the kernel
/// grows it as long as no packet is lost, up to megabytes, and all that the way cannot hold waits
/// in switches' queues. Throughput gains nothing; but every message, and every word of readiness
/// for one, waits behind it, and in a schedule messages wait for each other.
///
/// What is needed is the product of rate and round trip (Little's law; Jacobson, "Congestion
/// avoidance and control", 1988). The buffer gets twice that, by the least round trip seen, and so
/// grows again as soon as the rate does. For the owner's thread.
class SendBuffer {
 public:
  /// `bytes` were written to the socket. Now and then asks the kernel, and sets the buffer.
  void OnWritten(int socket, size_t bytes);

  /// Several tenants have sent lately (TenantMix): what waits in the kernel waits in the order in
  /// which it was written, so as little as possible is to wait there.
  void SetShared(int socket, bool shared);

  /// What is set for a round trip in microseconds and a rate: bytes, as SO_SNDBUF takes them (the
  /// kernel doubles it, for its own needs).
  static size_t BytesFor(uint32_t round_trip_us, uint64_t bytes_per_second, bool shared = false);

 private:
  void Adjust(int socket);
  void Set(int socket, size_t bytes);

  size_t since_ = 0;
  uint64_t rate_ = 0;
  size_t bytes_ = 0;  // that are set; 0: the kernel's choice
  bool shared_ = false;
  bool gave_up_ = false;
};

}  // namespace harmonaize::transport
