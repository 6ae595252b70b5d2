#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/quota/holdings.h"
#include "daemon/tenant/connection.h"
#include "src/base/collective.h"
#include "src/base/looking.h"
#include "src/base/status.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

class Communicator;
class Formation;
class Session;
struct PostedOperation;

/// One rank of one communicator, as its session holds it. It exists from Join (or Split, ...) until
/// the rank has left and nothing of it is in flight.
struct Member {
  Session* session = nullptr;
  uint32_t index = kNoMember;  ///< Index of its slot in the session's segment.
  MemberSlot* slot = nullptr;
  SessionHeader* header = nullptr;  ///< Of the session's segment.
  int rank = -1;
  int ranks = 0;  ///< Number of ranks in the communicator.

  Formation* formation = nullptr;  ///< Set while the communicator forms here.
  size_t place_in_formation = 0;   ///< Its place there.
  uint64_t ticket = 0;             ///< Set while it forms at another daemon: ApplyMessage::ticket.
  Communicator* communicator = nullptr;  ///< Set once it has formed, until the rank has left.

  uint64_t next_sequence = 0;  ///< The collective that it posts next.
  /// By collective: how many operations it has posted.
  std::array<uint64_t, kCollectiveCount> posted = {};
  uint64_t next_split = 0;  ///< How many splits it has called.
  /// The operations that MemberSlot::lanes tell of; nullptr: none. RankFeed sets them.
  std::array<const PostedOperation*, kSliceLanes> sliced = {};
  Looking looking = Looking::kAsItPays;  ///< How it waits. Changed by Session::SetLooking.
  int64_t outstanding = 0;               ///< Posted operations that are not completed.
  /// Called once, when the last of them is completed. It throws nothing.
  std::function<void()> on_idle;
  bool attached_inline = false;  ///< It has been given the segment of the inline path.
  bool gone = false;             ///< It has left, or its process has ended.
  bool aborted = false;          ///< It has aborted its communicator.
  // Resources that the tenant is charged for the member.
  Holding place;
  Holding memory;

  /// Lets the other ranks of the communicator map a region of its session. Does nothing if they may
  /// already. Returns kInvalidUsage if its tenant has no memory left for that.
  Status Offer(uint32_t region);
  /// Withdraws the offer of a region. Returns whether there was one.
  bool TakeBackOffer(uint32_t region);
  bool Offers(uint32_t region) const;
  std::vector<uint32_t> offered_regions;  ///< Sorted. Changed by Offer and TakeBackOffer. Used by
                                          ///< Session, whose regions know who offers them.

  /// Sets the slot's state and wakes the tenant's threads that wait for it.
  void SetState(MemberState state);
  /// Sets the state to kFailed, with the reason.
  void Fail(const Status& why) { Fail(why.code(), why.message()); }
  void Fail(Code code, std::string_view why);
  /// Tells the tenant that the rank has left, and wakes its threads that wait for that.
  void TellDeparture();
};

}  // namespace harmonaize::daemon
