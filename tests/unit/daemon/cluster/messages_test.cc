// Messages between daemons: every kind arrives as it was sent, and everything else is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/cluster/messages/fields.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/messages/subjects.h"
#include "src/base/clean_text.h"
#include "src/ipc/unique_id.h"
#include "src/planner/tuning_advice.h"
#include "tests/support/sanitized.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

const Status kWhy = InvalidUsage("why");

/// Returns a message of each kind, in which every field differs from its default.
std::vector<ClusterMessage> OneOfEach() {
  return {
      ApplyMessage{.ticket = 9,
                   .kind = FormationKind::kShrink,
                   .id = {1, 2, 255},
                   .communicator = UINT64_MAX,
                   .round = 3,
                   .ranks = 5,
                   .rank = 4,
                   .takes_part = true,
                   .color = -7,
                   .key = 8,
                   .excluded = {1, 3},
                   .abort_parent = true,
                   .name = "a name",
                   .job = std::vector<uint8_t>(16, 7),
                   .user = 1000,
                   .address = "10.0.0.1:7400",
                   .host = "host0"},
      WithdrawMessage{9, kWhy},
      FormedMessage{.communicator = 77,
                    .name = "a name",
                    .job = std::vector<uint8_t>(16, 8),
                    .addresses = {"a:1", "b:2"},
                    .fabric_hosts = {4, 2},
                    .host_of_rank = {0, 1, 1},
                    .self = 1,
                    .home_host = 0,
                    .ranks = {{8, 1}, {9, 2}},
                    .fabric = 5},
      RefusedMessage{{1, 2}, kWhy},
      FormingNoticeMessage{{1, 2}, "notice"},
      AskGrowIdMessage{1, 77, 1000},
      GrowIdMessage{1, {4, 5}, {}},
      AskFabricMessage{5},
      FabricMessage{5, "[[host]]"},
      BrokenMessage{77, true, kWhy},
      LeftMessage{77, 3, 12},
      ProgressMessage{
          77,
          12,
          HostProgress::kFailed,
          {{1, Collective::kBroadcast, 3, DataType::kInt64, ReduceOperator::kPreMulSum, -1}},
          {0, 7},
          {9},
          kWhy},
      AskProgressMessage{77, 12},
      VerdictMessage{77, 12, kWhy},
      LateMessage{77, 12, "notice", {3}},
      AskPlanMessage{77, {Collective::kAllReduce, -1, 3}},
      PlanMessage{77,
                  {.key = {Collective::kBroadcast, 1, 4},
                   .algorithm = "ring",
                   .order = {1, 0},
                   .order_name = "given",
                   .groups = {{0}, {1}},
                   .groups_name = "racks",
                   .pieces = 8,
                   .slice_bytes = 4096,
                   .slices_at_once = 4,
                   .paths = PathUse::kWeighted,
                   .rates = {{3, 1e6}, {8, 2.5e6}},
                   .predicted_seconds = 0.25,
                   .bound_seconds = 0.125,
                   .status = kWhy}},
      OfferMessage{77, 1, 2, 3, 4, DataType::kUint64, kWhy},
      AnswerMessage{77, 1, 2, 3, kWhy},
      PipesOpenedMessage{77, 1, 0},
      PipesClosedMessage{77, 0, 1, 12, true, 3},
      KnockMessage{std::vector<uint8_t>(32, 5), 1001, std::vector<uint8_t>(sizeof(UniqueId), 6)},
      KnockRefusedMessage{std::vector<uint8_t>(sizeof(UniqueId), 6), kWhy},
      TunedRanksMessage{1001, 77, 5, 3, 8, 2, 1},
      TuningProposalMessage{1001, 77, 3, NoTuningAdvice().factors, NoTuningAdvice().channels,
                            NoTuningAdvice().families},
      TuningPromiseMessage{1001, 77, 3, 40, {5, 6}, kWhy},
      TuningSettleMessage{1001, 77, 3, true, 41},
      ClosedMessage{77, 12},
      BegunMessage{77, {{12, 0xffffffffu}, {14, 0}}, true},
      AgreedMessage{77, 12},
      AskLostMessage{1, 77, {3}},
      LostMessage{1, true, 5, {0, 3}},
      ProposeMessage{
          77,
          3,
          {{.algorithm = "ring", .order = {1, 0}}},
          {{.algorithm = "hierarchical", .groups = {{0}, {1}}, .wire = WireFormat::kBf16}}},
      PromiseMessage{77, 3, 12, kWhy},
      SettleMessage{77, 3, true, 14},
      ProbeOpenMessage{1, {2, 3}},
      ProbeReadyMessage{1, "host0", {{"eth0", "10.0.0.1", 4000}}, kWhy},
      ProbeRoundTripsMessage{1, 2, 3, {{0, "10.0.0.2", 4000, {5, 6}, 1, 2}}},
      ProbeConnectMessage{1, 2, {{0, "10.0.0.2", 4000, {5, 6}, 1, 2}}},
      ProbeRunMessage{1, 2, 3, 0.5, 0.25},
      ProbeResultMessage{1, 2, {{1e-6}, {}}, {{1, 2000}}, kWhy},
      ProbeEndMessage{1, "why"},
      TrafficMessage{5,
                     2,
                     {{1, 3, 1e6, 0.5, 1e-3, true, {{1001, 77, 2.5, 1e6, 9}}}},
                     {{1, 2e6, 3e6, 4e3}},
                     {77},
                     {{1001, 77, 8, 0.1, 0.2, 0.3, 0.05}},
                     {{1001, 77, 3, 2, 1e6, 2e6, 3e6, 4e6}}},
      LinkRatesMessage{77, {{3, 1e6}}},
      AskLinkProbeMessage{5, 9, 1, 2, 3},
      LinkProbeMessage{9, 4},
      LinkProbedMessage{9, 1e6},
      SharesMessage{5,
                    {{3, 1e6}},
                    {{1, 2, 1001, 3, 3e6}},
                    {{77, {{8, 2e6}}}},
                    {{77, 0.5}},
                    {{77, 1e6, true, 2e6, true, true, 5e5}}},
      BurstMessage{5, 1001, 77, 8, true},
      BurstTurnMessage{5, 77, 8},
      EventMessage{77, 5, "io.harmonaize.rank.late", "ranks/3", 1, 13, 2, "{}"},
      RequirementsMessage{77, 3, 9, {{4, 8, {'a', '=', '1', '\n'}}}},
      RequirementsDigestMessage{77, 0xffffffffffffffff},
      AskRequirementsMessage{77},
      JobOfferMessage{77, 5, {'{', '}'}, 9, InvalidUsage("the deadline has passed")},
      OfferAnswerMessage{77, 5, 6, "offer-0123456789abcdef", {'{', '}'}},
      AttachMessage{.agent = {5, "10.0.0.1:4000", 3},
                    .digest = std::vector<uint8_t>(kTicketDigestBytes, 7),
                    .job = std::vector<uint8_t>(16, 1),
                    .user = 1000},
      AgentMessage{77, 6, {5, "10.0.0.1:4000", 3}, true},
      TieMessage{5, std::vector<uint8_t>(16, 1), 1000, 4, kWhy},
      HostSizesMessage{.host = "host0",
                       .places = 8,
                       .free = 3,
                       .coming = 1,
                       .link_load = 0.25,
                       .jobs = {{.job = std::vector<uint8_t>(16, 1),
                                 .user = 1000,
                                 .group = 77,
                                 .label = "train",
                                 .tenant = "uid 1000",
                                 .ranks_here = 2,
                                 .ranks = 4,
                                 .room = 3,
                                 .least = 2,
                                 .most = 16,
                                 .step = 2,
                                 .notice_seconds = 30,
                                 .priority = 1,
                                 .goal = JobGoal::kDeadline,
                                 .deadline_seconds = 2e9,
                                 .seen = {{2, 64, 0.5, 0.125}, {4, 64, 0.25, 0.0625}},
                                 .samples_left = 1e6,
                                 .gradient_noise_scale = 512,
                                 .change_seconds = 1.5,
                                 .is_asked = true,
                                 .quiet_seconds = 60}}},
      SizeOfferMessage{.job = std::vector<uint8_t>(16, 1),
                       .user = 1000,
                       .group = 77,
                       .grows = true,
                       .ranks = 4,
                       .least = 2,
                       .answer_seconds = 30,
                       .due_seconds = 90,
                       .latest_due_seconds = 120,
                       .why = "a step is expected to take 0.5 s instead of 1 s",
                       .expected_step_seconds = 0.5,
                       .confidence = 0.75,
                       .is_urgent = true},
      PartSavedMessage{.about = 77,
                       .rank = 3,
                       .round = 4,
                       .step = 1200,
                       .bytes = 1 << 20,
                       .stall_seconds = 0.5,
                       .at_peer = true,
                       .to_store = true},
      PartStoredMessage{.about = 77, .round = 4, .rank = 3, .status = kWhy},
      RoundCompleteMessage{.about = 77,
                           .round = 4,
                           .step = 1200,
                           .peer_round = 3,
                           .stored = 6,
                           .not_stored = 8,
                           .status = kWhy},
      ChoiceMessage{.about = 77, .number = 2, .choice = {1, 2, 3}},
      AskSavesMessage{.call = 5, .user = 1000, .job = std::vector<uint8_t>(16, 1)},
      SavesMessage{.call = 5,
                   .saves = {{.save = 9,
                              .step = 1200,
                              .ranks = 4,
                              .complete = true,
                              .kept = true,
                              .saved = 1.5e9,
                              .bytes = 1 << 20,
                              .parts = {0, 3}}}},
      AskPartMessage{
          .call = 6, .user = 1000, .job = std::vector<uint8_t>(16, 1), .save = 9, .rank = 3},
      PartAtMessage{.call = 6,
                    .bytes = 1 << 20,
                    .address = "10.0.0.1:7400",
                    .ticket = std::vector<uint8_t>(kTransferTicketBytes, 7),
                    .status = kWhy},
      KeepPartMessage{.about = 77,
                      .user = 1000,
                      .job = std::vector<uint8_t>(16, 1),
                      .save = 9,
                      .step = 1200,
                      .round = 4,
                      .rank = 3,
                      .ranks = 4,
                      .kept = true,
                      .saved = 1.5e9,
                      .bytes = 1 << 20,
                      .address = "10.0.0.1:7400",
                      .ticket = std::vector<uint8_t>(kTransferTicketBytes, 7)},
      PartKeptMessage{.about = 77, .round = 4, .rank = 3, .status = kWhy},
      AskTicketsMessage{.call = 1,
                        .about = 77,
                        .user = 1000,
                        .act = TicketAct::kMake,
                        .digest = std::vector<uint8_t>(kTicketDigestBytes, 7),
                        .uses = 3,
                        .seconds = 0.5},
      TicketsMessage{.call = 1,
                     .id = {4, 5},
                     .tickets = {{"a", 2, 1.5e9, 1.6e9}},
                     .more = 3,
                     .waiting = 4,
                     .ranks = 5,
                     .status = kWhy},
      ComeMessage{1, std::vector<uint8_t>(kTicketDigestBytes, 7), std::vector<uint8_t>(16, 8),
                  1000},
      PlaceMessage{1, {4, 5}, 3, 2, kWhy},
      GoneMessage{1},
      BurnTicketsMessage{77, 9},
      AskStandingMessage{77, {.sequence = 12}},
      StandingMessage{.about = 77,
                      .operation = {.pair = true, .from = 1, .to = 2},
                      .name = "Recv 2 <- 1",
                      .waits = true,
                      .under_way = true,
                      .waited_ms = 1500,
                      .late_after_ms = 5000,
                      .usual_ms = 20,
                      .senders = {1},
                      .ranks = {{1,
                                 Awaited::kData,
                                 Doing::kStopped,
                                 {{3, "tp0", HangClass::kNotCalled, Doing::kSleeping}}}}},
      HangMessage{77,
                  {.sequence = 12},
                  "AllReduce #12",
                  HangClass::kNotFilled,
                  1500,
                  {{3, "tp0", HangClass::kNotFilled, Doing::kStopped}},
                  "notice",
                  {3},
                  "stage"},
  };
}

json DocumentOf(const ClusterMessage& message) {
  const std::vector<std::byte> bytes = EncodeMessage(message);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  return json::from_cbor(data, data + bytes.size());
}

Result<ClusterMessage> Decode(const json& document) {
  const std::vector<uint8_t> bytes = json::to_cbor(document);
  return DecodeMessage(std::as_bytes(std::span(bytes)));
}

/// A message that has gained a field.
struct GrownMessage {
  uint64_t before = 0;
  std::optional<uint64_t> later = {};
};
HARMONAIZE_FIELDS(GrownMessage, before, later)

TEST(ClusterMessages, EveryKindMakesTheWayThere) {
  const std::vector<ClusterMessage> messages = OneOfEach();
  std::set<MessageKind> kinds;
  for (const ClusterMessage& message : messages) {
    const auto kind = static_cast<int>(message.kind());
    EXPECT_TRUE(kinds.insert(message.kind()).second) << kind;
    const Result<ClusterMessage> decoded = DecodeMessage(EncodeMessage(message));
    ASSERT_TRUE(decoded.ok()) << kind << ": " << decoded.status().message();
    EXPECT_EQ(decoded->kind(), message.kind());
    EXPECT_EQ(EncodeMessage(*decoded), EncodeMessage(message)) << "kind " << kind;
  }
  std::set<MessageKind> all;
  ForEachMessage([&all](const auto& one) {
    EXPECT_TRUE(all.insert(one.kKind).second)
        << "two structures have kind " << static_cast<int>(one.kKind);
  });
  EXPECT_EQ(kinds, all);
}

TEST(ClusterMessages, AnUnknownKindIsToldFromAMessageThatIsWrong) {
  const Status unknown = Decode(json::array({64999, json::object()})).status();
  EXPECT_EQ(unknown.code(), Code::kInvalidUsage);
  EXPECT_EQ(unknown.message(), "unknown kind 64999");
  const int known = static_cast<int>(MessageKind::kGone);
  EXPECT_EQ(Decode(json::array({known, json::object()})).status().code(), Code::kRemoteError);
}

TEST(ClusterMessages, AFieldThatIsNotKnownIsPassedOver) {
  json document = DocumentOf(GoneMessage{7});
  document[1]["added_later"] = "whatever";
  const Result<ClusterMessage> decoded = Decode(document);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->As<GoneMessage>()->call, 7u);
}

TEST(ClusterMessages, AFieldOfALaterReleaseMayMiss) {
  GrownMessage grown{.before = 5, .later = 9};
  const json whole = fields::Write(grown);
  GrownMessage read;
  ASSERT_TRUE(fields::ReadMessage(whole, &read).ok());
  EXPECT_EQ(read.later, 9u);
  json earlier = whole;
  earlier.erase("later");
  ASSERT_TRUE(fields::ReadMessage(earlier, &read).ok());
  EXPECT_EQ(read.before, 5u);
  EXPECT_EQ(read.later, std::nullopt);
  EXPECT_EQ(fields::Write(read), earlier);
  json wrong = whole;
  wrong["later"] = "nine";
  EXPECT_EQ(fields::ReadMessage(wrong, &read).message(), "field 'later' is wrong");
}

TEST(ClusterMessages, LongTextsAreCut) {
  const std::string text(2 << 20, 'x');
  EXPECT_LT(EncodeMessage(VerdictMessage{1, 2, RemoteError("{}", text)}).size(), 5000u);
  EXPECT_LT(EncodeMessage(FormingNoticeMessage{{1}, text}).size(), 5000u);
}

TEST(ClusterMessages, WhatIsCutShortOrMissesSomethingIsRefused) {
  for (const ClusterMessage& message : OneOfEach()) {
    const std::vector<std::byte> whole = EncodeMessage(message);
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      EXPECT_FALSE(DecodeMessage(std::span(whole).first(bytes)).ok());
    }
    const json document = DocumentOf(message);
    for (const auto& [key, value] : document[1].items()) {
      json without = document;
      without[1].erase(key);
      EXPECT_FALSE(Decode(without).ok()) << key;
      for (const json& other :
           {json("text"), json::array({json::array()}), json::object(), json(nullptr)}) {
        json changed = document;
        changed[1][key] = other;
        if (other.type() != value.type()) {
          EXPECT_FALSE(Decode(changed).ok()) << key;
        }
      }
    }
  }
}

/// Calls `once` this many times, in threads that end now and then: the address sanitizer does not
/// get back the frames that an exception leaves before its thread ends, and grows slow without
/// that.
void Repeat(int rounds, const std::function<void()>& once) {
  constexpr int kRoundsAThread = 500;
  for (; rounds > 0; rounds -= kRoundsAThread) {
    std::thread([&] {
      for (int round = 0; round < std::min(rounds, kRoundsAThread); ++round) once();
    }).join();
  }
}

// Any bytes decode to a message or an error. (The sanitizers see to what must not happen.)
// The fuzz test of these messages has more of them (tests/fuzz).
constexpr int kRandomMessages = kSanitized ? 3'000 : 20'000;

TEST(ClusterMessages, RandomBytesAndChangesAreSurvived) {
  std::mt19937 random(20240607);
  int accepted = 0;
  Repeat(kRandomMessages, [&] {
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    accepted += DecodeMessage(bytes).ok() ? 1 : 0;
  });
  EXPECT_LT(accepted, 20);
  const std::vector<ClusterMessage> messages = OneOfEach();
  Repeat(kRandomMessages, [&] {
    std::vector<std::byte> bytes = EncodeMessage(messages[random() % messages.size()]);
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const Result<ClusterMessage> decoded = DecodeMessage(bytes);
    if (decoded.ok()) EncodeMessage(*decoded);
  });
}

TEST(ClusterMessages, TheHighestNumbersOfStatementsAreTaken) {
  constexpr uint64_t kMost = kMostStatementNumber;
  const RequirementsMessage message{77, kMost, UINT64_MAX, {{kMost, UINT64_MAX, {'#'}}}};
  const Result<ClusterMessage> decoded = DecodeMessage(EncodeMessage(message));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->As<RequirementsMessage>()->statements.front().number, kMost);
}

TEST(ClusterMessages, DeepNestsAreRefusedBeforeTheyAreFollowed) {
  for (const unsigned char opening : {0x81, 0x9f, 0xa1, 0xbf}) {
    std::vector<unsigned char> bytes(1 << 20, opening);
    if (opening == 0xa1 || opening == 0xbf) {
      for (size_t i = 1; i < bytes.size(); i += 3) {
        bytes[i] = 0x61;  // a key of one letter, and again a map
        if (i + 1 < bytes.size()) bytes[i + 1] = 'k';
      }
    }
    EXPECT_FALSE(DecodeMessage(std::as_bytes(std::span(bytes))).ok());
  }
  // These lengths exceed the message.
  for (const unsigned char kind : {0x9b, 0xbb, 0x7b, 0x5b}) {
    const unsigned char claim[] = {0x82, 0x00, kind, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0xff, 0xff};
    EXPECT_FALSE(DecodeMessage(std::as_bytes(std::span(claim))).ok());
  }
}

/// Values that are refused in a field of a message of this kind.
struct OutOfRange {
  MessageKind kind;
  const char* path;  // a JSON pointer
  std::vector<json> values;
};

// Tenants choose the numbers of NCCL's communicators. As keys of communicators, those of one tenant
// would fill what is kept for others (StrayMessages).
TEST(ClusterMessages, TuningIsAboutNoCommunicatorOfTheDaemons) {
  EXPECT_EQ(CommunicatorOf(SettleMessage{.communicator = 7}), 7);
  EXPECT_EQ(CommunicatorOf(TunedRanksMessage{}), std::nullopt);
  EXPECT_EQ(CommunicatorOf(TuningProposalMessage{}), std::nullopt);
  EXPECT_EQ(CommunicatorOf(TuningPromiseMessage{}), std::nullopt);
  EXPECT_EQ(CommunicatorOf(TuningSettleMessage{}), std::nullopt);
}

TEST(ClusterMessages, ValuesThatCannotBeAreRefused) {
  const json huge = int64_t{1} << 31;
  const std::vector<OutOfRange> cases = {
      {MessageKind::kTunedRanks, "/1/host", {-1}},
      {MessageKind::kTunedRanks, "/1/ranks", {0, -1, 1 << 21, 1}},
      {MessageKind::kTunedRanks, "/1/here", {-1, 9}},
      {MessageKind::kTuningProposal, "/1/factors", {json::array(), {1.0}}},
      {MessageKind::kTuningProposal, "/1/factors/0", {0, -1.0, 1e9}},
      {MessageKind::kTuningProposal, "/1/channels/0", {-1, 65}},
      {MessageKind::kTuningProposal, "/1/families/0", {-2, 3}},
      {MessageKind::kTuningPromise, "/1/checkpoints/0", {-1, 0.5}},
      {MessageKind::kApply, "/1/kind", {-1, 5, 99}},
      {MessageKind::kApply, "/1/ticket", {0, -1, 1.0, 1e300}},
      {MessageKind::kApply, "/1/takes_part", {false}},
      {MessageKind::kApply, "/1/ranks", {-1, 1 << 21}},
      {MessageKind::kApply, "/1/rank", {-1, 1 << 20, 1, 3}},  // 1 and 3 are excluded
      {MessageKind::kApply, "/1/excluded", {json{3, 1}, json{1, 1}, json{-1}, json{1 << 20}}},
      {MessageKind::kFormed, "/1/communicator", {0}},
      {MessageKind::kFormed, "/1/self", {-1, 2}},
      {MessageKind::kFormed, "/1/home_host", {-2, 2, 1}},  // 1 is the receiver
      {MessageKind::kFormed, "/1/addresses", {json::array(), json{"a"}, json{"a", "b", "c"}}},
      {MessageKind::kFormed, "/1/fabric_hosts", {json{1}, json{1, 1}, json{-1, 0}}},
      {MessageKind::kFormed,
       "/1/host_of_rank",
       {json::array(), json{0, 1, 2}, json{0, 1, -1}, json{0, 1, 1, 1}}},
      {MessageKind::kFormed, "/1/ranks/0/rank", {-1, 3, 0, 2}},  // not there, another host's, twice
      {MessageKind::kFormed, "/1/ranks/0/ticket", {0}},
      {MessageKind::kLeft, "/1/rank", {-1, 1 << 20, int64_t{1} << 32, 1.0, 1e300}},
      {MessageKind::kProgress, "/1/state", {-1, 4}},
      {MessageKind::kProgress,
       "/1/requests/0/collective",
       {-1, 8, 9, 10}},  // 8 and 9: send and receive
      {MessageKind::kProgress, "/1/requests/0/type", {-1, 12}},
      {MessageKind::kProgress, "/1/requests/0/op", {-1, 6}},
      {MessageKind::kProgress, "/1/requests/0/rank", {-1}},
      {MessageKind::kProgress, "/1/requests/0/root", {-2, 1 << 20}},
      {MessageKind::kProgress, "/1/missing/0", {-1}},
      {MessageKind::kLate, "/1/missing/0", {-1}},
      {MessageKind::kAskPlan, "/1/key/collective", {-1, 8, 10}},
      {MessageKind::kAskPlan, "/1/key/size_class", {-1, 12, 1000000}},
      {MessageKind::kAskPlan, "/1/key/root", {-2, 1 << 20}},
      {MessageKind::kPlan, "/1/plan/key/collective", {-1, 10}},
      {MessageKind::kPlan, "/1/plan/key/size_class", {-1, 12}},
      {MessageKind::kPlan, "/1/plan/paths", {-1, 3}},
      {MessageKind::kPlan, "/1/plan/rates/0/edge", {-1, 8, 9}},  // in order, each once
      {MessageKind::kPlan, "/1/plan/rates/0/bytes_per_second", {0, -1}},
      {MessageKind::kPlan, "/1/plan/pieces", {0, -1, 1 << 20}},
      {MessageKind::kPlan, "/1/plan/slice_bytes", {0}},
      {MessageKind::kPlan, "/1/plan/slices_at_once", {0, -1, 1 << 20}},
      // A broadcast, which nobody may round, and a format that there is not.
      {MessageKind::kPlan, "/1/plan/wire", {1, 3, -1}},
      {MessageKind::kPlan, "/1/plan/order/0", {-1}},
      {MessageKind::kPlan, "/1/plan/groups/0/0", {-1}},
      {MessageKind::kOffer, "/1/from", {-1, 1 << 20}},
      {MessageKind::kOffer, "/1/to", {-1, 1 << 20}},
      {MessageKind::kOffer, "/1/type", {-1, 12}},
      {MessageKind::kAnswer, "/1/from", {-1}},
      {MessageKind::kTraffic, "/1/host", {-1, huge}},
      {MessageKind::kTraffic, "/1/flows/0/peer", {-1, huge}},
      {MessageKind::kTraffic, "/1/flows/0/bytes_per_second", {-1}},
      {MessageKind::kTraffic, "/1/flows/0/busy", {-0.1, 1.1}},
      {MessageKind::kTraffic, "/1/nics/0/nic", {-1, huge}},
      {MessageKind::kTraffic, "/1/nics/0/sent", {-1}},
      {MessageKind::kTraffic, "/1/nics/0/received", {-1}},
      {MessageKind::kTraffic, "/1/flows/0/jobs/0/weight", {0, -1, 1e300}},
      {MessageKind::kTraffic, "/1/flows/0/jobs/0/bytes_per_second", {-1}},
      {MessageKind::kTraffic, "/1/rhythms/0/burst_seconds", {-1}},
      {MessageKind::kTraffic, "/1/rhythms/0/pause_seconds", {-1}},
      {MessageKind::kTraffic, "/1/rhythms/0/iteration_seconds", {0, -1}},
      {MessageKind::kTraffic, "/1/rhythms/0/begun_seconds", {-1}},
      {MessageKind::kShares, "/1/waits/0/seconds", {0, -1, 61}},
      {MessageKind::kRequirements, "/1/about", {0}},
      {MessageKind::kRequirements,
       "/1/forgotten_number",
       {-1, kMostStatementNumber + 1, UINT64_MAX}},
      {MessageKind::kRequirements,
       "/1/statements/0/number",
       {-1, 0, kMostStatementNumber + 1, UINT64_MAX}},
      {MessageKind::kLinkRates, "/1/rates/0/edge", {-1}},
      {MessageKind::kLinkRates, "/1/rates/0/bytes_per_second", {0}},
      {MessageKind::kAskLinkProbe, "/1/probe", {0}},
      {MessageKind::kAskLinkProbe, "/1/from", {-1}},
      {MessageKind::kAskLinkProbe, "/1/to", {-1, huge}},
      {MessageKind::kLinkProbe, "/1/probe", {0}},
      {MessageKind::kLinkProbe, "/1/messages", {-1, 0, 1, 1025}},
      {MessageKind::kLinkProbed, "/1/probe", {0}},
      {MessageKind::kLinkProbed, "/1/bytes_per_second", {-1}},
      {MessageKind::kShares, "/1/links/0/edge", {-1}},
      {MessageKind::kShares, "/1/limits/0/peer", {-1, huge}},
      {MessageKind::kShares, "/1/limits/0/bytes_per_second", {0, -1}},
      {MessageKind::kShares, "/1/jobs/0/rates/0/bytes_per_second", {0, -1}},
  };
  const std::vector<ClusterMessage> messages = OneOfEach();
  for (const OutOfRange& one : cases) {
    const auto message =
        std::find_if(messages.begin(), messages.end(),
                     [&](const ClusterMessage& candidate) { return candidate.kind() == one.kind; });
    const json good = DocumentOf(*message);
    ASSERT_TRUE(Decode(good).ok());
    for (const json& value : one.values) {
      json document = good;
      document.at(json::json_pointer(one.path)) = value;
      EXPECT_FALSE(Decode(document).ok()) << "kind " << good[0] << one.path << " = " << value;
    }
  }
  json unknown = DocumentOf(messages[0]);
  unknown[0] = 999;
  EXPECT_EQ(Decode(unknown).status().code(), Code::kInvalidUsage);
  unknown[0] = -1;
  EXPECT_FALSE(Decode(unknown).ok());
  unknown[0] = 1e300;
  EXPECT_FALSE(Decode(unknown).ok());
}

// Texts of a daemon go into logs, documents and tenants' errors.
TEST(ClusterMessages, TextsAreCleaned) {
  const std::string hostile = "\xff\x1b[2J\nrack\xc0\x80";
  const std::string cleaned = CleanText(hostile, 255);
  const auto decoded = [](const ClusterMessage& message) {
    const Result<ClusterMessage> got = DecodeMessage(EncodeMessage(message));
    EXPECT_TRUE(got.ok()) << got.status().message();
    return got.ok() ? *got : message;
  };
  ApplyMessage apply = *OneOfEach()[0].As<ApplyMessage>();
  apply.name = apply.host = apply.address = hostile;
  const ApplyMessage applied = *decoded(apply).As<ApplyMessage>();
  EXPECT_EQ(applied.name, cleaned);
  EXPECT_EQ(applied.host, cleaned);
  EXPECT_EQ(applied.address, cleaned);
  EXPECT_EQ(applied.id, apply.id);
  FormedMessage formed = *OneOfEach()[2].As<FormedMessage>();
  formed.addresses[1] = hostile;
  EXPECT_EQ(decoded(formed).As<FormedMessage>()->addresses[1], cleaned);
  ProbeReadyMessage ready;
  ready.nics.push_back({hostile, "10.0.0.1", 1});
  EXPECT_EQ(decoded(ready).As<ProbeReadyMessage>()->nics[0].device, cleaned);
  EXPECT_EQ(decoded(BrokenMessage{77, true, RemoteError("{}", hostile)})
                .As<BrokenMessage>()
                ->status.message(),
            cleaned);
  // Reasons may be long, names not; a fabric's file stays as it is, or its digest would not fit.
  const std::string longest(9000, 'n');
  apply.name = longest;
  EXPECT_EQ(decoded(apply).As<ApplyMessage>()->name.size(), 255u);
  const BrokenMessage broken =
      *decoded(BrokenMessage{77, true, RemoteError("{}", longest)}).As<BrokenMessage>();
  EXPECT_EQ(broken.status.message().size(), 4096u);
  const std::string file = "# a fabric\n\t[[host]]\n" + longest;
  EXPECT_EQ(decoded(FabricMessage{5, file}).As<FabricMessage>()->text, file);
}

TEST(ClusterMessages, LongReasonsAreCutBetweenCharacters) {
  std::string euros;
  for (int i = 0; i < 2000; ++i) euros += "\xe2\x82\xac";
  const Result<ClusterMessage> decoded =
      DecodeMessage(EncodeMessage(BrokenMessage{1, true, RemoteError("{}", euros)}));
  ASSERT_TRUE(decoded.ok());
  const std::string& why = decoded->As<BrokenMessage>()->status.message();
  EXPECT_LE(why.size(), 4096u);
  EXPECT_EQ(why.substr(why.size() - 6), "\xe2\x82\xac...");
}

TEST(ClusterMessages, CodesOutOfRangeAreErrorsAllTheSame) {
  json document = DocumentOf(BrokenMessage{77, true, InvalidUsage("text")});
  for (const int code : {-1, 99, INT_MAX, INT_MIN}) {
    document[1]["status"]["code"] = code;
    const Result<ClusterMessage> decoded = Decode(document);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->As<BrokenMessage>()->status.code(), Code::kRemoteError);
    EXPECT_EQ(decoded->As<BrokenMessage>()->status.message(), "text");
  }
}

TEST(ClusterMessages, WhatIsWrongIsNamed) {
  json document = DocumentOf(LeftMessage{77, 3, 12});
  document[1].erase("rank");
  EXPECT_EQ(Decode(document).status().message(),
            "malformed cluster message: kind 201, field 'rank' is missing");
  document[1]["rank"] = "text";
  EXPECT_EQ(Decode(document).status().message(),
            "malformed cluster message: kind 201, field 'rank' is wrong");
  document[1]["rank"] = -1;
  EXPECT_EQ(Decode(document).status().message(),
            "malformed cluster message: kind 201, a field is out of range");
}

}  // namespace
}  // namespace harmonaize::daemon
