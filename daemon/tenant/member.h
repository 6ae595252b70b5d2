#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/quota/holdings.h"
#include "daemon/tenant/connection.h"
#include "src/base/status.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

class Communicator;
class Formation;
class Session;

/// One rank of one communicator, as its session holds it. From Join (or Split, ...) until the rank
/// has left and nothing of it is in flight.
struct Member {
  Session* session = nullptr;
  uint32_t index = kNoMember;  ///< Of its slot in the session's segment.
  MemberSlot* slot = nullptr;
  int rank = -1;
  int ranks = 0;  ///< Of the communicator.

  Formation* formation = nullptr;  ///< While it forms here.
  size_t place_in_formation = 0;   ///< Its place there.
  uint64_t ticket = 0;             ///< While it forms at another daemon: ApplyMessage::ticket.
  Communicator* communicator = nullptr;  ///< Once it has formed, until it has left.

  uint64_t next_sequence = 0;    ///< The collective that it posts next.
  uint64_t next_split = 0;       ///< How many splits it has called.
  int64_t outstanding = 0;       ///< Posted operations that are not completed.
  bool attached_inline = false;  ///< It has been given the segment of the inline path.
  bool gone = false;             ///< It has left, or its process has ended.
  // What its tenant pays for it.
  Holding place;
  Holding memory;

  /// Lets the other ranks of the communicator map a region of its session. kInvalidUsage when its
  /// tenant has no memory left for that. Doing it twice is doing it once.
  Status Offer(uint32_t region);
  /// Whether it had offered it.
  bool TakeBackOffer(uint32_t region) { return std::erase(offered_regions, region) > 0; }
  bool Offers(uint32_t region) const;
  std::vector<uint32_t> offered_regions;  ///< Sorted. By Offer.

  /// Sets the slot's state and wakes who waits for it.
  void SetState(MemberState state);
  /// kFailed, with the reason.
  void Fail(const Status& why) { Fail(why.code(), why.message()); }
  void Fail(Code code, std::string_view why);
  /// Tells the tenant that the rank has left, and wakes who waits for that.
  void TellDeparture();
};

}  // namespace harmonaize::daemon
