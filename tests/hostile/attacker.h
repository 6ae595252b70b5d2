#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "tests/hostile/field.h"
#include "tests/support/hostile_session.h"

namespace harmonaize::testing {

/// The means of one run of an attack: the way to the daemon, chance, the time that is left, and the
/// attack's tally. The run has a process of its own, of the attackers' user.
class Attacker {
 public:
  struct Aim {
    /// Sockets of the daemons, by host.
    std::vector<std::string> socket_paths;
    /// Abstract socket at which another user's process accepts descriptors.
    std::string accomplice;
    Field* field = nullptr;
    /// Ports for NCCL's RAS clients, by host.
    std::vector<uint16_t> ras_ports = {};
  };

  Attacker(const Aim& aim, size_t attack, uint64_t seed, std::chrono::milliseconds run_for)
      : aim_(aim),
        tally_(aim.field->tallies[attack]),
        random_(seed),
        home_(hosts() == 1 ? 0 : static_cast<int>(DrawBelow(aim.socket_paths.size()))),
        until_(std::chrono::steady_clock::now() + run_for) {}

  /// Returns false once the run is to end.
  bool TimeLeft() const { return std::chrono::steady_clock::now() < until_; }

  // Chance. Draws depend only on the seed.

  uint64_t Draw() { return random_(); }
  /// Returns a number below `end` (> 0).
  uint64_t DrawBelow(uint64_t end) { return random_() % end; }
  bool OneIn(uint64_t chances) { return DrawBelow(chances) == 0; }
  std::vector<std::byte> DrawBytes(size_t count);
  /// Returns a number of a member, region, rank or stream: often one that exists, else one beside a
  /// limit, or any.
  uint32_t DrawNumber();
  template <typename Values>
  const auto& DrawOf(const Values& values) {
    return values[DrawBelow(std::size(values))];
  }

  // The daemons.

  int hosts() const { return static_cast<int>(aim_.socket_paths.size()); }
  /// Returns the host whose daemon this run attacks where one is enough: one of them by chance.
  int home() const { return home_; }
  const std::string& socket_path() const { return socket_path(home_); }
  const std::string& socket_path(int host) const {
    return aim_.socket_paths[static_cast<size_t>(host)];
  }
  const std::string& accomplice() const { return aim_.accomplice; }
  std::vector<UniqueId> HonestIds() const { return aim_.field->honest_ids.Read(); }
  std::vector<UniqueId> HonestDoors() const { return aim_.field->honest_doors.Read(); }
  uint16_t ras_port() const { return aim_.ras_ports[static_cast<size_t>(home_)]; }
  /// Returns nothing if the daemon does not let it in, after a moment's wait.
  std::optional<ControlSocket> Connect();
  std::optional<HostileSession> Greet(const HelloRequest& hello = {}) {
    return GreetAt(home_, hello);
  }
  std::optional<HostileSession> GreetAt(int host, const HelloRequest& hello = {});
  /// Returns whether the daemon agreed.
  template <typename Request>
  bool Ask(HostileSession& session, const Request& request, std::span<const int> descriptors = {},
           std::span<const std::byte> tail = {}) {
    return Count(session.Ask(request, descriptors, tail));
  }
  /// Counts a request's outcome. Returns whether it was a success.
  bool Count(const Status& outcome);
  /// Returns whether the daemon has ended the session, which is counted once.
  bool WasCutOff(HostileSession& session);
  void CountBlows(uint64_t blows = 1) { tally_.blows.fetch_add(blows); }

  /// Notes that the attack had a success that is not allowed.
  void Report(std::string_view what) { aim_.field->findings.Note(what); }
  /// Reports a document of the daemon's that is no JSON or tells of other tenants.
  void InspectDocument(const std::string& document);

 private:
  const Aim& aim_;
  AttackTally& tally_;
  std::mt19937_64 random_;
  const int home_;
  const std::chrono::steady_clock::time_point until_;
};

/// A process that is killed when the object is destroyed, or the run that made it ends.
class Helper {
 public:
  /// Runs `body` in a child.
  explicit Helper(const std::function<void()>& body) : process_(fork()) {
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  ~Helper() { Kill(); }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  pid_t process() const { return process_; }
  void Kill() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_;
};

/// A communicator with all ranks of a host in one session, with memory, which can continue
/// honestly.
class Gang {
 public:
  /// Forms it on one host. Returns nothing if the daemon refuses, or takes too long.
  static std::optional<Gang> Form(Attacker& attacker, int ranks, uint64_t region_bytes);
  /// Forms it over all hosts, which have the ranks in turns. Returns nothing if a daemon refuses,
  /// or takes too long.
  static std::optional<Gang> FormOverHosts(Attacker& attacker, int ranks, uint64_t region_bytes);
  /// Forms it in a session, with a region of that session's.
  static std::optional<Gang> FormIn(Attacker& attacker, HostileSession session, int ranks,
                                    uint32_t region, uint64_t region_bytes);

  HostileSession& session() { return sessions_.front(); }
  HostileSession& session_of(int rank) { return sessions_[PlaceOf(rank)]; }
  std::vector<HostileSession>& sessions() { return sessions_; }
  int ranks() const { return static_cast<int>(members_.size()); }
  uint32_t member(int rank) const { return members_[static_cast<size_t>(rank)].index; }
  uint32_t region() const { return regions_.front(); }
  uint32_t region_of(int rank) const { return regions_[PlaceOf(rank)]; }
  uint64_t region_bytes() const { return region_bytes_; }

  /// Returns the next operation that the rank may post. `count` is cut to what the region holds.
  /// The next one has the same position, as in a group, unless this one ends it.
  OperationDescriptor Next(int rank, Collective collective, uint64_t count, DataType type,
                           bool ends_position = true);
  /// Posts such an operation for all ranks.
  void PostAll(Collective collective, uint64_t count, DataType type = DataType::kInt32);
  /// Waits until all operations that the rank has posted by Next are done. Returns false when time
  /// ran out or the session was cut off.
  bool AwaitAll(Attacker& attacker, int rank);
  /// Whether the rank's ring has room for one more descriptor.
  bool HasRoom(int rank);
  void RingAll();
  /// Returns whether a daemon has ended one of the sessions, which is counted.
  bool WasCutOff(Attacker& attacker);

 private:
  struct Rank {
    uint32_t index = kNoMember;
    uint64_t sequence = 0;
    uint64_t position = 0;
  };

  explicit Gang(uint64_t region_bytes) : region_bytes_(region_bytes) {}

  size_t PlaceOf(int rank) const { return static_cast<size_t>(rank) % sessions_.size(); }
  /// Opens a session at the host, with memory. Returns whether the daemon agreed.
  bool Open(Attacker& attacker, int host);
  /// Joins all ranks, and waits until they have. Returns whether that succeeded.
  bool JoinAll(Attacker& attacker, const UniqueId& id, int ranks);

  std::vector<HostileSession> sessions_;  ///< One a host.
  std::vector<uint32_t> regions_;         ///< One a session.
  std::vector<Rank> members_;
  uint64_t region_bytes_;
};

/// Returns an id that nobody else gets, for ranks of one host.
UniqueId DrawId(Attacker& attacker);
/// Returns an id for ranks of several hosts, which the session's daemon makes. Returns nothing if
/// it does not.
std::optional<UniqueId> AskForId(Attacker& attacker, HostileSession& session);

}  // namespace harmonaize::testing
