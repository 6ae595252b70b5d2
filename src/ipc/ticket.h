#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/ipc/unique_id.h"

namespace harmonaize {

/// Bytes of the text of a ticket, with the zero at its end: HZ_TICKET_BYTES.
inline constexpr size_t kTicketTextBytes = 256;

/// A ticket, by which a process that is no rank of a job gets a place in it. It holds nothing that
/// tells whose it is: the daemon to which it leads knows that.
struct Ticket {
  std::array<uint8_t, 32> secret{};  ///< Random bits from the kernel.
  UniqueId home;  ///< Leads to the daemon that keeps the ticket, as a unique id leads to its maker.
};

/// Returns a ticket with a fresh secret that leads to the daemon to which `home` does.
Result<Ticket> MakeTicket(const UniqueId& home);

/// Returns the ticket as printable text without spaces: "hzt1_" and the bytes in base64url.
std::string TextOfTicket(const Ticket& ticket);

/// Returns the ticket of a text. Errors: kInvalidArgument, which does not repeat the text.
Result<Ticket> ParseTicket(std::string_view text);

}  // namespace harmonaize
