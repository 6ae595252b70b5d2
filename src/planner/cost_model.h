#pragma once

#include <cstdint>
#include <vector>

#include "src/planner/edge_loads.h"
#include "src/planner/fabric_model.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// What messages between hosts cost beside the capacity of links. The defaults are those of TCP
/// between emulated hosts of one machine; operators may state others.
struct NetworkCosts {
  /// From a send that could start to a receive that is done, of a message without data.
  double message_seconds = 20e-6;
  /// Of a link whose latency the fabric file does not say.
  double link_seconds = 1e-6;
  /// A host's own work for one message, or for each chunk of a longer one.
  double handling_seconds = 2e-6;
  /// Processors that do the work of all hosts together, where these are emulated on one machine: a
  /// message anywhere then costs everybody. 0: each host has its own.
  int shared_processors = 0;
  uint64_t chunk_bytes = uint64_t{512} << 10;
  /// Up to here a message goes at once. A larger one is offered, and sent when its receiver has
  /// answered: three messages, one after the other.
  uint64_t eager_bytes = uint64_t{64} << 10;
  /// Bytes that a processor sends, or receives, where its copies are what carries them, as with
  /// TCP: a host has one thread for that. Of messages of `eager_bytes`, their handling included. 0:
  /// no processor touches them, as with RDMA.
  double wire_bytes_per_second = 0;
  /// Bytes that a host reads and writes for the steps of its program.
  double memory_bytes_per_second = 100e9;
  /// What headers leave of a link's rate.
  double payload_share = 0.992;
  /// Of many parts that follow each other, for how many the busiest edge has nothing to do beside
  /// the wait for the first, while what is urgent waits among what is not: docs/planning.md.
  double idle_parts = 1.5;
  /// For how long edges that had nothing to do make up for it afterwards, beyond their rate: where
  /// rates are kept by buckets of tokens, as in laboratories. Switches do not.
  double credit_seconds = 0;

  /// Of a processor, to send or receive so much.
  double WireSeconds(double bytes) const {
    return wire_bytes_per_second > 0 ? bytes / wire_bytes_per_second : 0;
  }
  /// A host's own work for a message of so many bytes, beside WireSeconds.
  double HandlingSeconds(double bytes) const {
    if (wire_bytes_per_second <= 0) return handling_seconds;
    const double left = 1 - bytes / static_cast<double>(eager_bytes);
    return handling_seconds * (left > 0 ? left : 0);
  }
  /// What goes ahead of a message of so many bytes: an offer and its answer, or nothing.
  int MessagesAhead(double bytes) const { return bytes > static_cast<double>(eager_bytes) ? 2 : 0; }
};

/// How an executor cuts the blocks of a program: see NetworkBinding.
struct SliceCut {
  uint64_t bytes = 0;  ///< At least one; the last of a block is shorter.
  int at_once = 4;     ///< Under way at a time.

  friend bool operator==(const SliceCut&, const SliceCut&) = default;
};

/// Where a predicted time comes from. Seconds.
struct Prediction {
  /// latency + the longest of network, memory, handling and row + fill, less the credit.
  double seconds = 0;
  double latency = 0;   ///< Of messages that wait for each other; on shared processors, of ranks.
  double network = 0;   ///< The busiest edge.
  double fill = 0;      ///< While the busiest edge has nothing to do: see docs/planning.md.
  double memory = 0;    ///< The busiest host's memory.
  double handling = 0;  ///< The busiest host's work for messages, or that of shared processors.
  double credit = 0;    ///< What links make up for; choices count on some of it.
  double row = 0;       ///< All slices, if each takes its row of messages and no more are at once.
  int busiest_edge = -1;

  double without_credit() const { return seconds + credit; }
};

/// What a schedule asks of a fabric, whatever the bytes: enough to predict its time for any size in
/// no time. A plain value.
struct Footprint {
  int pieces = 1;  ///< Of a unit, with one piece wherever the algorithm lets the planner choose.
  int dependent_messages = 0;
  double message_latency = 0;
  double fill_seconds_per_byte = 0;      ///< Of a message; if steady, of the slowest one.
  uint64_t memory_blocks = 0;            ///< Read and written by the busiest host.
  double memory_blocks_per_message = 0;  ///< Of the same, for each block that it receives.
  /// Every pair of hosts that exchanges anything does so in each turn, equally much: nobody waits
  /// but for the message before.
  bool steady = false;
  /// Whether messages find their way among several by what waits there: the more of them are under
  /// way, the less any way runs dry.
  bool balanced = false;
  /// Sent and received by the busiest host, and by all hosts together.
  struct Messages {
    uint64_t blocks = 0;
    /// Blocks that one host can send to another at once go in one packet, if they are small.
    uint64_t packets = 0;
  };
  Messages of_a_host = {};
  Messages of_all = {};
  int ranks = 0;  ///< Of the problem; MakeFootprint does not know them.

  struct Busy {
    int edge = -1;
    double seconds_per_byte = 0;  ///< Of a block's bytes: blocks by rate.
    int waits = 0;                ///< Messages before the first and after the last.
  };
  /// One for each draw of the routers' hashes; the edges that can be the last to finish.
  std::vector<std::vector<Busy>> draws = {};
};

/// The footprint of an outline whose hosts are the model's, and which `spread` lays on it.
Footprint MakeFootprint(const FabricModel& model, const Summary& summary, LoadSpread* spread,
                        const NetworkCosts& costs);

/// The time of one collective of `bytes` a unit (see Block), with each block of the footprint cut
/// into `parts`, which follow each other: pieces of the schedule or slices of the executor. Every
/// operation on floating-point numbers is one that IEEE 754 rounds exactly, in a fixed order: equal
/// inputs give equal bits on every host.
Prediction Predict(const Footprint& footprint, uint64_t bytes, int parts,
                   const NetworkCosts& costs);

/// As many of the parts as keep the busiest edge busy: what a row of messages takes, by what the
/// edge does in this time, and some more. More would only fill queues, and make what is urgent wait
/// for what is not. Where the footprint is balanced, so many at least that each way has some.
int PartsAtOnce(const Footprint& footprint, uint64_t bytes, int parts, const NetworkCosts& costs);

}  // namespace harmonaize
