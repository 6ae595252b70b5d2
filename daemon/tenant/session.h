#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/identity/job_identity.h"
#include "daemon/tenant/connection.h"
#include "daemon/tenant/member.h"
#include "daemon/tenant/posted_operation.h"
#include "daemon/tenant/region.h"
#include "daemon/tenant/stream_queue.h"
#include "daemon/tenant/tenant.h"
#include "src/ipc/session_segment.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

/// One tenant process: its segment, its queues, its regions and its ranks. Thread: engine.
class Session {
 public:
  /// Resources that the tenant is charged for the session.
  struct Holdings {
    Holding place;
    Holding memory;
  };

  Session(uint32_t id, std::shared_ptr<Connection> connection, std::string program,
          JobClaim job_claim, Tenant* tenant, Mapping segment, FileDescriptor doorbell,
          Holdings holdings);
  ~Session();

  uint32_t id() const { return id_; }
  /// The processes that work together, by the number of one of their sessions. Processes that have
  /// ranks in one communicator are of one gang.
  uint32_t gang() const { return gang_; }
  void set_gang(uint32_t gang) { gang_ = gang; }
  /// What the process says about its job.
  const JobClaim& job_claim() const { return job_claim_; }
  pid_t process() const { return connection_->peer().process; }
  const std::string& program() const { return program_; }
  Tenant& tenant() { return *tenant_; }
  Connection& connection() { return *connection_; }
  int doorbell() const { return doorbell_.get(); }

  /// Returns whether the process has said that it ends of itself. It is the tenant's word.
  bool says_that_it_exits() const {
    return segment_->header.ending.load(std::memory_order_relaxed) == kProcessExits;
  }

  // The submission ring.

  /// Copies the next descriptor out of the tenant's reach. Returns false if there is none, or if
  /// the ring's tail is impossible; ring_broken tells.
  bool TakeDescriptor(OperationDescriptor* descriptor);
  bool HasDescriptors() const;
  /// Returns whether the tenant wrote something into the ring that no client writes.
  bool ring_broken() const { return ring_broken_; }
  /// Answers a tenant that wonders whether the engine still works: see SessionHeader::sign.
  void AnswerSign() {
    SessionHeader& header = segment_->header;
    header.answered_sign.store(header.sign.load(std::memory_order_relaxed),
                               std::memory_order_relaxed);
  }
  /// Returns whether ranks of the session say that they wait in operations which they carry out
  /// themselves: see SessionHeader::inline_waits.
  bool TellsInlineWaits() const {
    return segment_->header.inline_waits.load(std::memory_order_seq_cst) != 0;
  }
  /// Wakes the tenant's threads that wait for news: see SessionHeader::news.
  void TellNews() { harmonaize::TellNews(&segment_->header); }
  /// Tells the tenant that another process has knocked at its door: see SessionHeader::knocks.
  void TellKnock() {
    segment_->header.knocks.store(++knocks_, std::memory_order_release);
    TellNews();
  }
  /// Tells the tenant whether the engine is about to sleep on the doorbell. If it is, the caller
  /// looks at the ring once more afterwards.
  void SetConsumerWaiting(bool waiting);
  /// Tells the tenant that the taken descriptors have left the ring, and wakes the threads that
  /// wait for room.
  void FreeTaken();
  /// Tells the tenant whether its waiting threads should give way: see SessionHeader::crowded.
  void SetCrowded(bool crowded);
  /// Notes that a communicator of this session spans hosts.
  void NoteOtherHosts();
  bool across_hosts() const { return across_hosts_; }

  // Operations.

  /// Makes a part for a taken descriptor, and finds its member, its queue and its buffers. Returns
  /// kInvalidArgument if no honest client could have written the descriptor, and kInvalidUsage if
  /// the tenant has no memory left for the part.
  Result<PostedOperation*> Admit(const OperationDescriptor& descriptor);
  /// Returns the place of a part's window of `slots` slots, and holds its region in use until the
  /// part is retired. Called once for a part. Returns kInvalidArgument for a place that is none.
  Result<std::byte*> UseWindow(PostedOperation* part, const BufferReference& place,
                               uint64_t slot_bytes, uint64_t slots);
  /// Gives a completed part back.
  void Retire(PostedOperation* operation);
  int64_t outstanding() const { return outstanding_; }
  /// Tells the tenant how many parts have been given back, so that it may post others, and wakes
  /// the threads that wait for that. Requires: the queues of these parts have been published.
  void PublishRetired();

  // Ranks, queues and regions.

  /// Adds a member with a fresh slot. Returns nullptr if the session has as many as fit.
  Member* AddMember();
  /// Returns nullptr for an index that stands for no rank of this session.
  Member* FindMember(uint32_t index);
  void RemoveMember(Member* member);
  /// Tells the tenant how its threads should wait for operations of a member's communicator. One
  /// that is to look for long decides for all of the session.
  void SetLooking(Member* member, Looking looking);
  std::vector<Member*> Members();
  int ranks() const { return static_cast<int>(kMaxMembers - free_members_.size()); }

  struct OpenedStream {
    uint32_t stream = 0;
    uint64_t position = 0;  ///< The first operation has the position after it.
  };
  Result<OpenedStream> OpenStream();
  Status CloseStream(uint32_t stream);

  /// kInvalidUsage when the session has had as many as there are numbers.
  Result<uint32_t> AddRegion(std::shared_ptr<RegionMemory> memory);
  Region* FindRegion(uint32_t id);
  /// Returns whether pages of one of its regions are gone.
  bool HasLostMemory() const;
  /// Removes the region at once, or when no operation uses it any more. The tenant's reception then
  /// unmaps it. Returns kInvalidArgument if there is no such region.
  Status GiveUpRegion(uint32_t id);

  /// Lets the other ranks of a member's communicator map a region, see Member::Offer. Returns
  /// kInvalidArgument if there is no such region.
  Status OfferRegion(Member* member, uint32_t id);

  /// Sets the call that is told of each region that the session has given up and that other ranks
  /// of the member's communicator may have mapped.
  void set_on_region_gone(std::function<void(const Member& member, uint32_t region)> call) {
    on_region_gone_ = std::move(call);
  }

  /// The tenant's process is gone, or was cut off.
  bool gone() const { return gone_; }
  void SetGone() { gone_ = true; }
  /// The reason that the tenant reads when it finds the socket closed.
  void SayGoodbye(std::string_view why) { segment_->header.goodbye.Set(why); }

  /// Whether the peers of its ranks have been told that this session is gone.
  bool loss_told = false;
  /// Whether the tenant has been told that a send and its receive differ in type.
  bool told_of_types = false;
  /// Whether the engine looks at the ring in every round.
  bool hot = false;
  /// When the engine last found something in the ring.
  uint64_t active_ns = 0;

  /// System calls that the daemon made to wake the tenant.
  uint64_t wakes() const { return wakes_; }
  void CountWake() { ++wakes_; }
  /// System calls that the tenant says it made to wake the daemon.
  uint64_t doorbells() const { return segment_->ring.doorbells.load(std::memory_order_relaxed); }
  /// Parts completed, the failed ones included.
  uint64_t operations() const { return operations_; }

 private:
  int& MembersThatWait(Looking so) { return members_that_wait_[static_cast<size_t>(so)]; }
  void TellLooking();
  void RemoveRegion(uint32_t id);
  Status CheckStream(const OperationDescriptor& descriptor, Member* member) const;
  Result<PostedOperation*> NewOperation(const OperationDescriptor& descriptor, Member* member);
  Result<PostedOperation*> AdmitMessage(const OperationDescriptor& descriptor, Member* member);
  Status FindBuffers(PostedOperation* operation);
  Status FindBuffer(const BufferReference& reference, uint64_t bytes, MemoryView* buffer,
                    Region** region);

  const uint32_t id_;
  uint32_t gang_ = id_;
  const std::shared_ptr<Connection> connection_;
  const std::string program_;
  const JobClaim job_claim_;
  Tenant* const tenant_;
  Mapping mapping_;
  SessionSegment* const segment_;
  FileDescriptor doorbell_;
  Holdings holdings_;

  uint32_t head_ = 0;
  uint32_t knocks_ = 0;
  bool ring_broken_ = false;
  bool gone_ = false;
  bool across_hosts_ = false;
  int64_t outstanding_ = 0;
  uint64_t operations_ = 0;
  uint64_t published_operations_ = 0;
  uint64_t wakes_ = 0;

  std::vector<std::unique_ptr<Member>> members_;  // by index
  std::vector<uint32_t> free_members_;
  std::array<int, kLookingCount> members_that_wait_ = {};  // by Looking
  std::vector<std::unique_ptr<StreamQueue>> streams_;      // by slot
  std::vector<bool> host_stream_open_;
  std::map<uint32_t, std::unique_ptr<Region>> regions_;
  uint32_t next_region_ = 1;
  std::function<void(const Member& member, uint32_t region)> on_region_gone_;
  std::vector<std::unique_ptr<PostedOperation>> pool_;  // all ever made
  std::vector<PostedOperation*> free_operations_;
};

}  // namespace harmonaize::daemon
