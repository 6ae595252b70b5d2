#pragma once

#include <cstdint>
#include <vector>

#include "src/planner/edge_loads.h"
#include "src/planner/fabric_model.h"
#include "src/schedule/outline.h"

namespace harmonaize {

/// What messages between hosts cost beside the capacity of links. The daemons will measure these;
/// until then they are stated. The defaults are those of TCP between emulated hosts of one machine.
struct NetworkCosts {
  /// From a send that could start to a receive that is done, of a message without data.
  double message_seconds = 20e-6;
  /// Of a link whose latency the fabric file does not say.
  double link_seconds = 1e-6;
  /// A host's own work for one message, or for each chunk of a longer one.
  double handling_seconds = 1e-6;
  uint64_t chunk_bytes = uint64_t{512} << 10;
  /// Bytes that a host reads and writes for the steps of its program.
  double memory_bytes_per_second = 100e9;
  /// What headers leave of a link's rate.
  double payload_share = 0.992;
};

/// Where a predicted time comes from. Seconds.
struct Prediction {
  double seconds = 0;   ///< latency + the longest of network, memory and handling + fill
  double latency = 0;   ///< Of messages that wait for each other.
  double network = 0;   ///< The busiest edge.
  double fill = 0;      ///< While the busiest edge has nothing to do: see docs/planning.md.
  double memory = 0;    ///< The busiest host's memory.
  double handling = 0;  ///< The busiest host's work for messages.
  int busiest_edge = -1;
};

/// What a schedule asks of a fabric, whatever the bytes: enough to predict its time for any size in
/// no time. A plain value.
struct Footprint {
  int pieces = 1;  ///< Of a unit, with one piece wherever the algorithm lets the planner choose.
  int dependent_messages = 0;
  double message_latency = 0;
  double fill_seconds_per_byte = 0;      ///< Of a block between the two hosts that are slowest.
  uint64_t memory_blocks = 0;            ///< Read and written by the busiest host.
  double memory_blocks_per_message = 0;  ///< Of the same, for each block that it receives.
  /// Every pair of hosts that exchanges anything does so in each turn, equally much: nobody waits
  /// but for the message before.
  bool steady = false;
  uint64_t messages = 0;  ///< Sent and received by the busiest host: blocks.

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
/// into `pieces`, which follow each other. Every operation on floating-point numbers is one that
/// IEEE 754 rounds exactly, in a fixed order: equal inputs give equal bits on every host.
Prediction Predict(const Footprint& footprint, uint64_t bytes, int pieces,
                   const NetworkCosts& costs);

}  // namespace harmonaize
