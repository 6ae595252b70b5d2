#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/executor/network/fabric_rails.h"
#include "src/executor/network/message_port.h"
#include "src/topology/fabric/lane.h"
#include "src/transport/message.h"

namespace harmonaize {

/// Which rail each message of one plan takes from a host: what TransportPort::ChooseRail asks. Made
/// once for a plan; an answer neither allocates nor searches. For one thread.
///
/// Messages to one host by one Step::path are dealt over their lanes by weight, in the order in
/// which they are sent: any few that follow each other are spread as evenly as weights allow. (To
/// deal by their numbers would not: where slices follow each other through a program, those sent
/// together have numbers that fall on one rail.) Short ones of one operation go by one rail: those
/// that are sent at a time then fit into one packet, and a packet takes a host longer than they do.
class RailTable {
 public:
  /// Up to here a message is short: several fit into a packet.
  static constexpr size_t kShortBytes = 1024;

  /// For the messages that `host` sends; it borrows the rails only while being made. Until it is
  /// told about lanes, all messages are dealt over the rails of the NICs' own addresses, spread.
  RailTable(const FabricRails& rails, int host);

  /// The lanes of the messages to a host by a Step::path; -1: of those without one, and of those by
  /// paths that nothing was said about. Lanes that no rail serves are left out; if none is served,
  /// the answer is false and nothing changes.
  bool SetLanes(const FabricRails& rails, int to_host, int path, std::span<const Lane> lanes);

  /// The way of the next message of this name and length.
  transport::RailChoice Next(const MessageName& name, size_t bytes);

 private:
  /// A row of rails to be dealt out again and again.
  struct Deal {
    uint32_t first = 0;  // in pool_
    uint32_t length = 0;
    uint32_t next = 0;
  };

  void SetRow(int to_host, int path,
              const std::vector<std::pair<transport::RailChoice, int>>& weighted);

  int host_;
  std::vector<std::vector<Deal>> deals_;  // by host, by Step::path + 1; empty: as path -1
  std::vector<transport::RailChoice> pool_;
};

}  // namespace harmonaize
