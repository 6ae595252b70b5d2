#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/communicator.h"
#include "daemon/config.h"
#include "daemon/formation.h"
#include "daemon/session.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::daemon {

class Engine;

/// More ranks than this in one communicator are a mistake, not a job.
inline constexpr int kMaxRanks = 1 << 20;

/// Who belongs to which communicator: ranks join, split, shrink, grow, leave and die here. Engine
/// thread only.
class Membership {
 public:
  Membership(Engine* engine, const Config& config) : engine_(engine), config_(config) {}

  /// An id that only ranks of the session's tenant may use.
  Result<UniqueId> CreateId(Session& session);

  // Each gives the member that stands for the caller in what forms; kNoMember for a rank that takes
  // part and gets nothing.
  Result<uint32_t> Join(Session& session, const UniqueId& id, int ranks, int rank,
                        const std::string& name);
  Result<uint32_t> Split(Session& session, uint32_t member, std::optional<int> color, int key,
                         const std::string& name);
  Result<uint32_t> Shrink(Session& session, uint32_t member, std::vector<int32_t> excluded,
                          bool abort_parent, const std::string& name);
  Result<UniqueId> CreateGrowId(Session& session, uint32_t member);
  Result<uint32_t> GrowFrom(Session& session, uint32_t member, int ranks, const std::string& name);
  Result<uint32_t> JoinGrowth(Session& session, const UniqueId& id, int ranks, int rank,
                              const std::string& name);

  /// The rank takes the communicator down, and stays a member until it leaves.
  Status Abort(Session& session, uint32_t member);
  /// The rank leaves. `done` is called once no operation touches its buffers any more.
  Status Leave(Session& session, uint32_t member, std::function<void()> done);
  Status Revoke(Session& session, uint32_t member);

  /// The session's process is gone: its ranks are lost.
  void LoseSession(Session& session, const std::string& why);

  /// Clears away what has ended: departures that are complete, communicators without ranks.
  void Sweep();
  /// Late notices and formations that waited too long.
  void Tick(uint64_t now_ns);

  /// The communicator of a ready member of this session.
  Result<Communicator*> Find(Session& session, uint32_t member);
  const std::list<std::unique_ptr<Communicator>>& communicators() const { return communicators_; }

 private:
  /// What makes two calls meet in one formation.
  struct MeetingKey {
    enum class Kind { kNamedId, kSecretId, kSplit, kShrink, kGrow } kind;
    UniqueId id;          // of the first two
    uid_t tenant = 0;     // of a named id
    uint64_t parent = 0;  // of the last three
    uint64_t round = 0;   // of a split
    auto operator<=>(const MeetingKey&) const = default;
  };
  struct SplitCall {
    bool has_color = false;
    int color = 0;
    int key = 0;
  };
  struct Meeting {
    std::unique_ptr<Formation> formation;
    std::function<Status(Formation&)> conclude;
    std::vector<int32_t> excluded;                        // of a shrink
    std::shared_ptr<std::vector<SplitCall>> split_calls;  // of a split, by the parent's rank
  };
  struct IssuedId {
    uid_t tenant = 0;
    uint32_t session = 0;  // that asked for it
    uint64_t parent = 0;   // of a growth; 0 for a plain id
  };
  struct Departure {
    Session* session;
    Member* member;
    Communicator* communicator;
    std::function<void()> done;
  };

  Result<Member*> NewMember(Session& session);
  Result<uint32_t> TakePlace(const MeetingKey& key, Session& session, size_t place,
                             bool gets_communicator);
  Status ConcludeOne(Formation& formation);
  Status ConcludeSplit(Formation& formation, const std::vector<SplitCall>& calls);
  Status MakeCommunicator(const std::string& name, Tenant* tenant, std::vector<Member*> members);
  void FailMeeting(const MeetingKey& key, const Status& why);
  void FailMeetingOf(const Formation* formation, const Status& why);
  /// The member goes, and what it helped to form fails.
  void QuitFormation(Member* member, const Status& why);
  /// Ends the formations that still wait for this rank of the parent.
  void FailMeetingsWaitingFor(const Communicator& parent, int rank, const Status& why);
  Result<Meeting*> GrowthOf(Communicator& parent, int ranks, const std::string& name);
  void Depart(Session& session, Member* member, std::function<void()> done);
  Communicator* FindById(uint64_t id);
  Status CheckIssued(const UniqueId& id, uid_t user) const;

  Engine* const engine_;
  const Config& config_;
  std::list<std::unique_ptr<Communicator>> communicators_;
  uint64_t next_communicator_ = 1;
  std::map<MeetingKey, Meeting> meetings_;
  std::map<UniqueId, IssuedId> issued_;
  std::list<Departure> departures_;
  bool sweep_needed_ = false;
};

}  // namespace harmonaize::daemon
