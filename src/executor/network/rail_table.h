#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/executor/network/fabric_rails.h"
#include "src/executor/network/message_port.h"
#include "src/topology/fabric/lane.h"
#include "src/transport/message.h"

namespace harmonaize {

/// Tells which rail each message of one plan takes from a host; TransportPort::ChooseRail asks it.
/// Made once for a plan; Next neither allocates nor searches. Thread: one.
///
/// Messages to one host by one Step::path are dealt over their lanes by weight, in the order in
/// which they are sent: any few in succession are spread as evenly as the weights allow. Dealing by
/// their numbers would not do that: where slices follow each other through a program, messages sent
/// together have numbers that fall on one rail. Short messages of one operation take one rail,
/// because those that are sent at a time then fit into one packet, and a packet costs a host more
/// time than they do.
class RailTable {
 public:
  /// A message of up to this many bytes is short: several fit into a packet.
  static constexpr size_t kShortBytes = 1024;

  /// Makes the table for the messages that `host` sends. Borrows the rails only during the call.
  /// Until SetLanes is called, all messages are dealt over the rails of the NICs' own addresses,
  /// spread.
  RailTable(const FabricRails& rails, int host);

  /// Sets the lanes of the messages to a host by a Step::path. `path` -1: of messages without a
  /// path, and of those by paths without lanes. Lanes that no rail serves are left out. If none is
  /// served it returns false, and nothing changes.
  bool SetLanes(const FabricRails& rails, int to_host, int path, std::span<const Lane> lanes);

  /// Returns the rail of the next message of this name and length.
  transport::RailChoice Next(const MessageName& name, size_t bytes);
  /// Returns the rail of the next message to a host that has no path: the next one of those that
  /// `admits` lets through; nullopt if there is none.
  using Admits = std::function<bool(size_t rail)>;
  std::optional<transport::RailChoice> NextAmong(int host, const Admits& admits);

 private:
  /// A row of rails that is dealt out again and again.
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
