#include "daemon/cluster/messages.h"

#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

namespace harmonaize::daemon {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ApplyMessage, ticket, kind, id, communicator, round, ranks, rank,
                                   takes_part, color, key, excluded, abort_parent, name, user,
                                   address, host)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WithdrawMessage, ticket, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TicketedRank, ticket, rank)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FormedMessage, communicator, name, addresses, fabric_hosts,
                                   host_of_rank, self, home_host, ranks, fabric)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RefusedMessage, tickets, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FormingNoticeMessage, tickets, notice)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AskGrowIdMessage, ticket, communicator, user)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GrowIdMessage, ticket, id, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AskFabricMessage, fabric)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FabricMessage, fabric, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BrokenMessage, communicator, revoked, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LeftMessage, communicator, rank, sequence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankRequest, rank, collective, count, type, op, root)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProgressMessage, communicator, sequence, state, requests,
                                   missing, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AskProgressMessage, communicator, sequence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(VerdictMessage, communicator, sequence, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LateMessage, communicator, sequence, notice)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AskPlanMessage, communicator, collective, root, size_class)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlanMessage, communicator, collective, root, size_class,
                                   algorithm, order, order_name, groups, groups_name, pieces,
                                   slice_bytes, slices_at_once, paths, predicted_seconds,
                                   bound_seconds, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OfferMessage, communicator, from, to, number, count, type)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AnswerMessage, communicator, from, to, number, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClosedMessage, communicator, collectives)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeOpenMessage, probe, token)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeNic, device, address, port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeReadyMessage, probe, host, nics, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeTarget, nic, address, port, token, transfer, connections)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeRoundTripsMessage, probe, step, samples, targets)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeConnectMessage, probe, step, targets)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeRunMessage, probe, step, set, delay, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeCount, transfer, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeResultMessage, probe, step, samples, counts, code, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProbeEndMessage, probe, why)

namespace {

using nlohmann::json;

/// Reads alternative `index` of the variant.
template <size_t kIndex = 0>
ClusterMessage Read(size_t index, const json& body) {
  if constexpr (kIndex < std::variant_size_v<ClusterMessage>) {
    if (index == kIndex) {
      return body.get<std::variant_alternative_t<kIndex, ClusterMessage>>();
    }
    return Read<kIndex + 1>(index, body);
  } else {
    throw std::out_of_range("an unknown kind");
  }
}

}  // namespace

std::vector<std::byte> EncodeMessage(const ClusterMessage& message) {
  const json document = json::array(
      {message.index(), std::visit([](const auto& body) { return json(body); }, message)});
  const std::vector<uint8_t> bytes = json::to_cbor(document);
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

Result<ClusterMessage> DecodeMessage(std::span<const std::byte> bytes) {
  try {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    const json document = json::from_cbor(data, data + bytes.size());
    return Read(document.at(0).get<size_t>(), document.at(1));
  } catch (const std::exception& error) {
    return RemoteError("a message that no daemon sends: {}", error.what());
  }
}

Status StatusOf(int code, const std::string& why) {
  if (code == 0) return Status::Ok();
  const bool known = code > 0 && code <= static_cast<int>(Code::kUnavailable);
  return Status(known ? static_cast<Code>(code) : Code::kRemoteError, why);
}

}  // namespace harmonaize::daemon
