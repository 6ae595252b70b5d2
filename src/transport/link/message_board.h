#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/base/intrusive_list.h"
#include "src/transport/link/recent_operations.h"
#include "src/transport/link/slab_pool.h"
#include "src/transport/message.h"

namespace harmonaize::transport {

class Channel;

/// A second place of a request or an arrival: in the list of its operation.
template <typename T>
struct OperationPlace : ListNode {
  explicit OperationPlace(T* of) : owner(of) {}
  T* const owner;
};

/// A posted send or receive. Belongs to the board; others borrow it until Complete.
struct Request : SlabItem {
  enum class State : uint8_t {
    kFree,
    kPosted,    ///< A receive for which no message has come.
    kMoving,    ///< A receive whose bytes are arriving, or whose sender was told that it is ready.
    kQueued,    ///< A send that has not been announced or sent.
    kOffered,   ///< A send that waits until the receiver is ready.
    kStreaming  ///< A send whose bytes are being sent.
  };

  State state = State::kFree;
  bool is_send = false;
  bool first_connection = false;  ///< A send that is not to be spread: RailChoice.
  TenantShare share;              ///< Share of a send.
  uint64_t left = 0;              ///< Bytes left of a send: RailChoice.
  PeerId peer = 0;
  MessageTag tag;
  std::byte* data = nullptr;
  size_t size = 0;             ///< Bytes of the buffer.
  size_t total = 0;            ///< Bytes of the message.
  size_t moved = 0;            ///< Bytes of the message that were sent or received.
  Channel* channel = nullptr;  ///< Channel that sends it, or over which it arrives.
  uint64_t remote_slot = 0;    ///< The other side's request, by that side's slot().
  void* foreign = nullptr;     ///< For a channel's own use.
  Completion completion;
  Status status;
  OperationPlace<Request> in_operation{this};

  /// Returns the request's name in messages, which becomes stale once it has completed.
  uint64_t slot() const { return uint64_t{generation} << 32 | index; }
};

/// A message that arrived, wholly or as an offer, before its receive was posted.
struct Arrival : SlabItem {
  PeerId peer = 0;
  MessageTag tag;
  size_t total = 0;
  bool offered = false;  ///< Only announced; the bytes are still with the sender.
  Channel* channel = nullptr;
  uint64_t remote_slot = 0;  ///< The sender's request of an offer.
  void* foreign = nullptr;   ///< For a channel's own use.
  /// The bytes, if not offered. Keeps its capacity from use to use, within bounds.
  std::vector<std::byte> data;
  OperationPlace<Arrival> in_operation{this};
};

/// Matches posted requests and arriving messages, in whatever order, by peer and tag. Messages of
/// one tag are matched in the order posted and the order of arrival. Requests and arrivals are
/// pooled. Thread: one, the transport's owner.
class MessageBoard {
 public:
  MessageBoard();
  ~MessageBoard();
  MessageBoard(const MessageBoard&) = delete;
  MessageBoard& operator=(const MessageBoard&) = delete;

  Request* NewRequest(bool is_send, PeerId peer, const MessageTag& tag, std::byte* data,
                      size_t size, Completion completion);
  /// Returns the request whose slot() this is; null when it has completed.
  Request* Find(uint64_t slot) const;

  /// Lets arriving messages match a receive.
  void Post(Request* receive);
  /// Removes and returns the oldest posted receive for this message; null when there is none.
  Request* TakePosted(PeerId peer, const MessageTag& tag);

  /// Returns a pooled arrival that receives cannot match yet.
  Arrival* NewArrival(PeerId peer, const MessageTag& tag, size_t total);
  void AddArrival(Arrival* arrival);
  /// Removes and returns the oldest arrival for this receive; null when there is none. To be given
  /// back with Free.
  Arrival* TakeArrival(PeerId peer, const MessageTag& tag);
  /// Removes and returns the offer that the sender calls `remote_slot`; null when there is none.
  Arrival* TakeOffer(PeerId peer, const MessageTag& tag, uint64_t remote_slot);
  void Free(Arrival* arrival);

  /// Ends a request, which must not be used any more. RunCompletions calls its completion.
  void Complete(Request* request, Status status);
  bool HasCompletions() const { return !completed_.empty(); }
  /// Calls the completions of the requests that have ended so far. Returns how many.
  int RunCompletions();

  /// Drops messages of this operation from now on. The last ones are remembered, because others may
  /// still send for them: a tenant may have tens of thousands cancelled at once. What comes for one
  /// that is forgotten stays until the link ends.
  void MarkCancelled(PeerId peer, uint64_t operation) { cancelled_.Add(peer, operation); }
  bool IsCancelled(PeerId peer, uint64_t operation) const {
    return cancelled_.Contains(peer, operation);
  }

  /// Calls `act` for each request under way for which `wanted` is true; `act` may complete it.
  template <typename Wanted, typename Act>
  void ForEachRequest(Wanted wanted, Act act) {
    requests_.ForEach([&](Request& request) {
      if (request.state != Request::State::kFree && wanted(request)) act(&request);
    });
  }
  /// Removes the arrivals for which `wanted` is true, and passes each to `act`, which frees it.
  template <typename Wanted, typename Act>
  void TakeArrivals(Wanted wanted, Act act) {
    for (size_t i = 0; i < bucket_count_; ++i) {
      for (Arrival* next = buckets_[i].arrivals.Front(); next != nullptr;) {
        Arrival* arrival = next;
        next = buckets_[i].arrivals.After(arrival);
        if (!wanted(*arrival)) continue;
        Unlist(arrival);
        act(arrival);
      }
    }
  }

  /// Calls `act` for each request under way of this operation; `act` may complete it. Takes as long
  /// as the operation has requests.
  template <typename Act>
  void ForEachRequestOf(PeerId peer, uint64_t operation, Act act) {
    std::vector<std::pair<Request*, uint32_t>> found;
    const auto& requests = OperationBucketOf(peer, operation).requests;
    for (auto* place = requests.Front(); place != nullptr; place = requests.After(place)) {
      const Request& request = *place->owner;
      if (request.peer == peer && request.tag.operation == operation) {
        found.emplace_back(place->owner, request.generation);
      }
    }
    for (const auto& [request, generation] : found) {
      const bool under_way =
          request->generation == generation && request->state != Request::State::kFree;
      if (under_way) act(request);
    }
  }
  /// Removes the arrivals of this operation, and passes each to `act`, which frees it.
  template <typename Act>
  void TakeArrivalsOf(PeerId peer, uint64_t operation, Act act) {
    while (Arrival* const arrival = ArrivalOf(peer, operation)) {
      Unlist(arrival);
      act(arrival);
    }
  }

  size_t requests_under_way() const { return under_way_; }
  size_t arrivals_waiting() const { return arrivals_waiting_; }
  size_t arrival_bytes() const { return arrival_bytes_; }

 private:
  struct Bucket {
    IntrusiveList<Request> posted;
    IntrusiveList<Arrival> arrivals;
  };
  struct OperationBucket {
    IntrusiveList<OperationPlace<Request>> requests;
    IntrusiveList<OperationPlace<Arrival>> arrivals;
  };

  Bucket& BucketOf(PeerId peer, const MessageTag& tag) const;
  OperationBucket& OperationBucketOf(PeerId peer, uint64_t operation) const;
  Arrival* ArrivalOf(PeerId peer, uint64_t operation) const;
  void GrowOperationsIfCrowded();
  void Unlist(Arrival* arrival);
  void GrowIfCrowded();

  SlabPool<Request> requests_;
  SlabPool<Arrival> arrivals_;
  IntrusiveList<Request> completed_;
  std::unique_ptr<Bucket[]> buckets_;
  size_t bucket_count_ = 0;  // a power of two
  std::unique_ptr<OperationBucket[]> operations_;
  size_t operation_count_ = 0;  // buckets in operations_, a power of two
  size_t listed_ = 0;           // posted receives and arrivals in buckets, approximately
  size_t under_way_ = 0;
  size_t arrivals_waiting_ = 0;
  size_t arrival_bytes_ = 0;
  size_t kept_bytes_ = 0;  // capacity of the buffers of free arrivals
  RecentOperations cancelled_;
};

}  // namespace harmonaize::transport
