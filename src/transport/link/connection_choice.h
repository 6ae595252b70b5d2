#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harmonaize::transport {

/// What a new message finds before it on a connection.
struct Backlog {
  /// Of messages that were given to it and that the other side's kernel has not acknowledged.
  size_t bytes = 0;
  /// By how much round trips are longer than the least one was: what waits in switches, of
  /// whomever. Of a connection that carries nothing, as it was, forgotten little by little.
  uint64_t queueing_ns = 0;
  /// At which it has been acknowledged of late; 0: not known.
  double bytes_per_ns = 0;
};

/// Which of a rail's connections a message takes, where routers that hash ports lay them on several
/// ways, and nobody knows which.
///
/// Two wishes stand against each other. Connections that share what is narrow had better not be
/// used at once: their messages would all be done late, and what waits for the first could not
/// begin while the second goes. Those that do not share it had better all be used. So a rail begins
/// with one connection. While all in use have work, and their round trips show a queue, one of the
/// others is *tried*: some messages go over it, one after the other, and where they meet a queue
/// that is less than half as long it leads around what is crowded, and is in use from then on. Of
/// what was found either way nothing is believed for ever.
///
/// Among those in use a message takes the first one that has nothing before it, else the one that
/// has least (join the shortest queue; Winston, "Optimality of the shortest line discipline",
/// 1977). Before it is the connection's own backlog, by the rate at which it shrinks, and the queue
/// in switches: so ways get what they carry.
///
/// Knows no sockets. For the owner's thread.
class ConnectionChoice {
 public:
  /// Who knows the connections. A question may cost a system call.
  class Connections {
   public:
    virtual Backlog BacklogOf(size_t connection, uint64_t now_ns) = 0;

   protected:
    ~Connections() = default;
  };

  /// So much before a message is as good as nothing: round trips vary.
  static constexpr size_t kNothingBytes = size_t{8} << 10;
  /// A queue that is not worth a try.
  static constexpr uint64_t kNoQueueNs = 50'000;
  /// Round trips are averaged over eight: so many show what a way is like.
  static constexpr int kTrialMessages = 4;
  /// How long a connection stays in use, and how long one rests that was of no use.
  static constexpr uint64_t kBelievedNs = 10'000'000'000;
  static constexpr uint64_t kRestNs = 2'000'000'000;

  explicit ConnectionChoice(Connections* connections) : connections_(connections) {}

  /// One more connection, numbered from 0. Number 0 is always in use.
  void Add();
  /// The connection for a message that is to be sent now.
  size_t Choose(size_t bytes, uint64_t now_ns);
  size_t in_use() const { return in_use_; }

 private:
  struct Candidate {
    size_t connection = 0;
    uint64_t until_ns = 0;  // in use, or at rest, until then
  };

  /// The place of a candidate that should have this message; 0: none.
  size_t Try(uint64_t now_ns, uint64_t queueing_ns);
  size_t PlaceToTry(uint64_t now_ns) const;
  uint64_t TimeOf(size_t bytes) const;
  double BytesBefore(const Backlog& backlog) const;
  void CountRate(uint64_t now_ns, size_t bytes);

  Connections* const connections_;
  std::vector<Candidate> places_;  // those in use first
  size_t in_use_ = 1;
  size_t trial_ = 0;             // a place; 0: none
  int tried_ = 0;                // messages
  uint64_t tried_since_ns_ = 0;  // the last of them
  // What the rail is given to send: makes bytes of the time that waits in switches.
  double bytes_per_ns_ = 0;
  uint64_t period_start_ns_ = 0;
  size_t period_bytes_ = 0;
};

}  // namespace harmonaize::transport
