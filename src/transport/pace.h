#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/poller.h"

namespace harmonaize::transport {

/// Holds those who write to a rail to a rate, together (a token bucket): what may not go yet waits
/// with the writer, who can still change its mind about the order. For the poller's thread.
class Pace final : private Poller::Handler {
 public:
  /// Errors: kSystemError. `poller` must outlive the pace.
  static Result<std::unique_ptr<Pace>> Create(Poller* poller);
  Pace(Poller* poller, FileDescriptor timer) : poller_(poller), timer_(std::move(timer)) {}
  ~Pace();

  /// Bytes a second; kLeastRate at least. Infinite: nobody is held up.
  void SetRate(double bytes_per_second);
  bool limited() const { return limited_; }

  /// Whether something may be written now; what is, is told by Charge. Else OnLater of `writer` is
  /// called when it may, unless it is forgotten before.
  bool Admit(Poller::Handler* writer);
  void Charge(size_t bytes) { tokens_ -= limited_ ? static_cast<double>(bytes) : 0; }
  void Forget(Poller::Handler* writer);

  /// Below this a daemon's own messages would seem to have got stuck.
  static constexpr double kLeastRate = 1e5;

 private:
  void OnReady(uint32_t events) override;
  void Refill();
  void Wake();

  Poller* const poller_;
  const FileDescriptor timer_;
  bool limited_ = false;
  double bytes_per_ns_ = 0;
  double tokens_ = 0;  // bytes; below 0: owed
  uint64_t refilled_ns_ = 0;
  std::vector<Poller::Handler*> waiting_;
};

}  // namespace harmonaize::transport
