#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "daemon/transfer/secure_socket.h"
#include "daemon/transfer/transfer_wire.h"
#include "src/base/status.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {

/// Where a part of a checkpoint is read from, range by range.
class PartSource {
 public:
  virtual ~PartSource() = default;

  using Done = std::function<void(const Status&)>;
  /// Reads [at, at + into.size()) into `into`, behind what was asked for before, and calls `done`
  /// once, on whichever thread. `into` has to stay until `done` is gone. Errors: kSystemError,
  /// kInvalidUsage if nothing can be read now; `done` is not called then.
  virtual Status Read(uint64_t at, std::span<std::byte> into, Done done) = 0;
};

/// Reads ranges of a source of another daemon (PartServer) into memory, on a thread of its own. The
/// thread and its connection are there while there is something to read, and a moment longer: many
/// sources may be known, and few are read at a time. Thread: any.
class PartFetch final : public PartSource {
 public:
  /// `address` has the port of the server.
  PartFetch(const transport::NetworkAddress& address, const TransferTicket& ticket,
            std::shared_ptr<const SecureSettings> settings)
      : address_(address), ticket_(ticket), settings_(std::move(settings)) {}
  /// Ends what is under way; `done` of it is not called any more.
  ~PartFetch() override;
  PartFetch(const PartFetch&) = delete;
  PartFetch& operator=(const PartFetch&) = delete;

  /// `done` hears kRemoteError if the other daemon is gone, and kUnavailable if it has no such
  /// range, or what it had was replaced meanwhile.
  Status Read(uint64_t at, std::span<std::byte> into, Done done) override;

 private:
  struct Range {
    uint64_t at = 0;
    std::span<std::byte> into;
    Done done;
  };

  Status Start();
  void Run();
  bool AwaitRange(Range* range);
  Status Fetch(const Range& range);
  Status FetchOnce(const Range& range);
  bool is_stopping();
  Status Connect();

  const transport::NetworkAddress address_;
  const TransferTicket ticket_;
  const std::shared_ptr<const SecureSettings> settings_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<Range> ranges_;              // under mutex_
  bool stopping_ = false;                 // under mutex_
  bool is_running_ = false;               // under mutex_; false: the thread ends, or has ended
  std::unique_ptr<SecureSocket> socket_;  // set and reset under mutex_, by the thread
  std::thread thread_;
};

}  // namespace harmonaize::daemon
