#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harmonaize::transport {

/// Data that a new message has to wait for on a connection.
struct Backlog {
  /// Bytes of messages given to the connection that the other side's kernel has not acknowledged.
  size_t bytes = 0;
  /// Excess of round trips over the least one: time that data, of any sender, waits in switches.
  /// For a connection that carries nothing it is the last value, forgotten little by little.
  uint64_t queueing_ns = 0;
  /// Rate at which bytes have been acknowledged lately; 0: not known.
  double bytes_per_ns = 0;
};

/// Chooses the connection of a rail that a message takes, where routers that hash ports lay
/// connections on several ways that the hosts do not know.
///
/// Two wishes conflict. Connections that share a bottleneck should not be used at once: their
/// messages would all finish late, and work that waits for the first message could not begin while
/// the second is sent. Connections that share none should all be used. So a rail begins with one
/// connection. While all in use have work, and their round trips show a queue, one of the others is
/// *tried*: some messages take it, one after the other. If the queue they meet is less than half as
/// long, the connection leads around the congestion, and is in use from then on. Either finding
/// expires after a while.
///
/// A message takes the first connection in use that has nothing before it, else the one that has
/// least (join the shortest queue; Winston, "Optimality of the shortest line discipline", 1977).
/// The queue before a message is the connection's own backlog, measured by the rate at which it
/// shrinks, and the queue in switches. So ways get as much as they can carry.
///
/// The class knows no sockets. Thread: one, the transport's owner.
class ConnectionChoice {
 public:
  /// Tells the backlogs of the connections, which may cost a system call each.
  class Connections {
   public:
    virtual Backlog BacklogOf(size_t connection, uint64_t now_ns) = 0;

   protected:
    ~Connections() = default;
  };

  /// A backlog of up to this many bytes counts as nothing, because round trips vary.
  static constexpr size_t kNothingBytes = size_t{8} << 10;
  /// Queues shorter than this many nanoseconds are not worth a try.
  static constexpr uint64_t kNoQueueNs = 50'000;
  /// Messages of a trial. Round trips are averaged over eight, so this many show what a way is
  /// like.
  static constexpr int kTrialMessages = 4;
  /// Nanoseconds for which a connection stays in use after a trial that was of use.
  static constexpr uint64_t kBelievedNs = 10'000'000'000;
  /// Nanoseconds for which a connection is not tried again after a trial that was of no use.
  static constexpr uint64_t kRestNs = 2'000'000'000;

  explicit ConnectionChoice(Connections* connections) : connections_(connections) {}

  /// Adds a connection, numbered from 0. Number 0 is always in use.
  void Add();
  /// Returns the connection for a message that is to be sent now.
  size_t Choose(size_t bytes, uint64_t now_ns);
  size_t in_use() const { return in_use_; }

 private:
  struct Candidate {
    size_t connection = 0;
    uint64_t until_ns = 0;  // end of its use, or of its rest
  };

  /// Returns the place of a candidate that should get this message; 0: none.
  size_t Try(uint64_t now_ns, uint64_t queueing_ns);
  size_t PlaceToTry(uint64_t now_ns) const;
  uint64_t TimeOf(size_t bytes) const;
  double BytesBefore(const Backlog& backlog) const;
  void CountRate(uint64_t now_ns, size_t bytes);

  Connections* const connections_;
  std::vector<Candidate> places_;  // those in use first
  size_t in_use_ = 1;
  size_t trial_ = 0;             // place of the candidate on trial; 0: none
  int tried_ = 0;                // messages of the trial
  uint64_t tried_since_ns_ = 0;  // when the last of them was sent
  // Rate at which the rail gets data to send; converts the queueing time in switches into bytes.
  double bytes_per_ns_ = 0;
  uint64_t period_start_ns_ = 0;
  size_t period_bytes_ = 0;
};

}  // namespace harmonaize::transport
