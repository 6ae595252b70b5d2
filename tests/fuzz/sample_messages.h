#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/messages/subjects.h"
#include "daemon/offers/offer_record.h"
#include "daemon/probing/probe_hello.h"
#include "src/ipc/unique_id.h"
#include "src/planner/tuning_advice.h"

namespace harmonaize::fuzz {

using namespace daemon;

/// Calls `call` with the structure of a message.
template <typename Call>
void VisitStructure(const ClusterMessage& message, const Call& call) {
  ForEachMessage([&](const auto& empty) {
    const auto* const structure = message.As<std::remove_cvref_t<decltype(empty)>>();
    if (structure != nullptr) call(*structure);
  });
}
/// Calls `call` with the structure of a message, which it may change.
template <typename Call>
void Change(ClusterMessage* message, const Call& call) {
  const ClusterMessage before = *message;
  VisitStructure(before, [&](auto structure) {
    call(structure);
    *message = ClusterMessage(std::move(structure));
  });
}

// Make from each kind of message between daemons one that can be decoded, with one or two entries
// in its lists. Other fields keep their defaults.

inline void Fill(ApplyMessage& apply) {
  const UniqueId id = MakeNamedId("one");
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&id, 1));
  for (const std::byte byte : bytes) apply.id.push_back(static_cast<uint8_t>(byte));
  apply.ticket = 1;
  apply.ranks = 2;
  apply.rank = 1;
  apply.excluded = {0};
  apply.user = 1000;
  apply.address = "127.0.0.2:1";
}

inline void Fill(FormedMessage& formed) {
  formed.communicator = 1;
  formed.job.assign(16, 7);
  formed.addresses = {"127.0.0.1:1", "127.0.0.1:2"};
  formed.fabric_hosts = {0, 1};
  formed.host_of_rank = {0, 1};
  formed.self = 1;
  formed.home_host = 0;
  formed.ranks = {{1, 1}};
}

inline void Fill(AskLostMessage& ask) {
  ask.call = 1;
  ask.about = 1;
  ask.left = {1};
}

inline void Fill(LostMessage& lost) {
  lost.call = 1;
  lost.known = true;
  lost.count = 2;
  lost.ranks = {0, 1};
}

inline void Fill(AskTicketsMessage& ask) {
  ask.call = 1;
  ask.about = 1;
  ask.user = 1000;
  ask.act = TicketAct::kMake;
  ask.digest.assign(kTicketDigestBytes, 7);
  ask.uses = 2;
  ask.seconds = 60;
}

inline void Fill(TicketsMessage& answer) {
  answer.call = 1;
  answer.tickets = {{"0707070707070707", 2, 1.5e9, 1.6e9}};
  answer.waiting = 1;
  answer.ranks = 3;
}

inline void Fill(ComeMessage& come) {
  come.call = 1;
  come.digest.assign(kTicketDigestBytes, 7);
  come.job.assign(16, 7);
  come.user = 1000;
}

inline void Fill(PlaceMessage& place) {
  const UniqueId id = MakeNamedId("one");
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&id, 1));
  for (const std::byte byte : bytes) place.id.push_back(static_cast<uint8_t>(byte));
  place.call = 1;
  place.ranks = 3;
  place.rank = 2;
}

inline void Fill(GoneMessage& gone) {
  gone.call = 1;
}

inline void Fill(AttachMessage& attach) {
  attach.agent = {5, "127.0.0.1:4000", 3};
  attach.digest.assign(kTicketDigestBytes, 7);
  attach.job.assign(16, 1);
}

inline void Fill(AgentMessage& message) {
  message.about = 1;
  message.unique = 2;
  message.agent = {5, "127.0.0.1:4000", 3};
}

inline void Fill(TieMessage& tie) {
  tie.number = 5;
  tie.job.assign(16, 1);
  tie.ranks = 4;
}

inline void Fill(HostSizesMessage& sizes) {
  sizes.places = 8;
  sizes.free = 2;
  JobSizeView& job = sizes.jobs.emplace_back();
  job.job.assign(16, 1);
  job.group = 3;
  job.ranks_here = 2;
  job.ranks = 4;
  job.seen = {{4, 64, 0.5, 0.1}};
}

inline void Fill(SizeOfferMessage& offer) {
  offer.job.assign(16, 1);
  offer.grows = true;
  offer.ranks = 2;
}

inline void Fill(PartSavedMessage& part) {
  part.about = 1;
  part.round = 1;
}

inline void Fill(PartStoredMessage& stored) {
  stored.about = 1;
  stored.round = 1;
}

inline void Fill(RoundCompleteMessage& message) {
  message.about = 1;
  message.round = 1;
}

inline void Fill(AskSavesMessage& ask) {
  ask.call = 1;
  ask.job.assign(16, 1);
}

inline void Fill(SavesMessage& answer) {
  answer.call = 1;
  answer.saves = {{.save = 5, .step = 7, .ranks = 2, .parts = {0, 1}}};
}

inline void Fill(AskPartMessage& ask) {
  ask.call = 1;
  ask.job.assign(16, 1);
}

inline void Fill(PartAtMessage& answer) {
  answer.call = 1;
  answer.address = "10.0.0.1:7400";
  answer.ticket.assign(kTransferTicketBytes, 3);
}

inline void Fill(KeepPartMessage& keep) {
  keep.about = 1;
  keep.job.assign(16, 1);
  keep.round = 1;
}

inline void Fill(PartKeptMessage& kept) {
  kept.about = 1;
  kept.round = 1;
}

inline void Fill(ChoiceMessage& message) {
  message.about = 1;
  message.number = 1;
  message.choice = {'a'};
}

inline void Fill(KnockMessage& knock) {
  knock.door.assign(sizeof(UniqueId::token), 1);
  knock.id.assign(sizeof(UniqueId), 2);
}

inline void Fill(KnockRefusedMessage& refused) {
  refused.id.assign(sizeof(UniqueId), 2);
  refused.status = RemoteError("nobody listens");
}

inline void Fill(TunedRanksMessage& ranks) {
  ranks.ranks = 8;
  ranks.here = 2;
}

inline void Fill(TuningProposalMessage& proposal) {
  const TuningAdvice advice = NoTuningAdvice();
  proposal.factors = advice.factors;
  proposal.channels = advice.channels;
  proposal.families = advice.families;
}

inline void Fill(TuningPromiseMessage& promise) {
  promise.checkpoints = {uint64_t{1} << 32 | 7};
}

inline void Fill(EventMessage& event) {
  event.about = 1;
  event.unique = 2;
  event.type = "rank.lost";
  event.subject = "ranks/1";
  event.severity = 17;
  event.data = R"({"text":"why","ranks":[1],"communicator":"a","why":"unknown"})";
}

inline void Fill(RequirementsMessage& message) {
  message.about = 1;
  const std::string document = "elastic.least_ranks = 2\n";
  message.statements = {{4, 8, {document.begin(), document.end()}}};
}

inline void Fill(RequirementsDigestMessage& message) {
  message.about = 1;
}

inline void Fill(AskRequirementsMessage& message) {
  message.about = 1;
}

inline void Fill(JobOfferMessage& message) {
  message.about = 1;
  message.unique = 2;
  const std::string offer = OfferText({.id = "offer-0123456789abcdef"});
  message.offer.assign(offer.begin(), offer.end());
  message.answer = 3;
}

inline void Fill(OfferAnswerMessage& message) {
  message.about = 1;
  message.unique = 3;
  message.sending = 4;
  message.id = "offer-0123456789abcdef";
  const std::string answer = AnswerText({.unique = 3});
  message.answer.assign(answer.begin(), answer.end());
}

inline void Fill(CollectivePlan& plan) {
  plan.algorithm = "ring";
  plan.order = {0, 1};
  plan.groups = {{0}, {1}};
  plan.wire = WireFormat::kBf16;
  plan.rates = {{0, 1e9}};
}

inline void Fill(PlanMessage& message) {
  message.communicator = 1;
  Fill(message.plan);
}

inline void Fill(ProposeMessage& proposal) {
  Fill(proposal.current.emplace_back());
  Fill(proposal.next.emplace_back());
}

inline void Fill(ProgressMessage& progress) {
  progress.communicator = 1;
  progress.requests = {{}};
  progress.missing = {1};
  progress.queued = {2};
}

inline void Fill(TrafficMessage& traffic) {
  traffic.flows.push_back({.peer = 1, .jobs = {{}}});
  traffic.nics = {{}};
  traffic.homes = {1};
  traffic.rhythms.push_back({.iteration_seconds = 0.5});
  traffic.terms.push_back({.owner = 1,
                           .priority = 1,
                           .floor = 1e6,
                           .cap = 1e9,
                           .tenant_floor = 2e6,
                           .tenant_cap = 2e9});
}

inline void Fill(SharesMessage& shares) {
  shares.links = {{0, 1e9}};
  shares.limits.push_back({.bytes_per_second = 1});
  shares.jobs.push_back({1, {{0, 1e9}}});
  shares.waits.push_back({1, 0.5});
  shares.floors.push_back({.communicator = 1, .floor = 1e6, .refused = true, .room = 1e6});
}

inline void Fill(FabricMessage& fabric) {
  fabric.text =
      "[[host]]\nname = [\"a\", \"b\"]\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1Gbit\"\n";
}

inline void Fill(StandingMessage& standing) {
  standing.about = 1;
  standing.waits = true;
  standing.senders = {0};
  standing.ranks.push_back({.rank = 1, .behind = {{.rank = 2}}});
}

inline void Fill(HangMessage& hang) {
  hang.about = 1;
  hang.hang = HangClass::kNotCalled;
  hang.roots = {{.rank = 1}};
  hang.waits_for = {1};
}

inline void Fill(ProbeOpenMessage& open) {
  open.token.assign(sizeof(ProbeToken), 7);
}

template <typename Message>
inline void Fill(Message& message) {
  if constexpr (requires { message.ticket; }) message.ticket = 1;
  if constexpr (requires { message.communicator; }) message.communicator = 1;
  if constexpr (requires { message.probe; }) message.probe = 1;
  if constexpr (requires { message.messages; }) message.messages = 2;
  if constexpr (requires { message.tickets; }) message.tickets = {1};
  if constexpr (requires { message.why; }) message.why = "why";
  if constexpr (requires { message.status; }) message.status = RemoteError("why");
  if constexpr (requires { message.targets; }) message.targets = {{.address = "127.0.0.1"}};
  if constexpr (requires { message.nics; }) message.nics = {{"eth0", "127.0.0.1", 1}};
  if constexpr (requires { message.samples; }) {
    if constexpr (requires { message.counts; }) message.samples = {{0.5}};
  }
  if constexpr (requires { message.begun; }) message.begun = {{1, 2}};
}

}  // namespace harmonaize::fuzz
