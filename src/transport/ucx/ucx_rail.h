#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/transport/channel.h"
#include "src/transport/link/rail.h"
#include "src/transport/tcp/poller.h"
#include "src/transport/ucx/ucx_library.h"

namespace harmonaize::transport {

/// A UCX worker on one device, for all peers. Messages are active messages: UCX sends small ones at
/// once, and offers large ones and moves them itself. A message must carry the token that its
/// receiver gave the sender over the proved control link; others are dropped and counted. Tokens
/// keep honest strangers apart; they do not protect UCX's own protocol from hostile ones.
class UcxRail final : public Poller::Handler {
 public:
  /// Pointers must outlive the rail. Errors: kUnavailable without UCX or the device, kSystemError.
  static Result<std::unique_ptr<UcxRail>> Create(Poller* poller, MessageBoard* board,
                                                 const RailOptions& options);
  /// Waits up to a second for buffers that UCX still holds.
  ~UcxRail();
  UcxRail(const UcxRail&) = delete;
  UcxRail& operator=(const UcxRail&) = delete;

  /// Returns the worker's address, an opaque string by which peers reach it.
  const std::string& address() const { return address_; }

  /// Makes a channel to a peer: messages with `our_token` come from it, ours carry `their_token`.
  /// The channel must be destroyed before the rail, once it does not linger.
  Result<std::unique_ptr<Channel>> Connect(Channel::Owner* owner, PeerId peer, std::string name,
                                           const std::string& address, uint64_t our_token,
                                           uint64_t their_token);

  /// Does what can be done now. Returns how much there was.
  int Progress();
  /// Returns whether the owner may sleep on the poller.
  bool Arm();

  uint64_t foreign_messages() const { return foreign_messages_; }

  /// Pins memory until the result is passed to Unmap.
  Result<ucp_mem_h> Map(std::span<std::byte> memory);
  void Unmap(ucp_mem_h memory);

  void OnReady(uint32_t) override {}

 private:
  class UcxChannel;

  /// Precedes every message.
  struct Header {
    uint64_t token;
    MessageTag tag;
  };
  /// A send or receive that UCX works on.
  struct Call : ListNode {
    UcxRail* rail = nullptr;
    UcxChannel* channel = nullptr;
    Request* request = nullptr;
    void* handle = nullptr;
    bool aborted = false;
    Status abort_status;
    Header header{};
  };

  UcxRail(Poller* poller, MessageBoard* board, const UcxLibrary* ucx)
      : poller_(poller), board_(board), ucx_(ucx) {}

  Status Open(const RailOptions& options);
  Status OpenContext(const RailOptions& options);
  Call* NewCall(UcxChannel* channel, Request* request);
  void Begin(Call* call, ucs_status_ptr_t begun);
  void End(Call* call, ucs_status_t status);
  void Match(Arrival* arrival);

  static ucs_status_t OnMessage(void* rail, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param);
  static void OnSent(void* handle, ucs_status_t status, void* call);
  static void OnReceived(void* handle, ucs_status_t status, size_t length, void* call);

  Poller* poller_;
  MessageBoard* board_;
  const UcxLibrary* ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::string address_;
  std::unordered_map<uint64_t, UcxChannel*> by_token_;
  std::deque<Call> calls_;  // never moves
  IntrusiveList<Call> free_calls_;
  IntrusiveList<Arrival> fresh_;  // offers that came in this round
  size_t calls_under_way_ = 0;
  uint64_t foreign_messages_ = 0;
};

}  // namespace harmonaize::transport
