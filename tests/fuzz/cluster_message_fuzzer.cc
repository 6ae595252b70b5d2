// Messages between daemons, once the cluster key is proved.

#include <cstdint>
#include <vector>

#include "src/numerics/types.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/sample_messages.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

// What messages.h says of each; the receiver sees to what depends on its own state.

void RequireBounds(const FormedMessage& formed) {
  const auto hosts = static_cast<int>(formed.addresses.size());
  Require(formed.self >= 0 && formed.self < hosts, "the receiver is a host");
  Require(formed.fabric_hosts.size() == formed.addresses.size(), "each host is of the fabric");
  for (const int host : formed.host_of_rank) {
    Require(host >= 0 && host < hosts, "each rank has a host");
  }
  for (const TicketedRank& one : formed.ranks) {
    Require(one.rank >= 0 && static_cast<size_t>(one.rank) < formed.host_of_rank.size() &&
                formed.host_of_rank[static_cast<size_t>(one.rank)] == formed.self,
            "tickets are of the receiver's ranks");
  }
}

void RequireBounds(const OfferMessage& offer) {
  Require(offer.from >= 0 && offer.to >= 0, "ranks are not negative");
  Require(static_cast<int>(offer.type) < kDataTypeCount, "a type that is one");
}

void RequireBounds(const LinkProbeMessage& probe) {
  Require(probe.messages >= 2 && probe.messages <= 1024, "a probe of some messages");
}

void RequireBounds(const ProposeMessage& proposal) {
  Require(!proposal.next.empty() && proposal.next.size() == proposal.current.size(),
          "plans to go to are as many as those in use");
}

template <typename Message>
void RequireBounds(const Message&) {}

void Run(std::span<const std::byte> bytes) {
  const Result<ClusterMessage> message = DecodeMessage(bytes);
  if (!message.ok()) return RequireClean(message.status().message(), "a clean error");
  VisitStructure(*message, [](const auto& body) { RequireBounds(body); });
  // Texts may be cut when they are encoded, but once only.
  const std::vector<std::byte> encoded = EncodeMessage(*message);
  const Result<ClusterMessage> again = DecodeMessage(encoded);
  RequireOk(again.status(), "what is encoded can be decoded");
  Require(again->kind() == message->kind(), "a message keeps its kind");
  Require(EncodeMessage(*again) == encoded, "a message is the same when it is encoded again");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(std::as_bytes(std::span(data, size)));
  return 0;
}
