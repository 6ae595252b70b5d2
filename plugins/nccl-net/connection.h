#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "plugins/nccl-net/carrier.h"
#include "plugins/nccl-net/registration.h"
#include "plugins/nccl-net/transfer.h"
#include "src/base/status.h"

namespace harmonaize::nccl_net {

class Connection;

/// Most receives that one request groups.
inline constexpr int kMostGrouped = 8;

/// What isend and irecv return: some messages, which end together.
struct Request {
  Connection* connection = nullptr;
  std::vector<Transfer> transfers;
  size_t ended = 0;  ///< Transfers before this one have ended.
};

/// One direction between two processes, as NCCL uses it: a sendComm or a recvComm. Messages of one
/// tag arrive in the order in which they were sent. Thread: one at a time; connections that share a
/// carrier do not disturb each other.
class Connection {
 public:
  Connection(std::shared_ptr<Carrier> carrier, uint32_t pipe, bool sends)
      : carrier_(std::move(carrier)),
        pipe_(pipe),
        sends_(sends),
        slots_(std::make_unique<MessageSlots>(carrier_->session())) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// One message to be posted.
  struct Posted {
    void* data = nullptr;
    uint64_t bytes = 0;
    int tag = 0;
    const Registration* registration = nullptr;  ///< nullptr: the memory is not registered.
  };
  /// Posts messages that end together. Returns nullptr where that is not possible now. Errors: why
  /// the connection is of no use any more; kInvalidArgument for data that is not registered where
  /// it says.
  Result<Request*> Post(std::span<const Posted> messages);
  /// Goes on with a request. Returns ok once all of its messages have ended, kInProgress before, or
  /// why one has failed.
  Status Test(Request* request);
  /// Takes an ended request back.
  void Retire(Request* request);

  /// Ends what is under way. Whoever destroys the connection first waits until Abandoned().
  void Close();
  /// Returns whether the daemon has let go of all memory of this connection.
  bool Abandoned();

  bool sends() const { return sends_; }
  const std::shared_ptr<Carrier>& carrier() const { return carrier_; }
  Session& session() { return *carrier_->session(); }

  /// Most requests of a connection under way at once. NCCL has up to 32.
  static constexpr size_t kMostRequests = 128;

 private:
  /// NCCL looks at a transfer again and again. This many looks that find nothing come between two
  /// checks whether the daemon still runs. A look takes some 10 to 20 us at most, with NCCL's own
  /// work, so there are ten checks in a second at least.
  static constexpr uint32_t kLooksPerCheck = 4096;

  Result<Transfer> MakeTransfer(const Posted& message);
  Status CheckHealthNowAndThen();

  const std::shared_ptr<Carrier> carrier_;
  const uint32_t pipe_;
  const bool sends_;
  std::unique_ptr<MessageSlots> slots_;
  std::unordered_map<int, uint32_t> numbers_;  // messages so far, by tag
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<Request*> free_;
  Status failure_;
  uint32_t looks_ = 0;
  bool closed_ = false;
};

}  // namespace harmonaize::nccl_net
