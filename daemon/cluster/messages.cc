#include "daemon/cluster/messages.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"
#include "src/base/collective.h"
#include "src/numerics/types.h"
#include "src/planner/planner.h"

namespace harmonaize {
namespace {

using nlohmann::json;

template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/// Reads a value of a message. The library would turn any number into any other, and a number that
/// is too large for an integer has no defined meaning there. Throws where the value is of another
/// kind, or out of the type's range.
template <typename T>
void ReadValue(const json& value, T* out) {
  if constexpr (kIsInteger<T>) {
    if (!value.is_number_integer()) throw std::out_of_range("an integer is needed");
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<uint64_t>())
                                                 : std::in_range<T>(value.get<int64_t>());
    if (!fits) throw std::out_of_range("an integer is out of range");
    *out = value.is_number_unsigned() ? static_cast<T>(value.get<uint64_t>())
                                      : static_cast<T>(value.get<int64_t>());
  } else {
    value.get_to(*out);
  }
}

template <typename T>
void ReadValue(const json& value, std::vector<T>* out) {
  if (!value.is_array()) throw std::out_of_range("a list is needed");
  for (const json& one : value) ReadValue(one, &out->emplace_back());
}

}  // namespace

#define HARMONAIZE_READ_FIELD(field) ReadValue(document.at(#field), &message.field);
#define HARMONAIZE_WRITE_FIELD(field) document[#field] = message.field;
/// How a structure is written to a document and read from it: all of these fields, by their names.
#define HARMONAIZE_MESSAGE(Type, ...)                                              \
  inline void to_json(json& document, const Type& message) {                       \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(HARMONAIZE_WRITE_FIELD, __VA_ARGS__)) \
  }                                                                                \
  inline void from_json(const json& document, Type& message) {                     \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(HARMONAIZE_READ_FIELD, __VA_ARGS__))  \
  }

HARMONAIZE_MESSAGE(EdgeRate, edge, bytes_per_second)
}  // namespace harmonaize

namespace harmonaize::daemon {

HARMONAIZE_MESSAGE(ApplyMessage, ticket, kind, id, communicator, round, ranks, rank, takes_part,
                   color, key, excluded, abort_parent, name, user, address, host)
HARMONAIZE_MESSAGE(WithdrawMessage, ticket, code, why)
HARMONAIZE_MESSAGE(TicketedRank, ticket, rank)
HARMONAIZE_MESSAGE(FormedMessage, communicator, name, addresses, fabric_hosts, host_of_rank, self,
                   home_host, ranks, fabric)
HARMONAIZE_MESSAGE(RefusedMessage, tickets, code, why)
HARMONAIZE_MESSAGE(FormingNoticeMessage, tickets, notice)
HARMONAIZE_MESSAGE(AskGrowIdMessage, ticket, communicator, user)
HARMONAIZE_MESSAGE(GrowIdMessage, ticket, id, code, why)
HARMONAIZE_MESSAGE(AskFabricMessage, fabric)
HARMONAIZE_MESSAGE(FabricMessage, fabric, text)
HARMONAIZE_MESSAGE(BrokenMessage, communicator, revoked, code, why)
HARMONAIZE_MESSAGE(LeftMessage, communicator, rank, sequence)
HARMONAIZE_MESSAGE(RankRequest, rank, collective, count, type, op, root)
HARMONAIZE_MESSAGE(ProgressMessage, communicator, sequence, state, requests, missing, queued, code,
                   why)
HARMONAIZE_MESSAGE(AskProgressMessage, communicator, sequence)
HARMONAIZE_MESSAGE(VerdictMessage, communicator, sequence, code, why)
HARMONAIZE_MESSAGE(LateMessage, communicator, sequence, notice, missing)
HARMONAIZE_MESSAGE(AskPlanMessage, communicator, collective, root, size_class)
HARMONAIZE_MESSAGE(PlanMessage, communicator, collective, root, size_class, algorithm, order,
                   order_name, groups, groups_name, pieces, slice_bytes, slices_at_once, paths,
                   rates, predicted_seconds, bound_seconds, why)
HARMONAIZE_MESSAGE(ProposeMessage, communicator, round, current, next)
HARMONAIZE_MESSAGE(PromiseMessage, communicator, round, from, code, why)
HARMONAIZE_MESSAGE(SettleMessage, communicator, round, commit, from)
HARMONAIZE_MESSAGE(TrafficJob, user, communicator, weight, bytes_per_second, sent_bytes)
HARMONAIZE_MESSAGE(TrafficFlow, peer, rail, bytes_per_second, busy, arrival_queue, astray, jobs)
HARMONAIZE_MESSAGE(RailShare, peer, rail, user, bytes_per_second)
HARMONAIZE_MESSAGE(JobRates, communicator, rates)
HARMONAIZE_MESSAGE(JobWait, communicator, seconds)
HARMONAIZE_MESSAGE(SharesMessage, fabric, links, limits, jobs, waits)
HARMONAIZE_MESSAGE(TrafficNic, nic, sent, received, queued_bytes)
HARMONAIZE_MESSAGE(TrafficRhythm, user, communicator, bursts, burst_seconds, pause_seconds,
                   iteration_seconds, begun_seconds)
HARMONAIZE_MESSAGE(TrafficMessage, fabric, host, flows, nics, homes, rhythms)
HARMONAIZE_MESSAGE(BurstMessage, fabric, user, communicator, burst, ended)
HARMONAIZE_MESSAGE(BurstTurnMessage, fabric, communicator, burst)
HARMONAIZE_MESSAGE(LinkRatesMessage, communicator, rates)
HARMONAIZE_MESSAGE(AskLinkProbeMessage, fabric, probe, from, to, rail)
HARMONAIZE_MESSAGE(LinkProbeMessage, probe, messages)
HARMONAIZE_MESSAGE(LinkProbedMessage, probe, bytes_per_second)
HARMONAIZE_MESSAGE(OfferMessage, communicator, from, to, number, count, type, code, why)
HARMONAIZE_MESSAGE(AnswerMessage, communicator, from, to, number, code, why)
HARMONAIZE_MESSAGE(ClosedMessage, communicator, collectives)
HARMONAIZE_MESSAGE(BegunCollective, sequence, digest)
HARMONAIZE_MESSAGE(BegunMessage, communicator, begun, asks)
HARMONAIZE_MESSAGE(AgreedMessage, communicator, sequence)
HARMONAIZE_MESSAGE(ProbeOpenMessage, probe, token)
HARMONAIZE_MESSAGE(ProbeNic, device, address, port)
HARMONAIZE_MESSAGE(ProbeReadyMessage, probe, host, nics, code, why)
HARMONAIZE_MESSAGE(ProbeTarget, nic, address, port, token, transfer, connections)
HARMONAIZE_MESSAGE(ProbeRoundTripsMessage, probe, step, samples, targets)
HARMONAIZE_MESSAGE(ProbeConnectMessage, probe, step, targets)
HARMONAIZE_MESSAGE(ProbeRunMessage, probe, step, set, delay, seconds)
HARMONAIZE_MESSAGE(ProbeCount, transfer, bytes)
HARMONAIZE_MESSAGE(ProbeResultMessage, probe, step, samples, counts, code, why)
HARMONAIZE_MESSAGE(ProbeEndMessage, probe, why)

namespace {

/// Deeper than any message of ours. The reader calls itself for each level.
constexpr int kMostLevels = 8;
constexpr int kMostRanks = 1 << 20;
/// Of a tenant, with its priority.
constexpr double kMostWeight = 1e15;
constexpr int kMostPieces = 8192;
constexpr int kMostSlicesAtOnce = 1024;
constexpr int kMostProbeMessages = 1024;
/// What people are told is cut here: a control message has its limit, and a tenant may see to it
/// that thousands of ranks have something to say.
constexpr size_t kMostText = 4096;
/// The longest name of a host, a device, a communicator, or what else a daemon names, in bytes.
/// Tenants' names have 63 at most, DNS names 253.
constexpr size_t kMostName = 255;

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

/// Looks through a document without keeping it, and stops where it is too deep.
class LevelCounter final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return ++levels_ <= kMostLevels; }
  bool start_array(size_t) override { return ++levels_ <= kMostLevels; }
  bool end_object() override { return --levels_ >= 0; }
  bool end_array() override { return --levels_ >= 0; }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  int levels_ = 0;
};

// ---------------------------------------------------------------------------------------------
// What a message can say

bool InRange(int64_t value, int64_t end) {
  return value >= 0 && value < end;
}

bool IsCollective(int value) {
  return InRange(value, kCollectiveCount) && !IsPointToPoint(static_cast<Collective>(value));
}

bool AllBelow(const std::vector<int>& values, int end) {
  return std::all_of(values.begin(), values.end(), [end](int one) { return InRange(one, end); });
}

bool AllDifferent(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) == values.end();
}

bool IsSound(const ApplyMessage& apply) {
  const bool known = apply.kind >= ApplyMessage::kJoin && apply.kind <= ApplyMessage::kJoinGrowth;
  const bool answered = apply.takes_part && apply.ticket != 0;
  const std::vector<int>& excluded = apply.excluded;
  return known && (answered || (apply.kind == ApplyMessage::kSplit && !apply.takes_part)) &&
         InRange(apply.ranks, kMostRanks + 1) && InRange(apply.rank, kMostRanks) &&
         AllBelow(excluded, kMostRanks) && AllDifferent(excluded) &&
         std::is_sorted(excluded.begin(), excluded.end()) &&
         !std::binary_search(excluded.begin(), excluded.end(), apply.rank);
}

bool IsSound(const FormedMessage& formed) {
  const auto hosts = static_cast<int>(formed.addresses.size());
  const auto ranks = static_cast<int>(formed.host_of_rank.size());
  if (formed.communicator == 0 || !InRange(formed.self, hosts)) return false;
  if (formed.home_host < -1 || formed.home_host >= hosts || formed.home_host == formed.self) {
    return false;
  }
  if (formed.fabric_hosts.size() != formed.addresses.size()) return false;
  if (!AllDifferent(formed.fabric_hosts) || !AllBelow(formed.fabric_hosts, INT_MAX)) return false;
  if (!AllBelow(formed.host_of_rank, hosts)) return false;
  // All ranks of the receiver, each once.
  std::vector<int> given;
  for (const TicketedRank& one : formed.ranks) {
    if (one.ticket == 0 || !InRange(one.rank, ranks)) return false;
    given.push_back(one.rank);
  }
  std::sort(given.begin(), given.end());
  std::vector<int> own;
  for (int rank = 0; rank < ranks; ++rank) {
    if (formed.host_of_rank[static_cast<size_t>(rank)] == formed.self) own.push_back(rank);
  }
  return !own.empty() && given == own;
}

bool IsSound(const RankRequest& request) {
  return InRange(request.rank, kMostRanks) && IsCollective(request.collective) &&
         InRange(request.type, kDataTypeCount) && InRange(request.op, kReduceOperatorCount) &&
         request.root >= -1 && request.root < kMostRanks;
}

bool IsSound(const ProgressMessage& progress) {
  return InRange(progress.state, ProgressMessage::kDone + 1) &&
         AllBelow(progress.missing, kMostRanks) && AllBelow(progress.queued, kMostRanks) &&
         std::all_of(progress.requests.begin(), progress.requests.end(),
                     [](const RankRequest& request) { return IsSound(request); });
}

// What a plan is about.
template <typename Message>
bool IsPlannable(const Message& plan) {
  static const auto kClasses = static_cast<int>(SizeClasses().size());
  return IsCollective(plan.collective) && plan.root >= -1 && plan.root < kMostRanks &&
         InRange(plan.size_class, kClasses);
}

bool IsSound(const AskPlanMessage& question) {
  return IsPlannable(question);
}

bool IsAmount(double value) {
  return std::isfinite(value) && value >= 0;
}

bool IsSound(const EdgeRates& rates) {
  const bool each = std::all_of(rates.begin(), rates.end(), [](const EdgeRate& one) {
    return one.edge >= 0 && IsAmount(one.bytes_per_second) && one.bytes_per_second > 0;
  });
  const auto not_before = [](const EdgeRate& a, const EdgeRate& b) { return a.edge >= b.edge; };
  return each && std::adjacent_find(rates.begin(), rates.end(), not_before) == rates.end();
}

bool IsSound(const PlanMessage& plan) {
  return IsPlannable(plan) && IsSound(plan.rates) && plan.pieces >= 1 &&
         plan.pieces <= kMostPieces && plan.slice_bytes >= 1 &&
         InRange(plan.slices_at_once - 1, kMostSlicesAtOnce) &&
         InRange(plan.paths, static_cast<int>(PathUse::kWeighted) + 1) &&
         AllBelow(plan.order, INT_MAX) &&
         std::all_of(plan.groups.begin(), plan.groups.end(),
                     [](const std::vector<int>& group) { return AllBelow(group, INT_MAX); });
}

bool IsSound(const ProposeMessage& proposal) {
  if (proposal.next.empty() || proposal.next.size() != proposal.current.size()) return false;
  for (size_t i = 0; i < proposal.next.size(); ++i) {
    const PlanMessage& before = proposal.current[i];
    const PlanMessage& after = proposal.next[i];
    if (KeyOf(before) != KeyOf(after) || !IsSound(before) || !IsSound(after)) return false;
  }
  return true;
}

bool IsSound(const LeftMessage& left) {
  return InRange(left.rank, kMostRanks);
}

bool IsSound(const LateMessage& late) {
  return AllBelow(late.missing, kMostRanks);
}

bool IsWeight(double weight) {
  return weight > 0 && weight < kMostWeight;
}

bool IsSound(const TrafficJob& job) {
  return IsWeight(job.weight) && IsAmount(job.bytes_per_second);
}

bool IsSound(const TrafficNic& nic) {
  return InRange(nic.nic, INT_MAX) && IsAmount(nic.sent) && IsAmount(nic.received) &&
         std::isfinite(nic.queued_bytes);
}

bool IsSound(const TrafficRhythm& rhythm) {
  return IsAmount(rhythm.burst_seconds) && IsAmount(rhythm.pause_seconds) &&
         IsAmount(rhythm.iteration_seconds) && rhythm.iteration_seconds > 0 &&
         IsAmount(rhythm.begun_seconds);
}

bool IsSound(const TrafficMessage& traffic) {
  return InRange(traffic.host, INT_MAX) &&
         std::all_of(traffic.rhythms.begin(), traffic.rhythms.end(),
                     [](const TrafficRhythm& rhythm) { return IsSound(rhythm); }) &&
         std::all_of(traffic.nics.begin(), traffic.nics.end(),
                     [](const TrafficNic& nic) { return IsSound(nic); }) &&
         std::all_of(traffic.flows.begin(), traffic.flows.end(), [](const TrafficFlow& flow) {
           return InRange(flow.peer, INT_MAX) && IsAmount(flow.bytes_per_second) &&
                  IsAmount(flow.busy) && flow.busy <= 1 && std::isfinite(flow.arrival_queue) &&
                  std::all_of(flow.jobs.begin(), flow.jobs.end(),
                              [](const TrafficJob& job) { return IsSound(job); });
         });
}

bool IsSound(const RailShare& share) {
  return InRange(share.peer, INT_MAX) && IsAmount(share.bytes_per_second) &&
         share.bytes_per_second > 0;
}

bool IsSound(const JobWait& wait) {
  return wait.seconds > 0 && wait.seconds <= JobWait::kLongestSeconds;
}

bool IsSound(const SharesMessage& shares) {
  return IsSound(shares.links) &&
         std::all_of(shares.limits.begin(), shares.limits.end(),
                     [](const RailShare& share) { return IsSound(share); }) &&
         std::all_of(shares.waits.begin(), shares.waits.end(),
                     [](const JobWait& wait) { return IsSound(wait); }) &&
         std::all_of(shares.jobs.begin(), shares.jobs.end(),
                     [](const JobRates& job) { return IsSound(job.rates); });
}

bool IsSound(const LinkRatesMessage& message) {
  return IsSound(message.rates);
}

bool IsSound(const AskLinkProbeMessage& question) {
  return question.probe != 0 && InRange(question.from, INT_MAX) && InRange(question.to, INT_MAX);
}

bool IsSound(const LinkProbeMessage& probe) {
  return probe.probe != 0 && probe.messages >= 2 && probe.messages <= kMostProbeMessages;
}

bool IsSound(const LinkProbedMessage& probed) {
  return probed.probe != 0 && IsAmount(probed.bytes_per_second);
}

bool IsSound(const OfferMessage& offer) {
  return InRange(offer.from, kMostRanks) && InRange(offer.to, kMostRanks) &&
         InRange(offer.type, kDataTypeCount);
}

bool IsSound(const AnswerMessage& answer) {
  return InRange(answer.from, kMostRanks) && InRange(answer.to, kMostRanks);
}

// The others have nothing that could not be.
template <typename Message>
bool IsSound(const Message&) {
  return true;
}

void Cut(std::string* text) {
  if (text->size() > kMostText) *text = CleanText(*text, kMostText - 3) + "...";
}

/// Cleans all that another daemon names or says: it goes into logs, documents and tenants' errors.
void CleanTexts(json* value, size_t most_bytes) {
  if (value->is_string()) {
    auto& text = value->get_ref<std::string&>();
    text = CleanText(text, most_bytes);
  } else if (value->is_array()) {
    for (json& one : *value) CleanTexts(&one, most_bytes);
  } else if (value->is_object()) {
    for (auto& [key, one] : value->items()) {
      CleanTexts(&one, key == "why" || key == "notice" ? kMostText : kMostName);
    }
  }
}

}  // namespace

std::vector<std::byte> EncodeMessage(const ClusterMessage& message) {
  ClusterMessage sent = message;
  std::visit(
      [](auto& body) {
        if constexpr (requires { body.why; }) Cut(&body.why);
        if constexpr (requires { body.notice; }) Cut(&body.notice);
      },
      sent);
  const json document =
      json::array({sent.index(), std::visit([](const auto& body) { return json(body); }, sent)});
  const std::vector<uint8_t> bytes = json::to_cbor(document);
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

Result<ClusterMessage> DecodeMessage(std::span<const std::byte> bytes) {
  try {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    LevelCounter levels;
    if (!json::sax_parse(data, data + bytes.size(), &levels, json::input_format_t::cbor)) {
      return RemoteError("a message that no daemon sends: it cannot be read");
    }
    json document = json::from_cbor(data, data + bytes.size());
    size_t kind = 0;
    ReadValue(document.at(0), &kind);
    // A fabric comes as a file of many lines, whose reader looks at the names in it.
    static const size_t kFabric = ClusterMessage(FabricMessage{}).index();
    if (kind != kFabric) CleanTexts(&document.at(1), kMostName);
    ClusterMessage message = Read(kind, document.at(1));
    if (!std::visit([](const auto& body) { return IsSound(body); }, message)) {
      return RemoteError("a message that no daemon sends: kind {} with values that cannot be",
                         message.index());
    }
    return message;
  } catch (const std::exception& error) {
    return RemoteError("a message that no daemon sends: {}", CleanText(error.what(), kMostName));
  }
}

Status StatusOf(int code, const std::string& why) {
  if (code == 0) return Status::Ok();
  const bool known = code > 0 && code <= static_cast<int>(Code::kUnavailable);
  return Status(known ? static_cast<Code>(code) : Code::kRemoteError, why);
}

}  // namespace harmonaize::daemon
