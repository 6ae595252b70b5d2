#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace harmonaize::daemon {

// What the two ends of a transfer say to each other on a SecureSocket. Hosts of one cluster have
// one byte order, as its plans assume, too.

/// Lets connections have one source of bytes, while some do. Drawn at random for each offer.
using TransferTicket = std::array<std::byte, 16>;

/// Asks for a range. Several may follow each other on a connection, all by one ticket.
struct TransferRequest {
  static constexpr uint64_t kMagic = 0x0031'5445'4731'5a48;  // "HZ1GET1" and a zero
  uint64_t magic = kMagic;
  TransferTicket ticket{};
  uint64_t at = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(TransferRequest) == 40);

/// Comes before the bytes of a range, and again behind them: the source may have ended meanwhile,
/// and then they are worth nothing.
enum class TransferAnswer : uint64_t {
  kGood = 1,
  kRefused = 2,  ///< No such ticket, or no such range; no bytes follow.
  kVoid = 3,     ///< What the source had has been replaced; no bytes follow.
};

/// Bytes that are read, encrypted and sent at a time: few enough to give way soon to tenants'
/// traffic, many enough for system calls not to count.
inline constexpr size_t kTransferPiece = 256 << 10;

}  // namespace harmonaize::daemon
