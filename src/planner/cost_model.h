#pragma once

#include <cstdint>
#include <vector>

#include "src/planner/edge_loads.h"
#include "src/planner/fabric_model.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Costs of messages between hosts beside the capacity of links. The defaults are those of TCP
/// between emulated hosts of one machine; operators may state others.
struct NetworkCosts {
  /// Seconds from the moment a send can start until its receive is done, for a message without
  /// data.
  double message_seconds = 20e-6;
  /// Seconds that a link adds to a message's latency where the fabric file states no latency.
  double link_seconds = 1e-6;
  /// Seconds of a host's own work for one message, or for each chunk of a longer one.
  double handling_seconds = 2e-6;
  /// Number of processors that do the work of all hosts together, where the hosts are emulated on
  /// one machine: each message then costs all of them time. 0: each host has its own processors.
  int shared_processors = 0;
  uint64_t chunk_bytes = uint64_t{512} << 10;
  /// A message of up to this many bytes is sent at once. A larger one is offered, and sent when its
  /// receiver has answered: three messages, one after the other.
  uint64_t eager_bytes = uint64_t{64} << 10;
  /// Bytes per second that a host's one thread sends or receives where its copies carry the data,
  /// as with TCP. Measured with messages of `eager_bytes`, so the rate includes their handling. 0:
  /// no processor touches the data, as with RDMA.
  double wire_bytes_per_second = 0;
  /// Bytes per second that a host reads and writes for the steps of its program.
  double memory_bytes_per_second = 100e9;
  /// Fraction of a link's rate that is left for data after headers.
  double payload_share = 0.992;
  /// While many parts follow each other, urgent ones wait behind others, and the busiest edge
  /// idles. This is how many parts' worth of time that costs, beside the wait for the first:
  /// docs/planning.md.
  double idle_parts = 1.5;
  /// Seconds of idleness that an edge can make up for afterwards by exceeding its rate. Above 0
  /// where token buckets limit the rates, as in laboratories; 0 for switches.
  double credit_seconds = 0;

  /// Returns the seconds that a processor takes to send or receive `bytes`.
  double WireSeconds(double bytes) const {
    return wire_bytes_per_second > 0 ? bytes / wire_bytes_per_second : 0;
  }
  /// Returns the seconds of a host's own work for a message of `bytes`, beside WireSeconds.
  double HandlingSeconds(double bytes) const {
    if (wire_bytes_per_second <= 0) return handling_seconds;
    const double left = 1 - bytes / static_cast<double>(eager_bytes);
    return handling_seconds * (left > 0 ? left : 0);
  }
  /// Returns how many messages precede one of `bytes`: an offer and its answer, or none.
  int MessagesAhead(double bytes) const { return bytes > static_cast<double>(eager_bytes) ? 2 : 0; }
};

/// Cut of a program's blocks into slices by the executor (see NetworkBinding).
struct SliceCut {
  uint64_t bytes = 0;  ///< Bytes of a slice, at least one; the last slice of a block is shorter.
  int at_once = 4;     ///< Slices of a block that are under way at a time.

  friend bool operator==(const SliceCut&, const SliceCut&) = default;
};

/// The terms of a predicted time, in seconds.
struct Prediction {
  /// latency + the longest of network, memory, handling and row + fill, less the credit.
  double seconds = 0;
  double latency = 0;   ///< Time of messages that wait for each other; on shared processors, of the
                        ///< ranks' requests too.
  double network = 0;   ///< Time that the busiest edge takes to carry its bytes.
  double fill = 0;      ///< Time for which the busiest edge has nothing to do: see
                        ///< docs/planning.md.
  double memory = 0;    ///< Time of the busiest host's memory.
  double handling = 0;  ///< Time of the busiest host's work for messages, or of the shared
                        ///< processors'.
  double credit = 0;    ///< Time saved because links make up for idleness; choices count on most of
                        ///< it.
  double row = 0;       ///< Time of all slices, if each takes its row of messages and no more are
                        ///< at once.
  int busiest_edge = -1;

  double without_credit() const { return seconds + credit; }
};

/// The load that a schedule puts on a fabric, independent of the bytes. It holds all that Predict
/// needs to tell the time for any size quickly. A plain value.
struct Footprint {
  int pieces = 1;  ///< Pieces of a unit, with one piece wherever the algorithm lets the planner
                   ///< choose.
  int dependent_messages = 0;
  double message_latency = 0;
  double fill_seconds_per_byte = 0;      ///< Seconds for a byte of a message: of the slowest pair
                                         ///< of hosts if steady, else the mean.
  uint64_t memory_blocks = 0;            ///< Blocks that the busiest host reads and writes.
  double memory_blocks_per_message = 0;  ///< The busiest host's memory_blocks for each block that
                                         ///< it exchanges.
  /// Whether every pair of hosts that exchanges anything does so in each turn, equally much. A
  /// message then waits only for the one before it.
  bool steady = false;
  /// Whether messages choose among several ways by the backlog on each: the more messages are under
  /// way, the less any way runs dry.
  bool balanced = false;
  /// Messages that a host, or all hosts together, send and receive.
  struct Messages {
    uint64_t blocks = 0;
    /// Packets that carry the blocks: small blocks that a host can send to another at once share
    /// one.
    uint64_t packets = 0;
  };
  Messages of_a_host = {};
  Messages of_all = {};
  int ranks = 0;  ///< Ranks of the problem. MakeFootprint does not know them.

  struct Busy {
    int edge = -1;
    double seconds_per_byte = 0;  ///< Seconds for each byte of a block: the edge's blocks by its
                                  ///< rate.
    int waits = 0;                ///< Messages in a row before the edge's first one and after its
                                  ///< last one.
  };
  /// For each draw of the routers' hashes, the edges that can be the last to finish.
  std::vector<std::vector<Busy>> draws = {};
};

/// Returns the footprint of a schedule whose hosts are the model's, as `spread` lays it on edges.
Footprint MakeFootprint(const FabricModel& model, const Summary& summary, LoadSpread* spread,
                        const NetworkCosts& costs);

/// Returns the time of one collective of `bytes` a unit (see Block). Each block of the footprint is
/// cut into `parts`, which follow each other: pieces of the schedule or slices of the executor. A
/// message takes `wire_share` of its data's bytes. Where that is less than all, memory has to write
/// or read each message besides.
/// Every floating-point operation is one that IEEE 754 rounds exactly, in a fixed order, so equal
/// inputs give equal bits on every host.
Prediction Predict(const Footprint& footprint, uint64_t bytes, int parts, const NetworkCosts& costs,
                   double wire_share = 1);

/// Returns how many parts at once keep the busiest edge busy: the time of a row of messages divided
/// by the edge's time for a part, doubled, plus one. More parts would only fill queues and delay
/// the urgent ones. A balanced footprint gets at least enough parts for each of its ways.
int PartsAtOnce(const Footprint& footprint, uint64_t bytes, int parts, const NetworkCosts& costs,
                double wire_share = 1);

}  // namespace harmonaize
