#include "src/ipc/ticket.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "src/base/base64_url.h"
#include "src/base/random.h"

namespace harmonaize {
namespace {

/// The beginning of the text, by which people and scanners for leaked secrets know a ticket. The
/// digit is the version of what follows.
constexpr std::string_view kPrefix = "hzt1_";
/// Bytes of a ticket: the secret, and the parts of the id that differ from daemon to daemon.
constexpr size_t kTicketBytes =
    sizeof(Ticket::secret) + sizeof(UniqueId::token) + sizeof(UniqueId::reserved);
static_assert(kPrefix.size() + (kTicketBytes * 8 + 5) / 6 < kTicketTextBytes);

}  // namespace

Result<Ticket> MakeTicket(const UniqueId& home) {
  Ticket ticket{.secret = {}, .home = home};
  HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(ticket.secret))));
  return ticket;
}

std::string TextOfTicket(const Ticket& ticket) {
  std::vector<uint8_t> bytes(ticket.secret.begin(), ticket.secret.end());
  bytes.insert(bytes.end(), ticket.home.token.begin(), ticket.home.token.end());
  bytes.insert(bytes.end(), ticket.home.reserved.begin(), ticket.home.reserved.end());
  return std::string(kPrefix) + Base64UrlOf(bytes);
}

Result<Ticket> ParseTicket(std::string_view text) {
  std::optional<std::vector<uint8_t>> bytes;
  if (text.starts_with(kPrefix)) bytes = Base64UrlDecoded(text.substr(kPrefix.size()));
  if (!bytes.has_value() || bytes->size() != kTicketBytes) {
    return InvalidArgument(
        "the ticket is no text of a ticket: it begins with {}, and must come whole and unchanged",
        kPrefix);
  }
  Ticket ticket;
  const std::span<const uint8_t> all(*bytes);
  const auto fill = [](std::span<const uint8_t> from, auto& to) {
    std::copy(from.begin(), from.end(), to.begin());
  };
  fill(all.first(ticket.secret.size()), ticket.secret);
  fill(all.subspan(ticket.secret.size(), ticket.home.token.size()), ticket.home.token);
  fill(all.last(ticket.home.reserved.size()), ticket.home.reserved);
  return ticket;
}

}  // namespace harmonaize
