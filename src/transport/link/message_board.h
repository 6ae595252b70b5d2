#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "src/transport/message.h"
#include "src/transport/queue/intrusive_list.h"

namespace harmonaize::transport {

class Channel;

/// A posted send or receive. Belongs to the board; everybody else borrows it until Complete.
struct Request : ListNode {
  enum class State : uint8_t {
    kFree,
    kPosted,    ///< A receive that no message has come for.
    kMoving,    ///< A receive whose bytes come, or that has said it is ready for them.
    kQueued,    ///< A send that has not been announced or sent.
    kOffered,   ///< A send that waits until the receiver is ready.
    kStreaming  ///< A send whose bytes go.
  };

  State state = State::kFree;
  bool is_send = false;
  bool first_connection = false;  ///< A send that is not to be spread: RailChoice.
  TenantShare share;              ///< A send's.
  uint64_t left = 0;              ///< A send's: RailChoice.
  uint32_t index = 0;
  uint32_t generation = 0;
  PeerId peer = 0;
  MessageTag tag;
  std::byte* data = nullptr;
  size_t size = 0;             ///< Of the buffer.
  size_t total = 0;            ///< Of the message.
  size_t moved = 0;            ///< Bytes of it that went or came.
  Channel* channel = nullptr;  ///< That sends it, or that it comes over.
  uint64_t remote_slot = 0;    ///< The other side's request, as that side calls it.
  void* foreign = nullptr;     ///< For a channel's own use.
  Completion completion;
  Status status;

  /// Names this request in messages; stale once it has completed.
  uint64_t slot() const { return uint64_t{generation} << 32 | index; }
};

/// A message that came, wholly or as an offer, before its receive was posted.
struct Arrival : ListNode {
  PeerId peer = 0;
  MessageTag tag;
  size_t total = 0;
  bool offered = false;  ///< Only announced: the bytes are still with the sender.
  Channel* channel = nullptr;
  uint64_t remote_slot = 0;  ///< Of an offer.
  void* foreign = nullptr;   ///< For a channel's own use.
  /// What came, when not offered. Keeps its capacity from use to use, within reason.
  std::vector<std::byte> data;
};

/// Brings together what is posted and what comes, in whatever order, by peer and tag; messages of
/// one tag in the order posted and the order they came. Requests and arrivals are pooled. For the
/// owner's thread.
class MessageBoard {
 public:
  MessageBoard();
  ~MessageBoard();
  MessageBoard(const MessageBoard&) = delete;
  MessageBoard& operator=(const MessageBoard&) = delete;

  Request* NewRequest(bool is_send, PeerId peer, const MessageTag& tag, std::byte* data,
                      size_t size, Completion completion);
  /// The request that slot() gave this name; null when it has completed.
  Request* Find(uint64_t slot) const;

  /// Makes a receive known to what comes.
  void Post(Request* receive);
  /// The oldest posted receive for this message, no longer posted; null when there is none.
  Request* TakePosted(PeerId peer, const MessageTag& tag);

  /// A pooled arrival, not yet known to receives.
  Arrival* NewArrival(PeerId peer, const MessageTag& tag, size_t total);
  void AddArrival(Arrival* arrival);
  /// The oldest arrival for this receive; null when there is none. To be given back with Free.
  Arrival* TakeArrival(PeerId peer, const MessageTag& tag);
  /// The offer that the sender calls `remote_slot`, taken; null when there is none.
  Arrival* TakeOffer(PeerId peer, const MessageTag& tag, uint64_t remote_slot);
  void Free(Arrival* arrival);

  /// Ends a request: nobody may use it any more. Its completion is called by RunCompletions.
  void Complete(Request* request, Status status);
  bool HasCompletions() const { return !completed_.empty(); }
  /// Calls the completions of what has ended so far. How many.
  int RunCompletions();

  /// Messages of this operation are not kept from now on. The last few thousand are remembered.
  void MarkCancelled(PeerId peer, uint64_t operation);
  bool IsCancelled(PeerId peer, uint64_t operation) const {
    return !cancelled_.empty() && cancelled_.contains({peer, operation});
  }

  /// Each request under way that `wanted` is true for; `act` may complete it.
  template <typename Wanted, typename Act>
  void ForEachRequest(Wanted wanted, Act act) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      Request& request = requests_[i];
      if (request.state != Request::State::kFree && wanted(request)) act(&request);
    }
  }
  /// Takes the arrivals that `wanted` is true for; `act` gets each, and frees it.
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

  size_t requests_under_way() const { return under_way_; }
  size_t arrivals_waiting() const { return arrivals_waiting_; }
  size_t arrival_bytes() const { return arrival_bytes_; }

 private:
  struct Bucket {
    IntrusiveList<Request> posted;
    IntrusiveList<Arrival> arrivals;
  };
  struct OperationKey {
    PeerId peer;
    uint64_t operation;
    bool operator==(const OperationKey&) const = default;
  };
  struct OperationHash {
    size_t operator()(const OperationKey& key) const;
  };

  Bucket& BucketOf(PeerId peer, const MessageTag& tag) const;
  void Unlist(Arrival* arrival);
  void GrowIfCrowded();

  std::deque<Request> requests_;  // never moves
  std::deque<Arrival> arrivals_;
  IntrusiveList<Request> free_requests_;
  IntrusiveList<Arrival> free_arrivals_;
  IntrusiveList<Request> completed_;
  std::unique_ptr<Bucket[]> buckets_;
  size_t bucket_count_ = 0;  // a power of two
  size_t listed_ = 0;        // posted receives and arrivals in buckets, about
  size_t under_way_ = 0;
  size_t arrivals_waiting_ = 0;
  size_t arrival_bytes_ = 0;
  std::unordered_set<OperationKey, OperationHash> cancelled_;
  std::deque<OperationKey> cancelled_order_;
};

}  // namespace harmonaize::transport
