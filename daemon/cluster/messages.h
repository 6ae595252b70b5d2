#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "daemon/multihost/consent.h"
#include "src/base/status.h"
#include "src/planner/rated_models.h"

namespace harmonaize::daemon {

// What daemons of different hosts say to each other, beside the data: CBOR (RFC 8949) over the
// control link of the transport, which has proved the cluster key. A daemon believes what another
// says about its own ranks, and no message of any shape makes it crash.
//
// A communicator that spans hosts has a *home*, the daemon at which it was formed. All that
// concerns all of its hosts goes through the home: who takes part, how operations are carried out,
// whether the ranks agree, who is late, and how it ends. `communicator` is its key, drawn by its
// home and alike at all hosts; hosts are numbered by the roster that FormedMessage brings.

/// A rank wants to take part in what forms at the home. Answered by FormedMessage or
/// RefusedMessage, sooner or later.
struct ApplyMessage {
  enum Kind : int { kJoin = 0, kSplit, kShrink, kGrow, kJoinGrowth };
  uint64_t ticket = 0;  ///< Stands for the rank between the two daemons.
  int kind = kJoin;
  std::vector<uint8_t> id{};    ///< kJoin, kJoinGrowth: the unique id.
  uint64_t communicator = 0;    ///< kSplit, kShrink, kGrow: the parent.
  uint64_t round = 0;           ///< kSplit: which split of the rank's.
  int ranks = 0;                ///< kJoin, kGrow, kJoinGrowth: of the new communicator.
  int rank = 0;                 ///< In the new one; kSplit, kShrink, kGrow: in the parent.
  bool takes_part = true;       ///< kSplit: has a color.
  int color = 0;                ///< kSplit.
  int key = 0;                  ///< kSplit.
  std::vector<int> excluded{};  ///< kShrink.
  bool abort_parent = false;    ///< kShrink.
  std::string name{};           ///< Of the new communicator; "": the parent's.
  uint32_t user = 0;
  std::string address{};  ///< Where the rank's daemon is reached.
  std::string host{};     ///< Its name in the fabric, where it was told.
};
/// The rank gives up: its place fails what forms.
struct WithdrawMessage {
  uint64_t ticket = 0;
  int code = 0;
  std::string why{};
};

struct TicketedRank {
  uint64_t ticket = 0;
  int rank = 0;
};
struct FormedMessage {
  uint64_t communicator = 0;
  std::string name{};
  std::vector<std::string> addresses{};  ///< By host.
  std::vector<int> fabric_hosts{};       ///< By host: its number in the fabric.
  std::vector<int> host_of_rank{};
  int self = -1;                      ///< The receiver's host.
  int home_host = -1;                 ///< The home's; -1: it has no ranks.
  std::vector<TicketedRank> ranks{};  ///< Of the receiver.
  uint64_t fabric = 0;                ///< FabricDigest; AskFabricMessage gets its text.
};
struct RefusedMessage {
  std::vector<uint64_t> tickets{};
  int code = 0;
  std::string why{};
};
/// For ranks that wait for others: whom they wait for.
struct FormingNoticeMessage {
  std::vector<uint64_t> tickets{};
  std::string notice{};
};

struct AskGrowIdMessage {
  uint64_t ticket = 0;
  uint64_t communicator = 0;
  uint32_t user = 0;
};
struct GrowIdMessage {
  uint64_t ticket = 0;
  std::vector<uint8_t> id{};
  int code = 0;
  std::string why{};
};

struct AskFabricMessage {
  uint64_t fabric = 0;
};
struct FabricMessage {
  uint64_t fabric = 0;
  std::string text{};
};

// To the home, which passes them on to all hosts.

/// The communicator ends, or is revoked, for this reason.
struct BrokenMessage {
  uint64_t communicator = 0;
  bool revoked = false;
  int code = 0;
  std::string why{};
};
/// A rank has left after so many collectives.
struct LeftMessage {
  uint64_t communicator = 0;
  int rank = 0;
  uint64_t sequence = 0;
};

/// What a rank asked for.
struct RankRequest {
  int rank = 0;
  int collective = 0;
  uint64_t count = 0;
  int type = 0;
  int op = 0;
  int root = -1;
};
/// Where a host stands with a collective. Sent when it takes long, when it went wrong, and when the
/// home asks; never on the way of an operation that goes well.
struct ProgressMessage {
  enum State : int { kWaiting = 0, kRunning, kFailed, kDone };
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  int state = kWaiting;
  std::vector<RankRequest> requests{};  ///< One for the host where its ranks agree.
  std::vector<int> missing{};           ///< Ranks of the host that have not come.
  std::vector<int> queued{};  ///< Ranks that have called; their streams have earlier operations.
  int code = 0;
  std::string why{};  ///< kFailed.
};
struct AskProgressMessage {
  uint64_t communicator = 0;
  uint64_t sequence = 0;
};
/// The home's word: this collective fails at all hosts.
struct VerdictMessage {
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  int code = 0;
  std::string why{};
};
/// For the log and for ranks that wait. To the home, of ranks of this host that do not get on with
/// an operation that has begun; and from the home to all.
struct LateMessage {
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  std::string notice{};
  std::vector<int> missing{};
};

/// To the home: all ranks of this host are at these collectives, of which this host's part may be
/// done before others have begun theirs, see Consent.
struct BegunMessage {
  uint64_t communicator = 0;
  std::vector<BegunCollective> begun{};
  bool asks = false;  ///< To be told as soon as all have begun the last of them.
};
/// From the home: all hosts have begun the same, up to this one.
struct AgreedMessage {
  uint64_t communicator = 0;
  uint64_t sequence = 0;
};

/// What a plan is about: collective, root (-1: none), size class.
using PlanKey = std::tuple<int, int, int>;
/// How is this carried out? Asked of the home when first needed.
struct AskPlanMessage {
  uint64_t communicator = 0;
  int collective = 0;
  int root = -1;
  int size_class = 0;
};
struct PlanMessage {
  uint64_t communicator = 0;
  int collective = 0;
  int root = -1;
  int size_class = 0;
  std::string algorithm{};
  std::vector<int> order{};  ///< Hosts of the fabric.
  std::string order_name{};
  std::vector<std::vector<int>> groups{};
  std::string groups_name{};
  int pieces = 1;
  uint64_t slice_bytes = 1;  ///< Of a block, so much is on its way as one message, ...
  int slices_at_once = 1;    ///< ... and so many of these at a time.
  int paths = 0;             ///< PathUse.
  EdgeRates rates{};         ///< Of the fabric that it is made for, where not as the file states.
  double predicted_seconds = 0;
  double bound_seconds = 0;
  std::string why{};  ///< Not "": there is none.
};

inline PlanKey KeyOf(const AskPlanMessage& question) {
  return {question.collective, question.root, question.size_class};
}
inline PlanKey KeyOf(const PlanMessage& plan) {
  return {plan.collective, plan.root, plan.size_class};
}

/// From the home: make the plans of `next` ready, to be used instead of those of `current` from
/// some collective on; see plan_switch.h. Each of `next` is about what that of `current` in its
/// place is about. Answered by PromiseMessage.
struct ProposeMessage {
  uint64_t communicator = 0;
  uint64_t round = 0;
  std::vector<PlanMessage> current{};
  std::vector<PlanMessage> next{};
};
/// None that the proposal would change begins here from that collective on before SettleMessage.
/// With a reason: it cannot be done here.
struct PromiseMessage {
  uint64_t communicator = 0;
  uint64_t round = 0;
  uint64_t from = 0;
  int code = 0;
  std::string why{};
};
/// The home's word on a proposal: from that collective on; or not at all.
struct SettleMessage {
  uint64_t communicator = 0;
  uint64_t round = 0;
  bool commit = false;
  uint64_t from = 0;
};

// What links carry, see control_loop.h.

/// What a tenant's communicator has sent over one rail lately.
struct TrafficJob {
  uint32_t user = 0;
  uint64_t communicator = 0;
  double weight = 1;  ///< The tenant's.
  double bytes_per_second = 0;
  uint64_t sent_bytes = 0;  ///< In all; now and then counted anew.
};
/// What a host has sent to another over one rail lately, and how what came from there fared.
struct TrafficFlow {
  int peer = 0;  ///< A host of the fabric.
  uint64_t rail = 0;
  double bytes_per_second = 0;  ///< Sent.
  double busy = 0;              ///< Part of the time in which there was something to send.
  double arrival_queue = -1;    ///< Of what came, seconds in queues; < 0: not known.
  bool astray = false;          ///< It went another way than the rail's own, if any.
  std::vector<TrafficJob> jobs{};
};
/// What a NIC of the host carries, whoever's it is.
struct TrafficNic {
  int nic = 0;      ///< Of the host in the fabric.
  double sent = 0;  ///< Bytes a second.
  double received = 0;
  double queued_bytes = -1;  ///< That waited to be sent; < 0: not known.
};
/// A communicator that computes and sends by turns, as the host of its rank 0 sees it; see
/// Rhythm::Beat.
struct TrafficRhythm {
  uint32_t user = 0;
  uint64_t communicator = 0;
  uint64_t bursts = 0;
  double burst_seconds = 0;
  double pause_seconds = 0;
  double iteration_seconds = 0;
  double begun_seconds = 0;
};
/// To the homes of the communicators that were active here, and to the controller: all that this
/// host has sent and got.
struct TrafficMessage {
  uint64_t fabric = 0;
  int host = 0;  ///< The sender, in the fabric.
  std::vector<TrafficFlow> flows{};
  std::vector<TrafficNic> nics{};
  std::vector<uint64_t>
      homes{};  ///< Communicators that were active, of which the sender is the home.
  std::vector<TrafficRhythm> rhythms{};
};
/// What a tenant may send over one rail of the receiver, while others need its links.
struct RailShare {
  int peer = 0;  ///< A host of the fabric.
  uint64_t rail = 0;
  uint32_t user = 0;
  double bytes_per_second = 0;  ///< Above 0.
};
/// What a communicator can have of these edges, beside what others send over them.
struct JobRates {
  uint64_t communicator = 0;
  EdgeRates rates{};
};
/// A communicator whose bursts collide with others': each waits for its turn, but no longer.
struct JobWait {
  static constexpr double kLongestSeconds = 60;

  uint64_t communicator = 0;
  double seconds = 0;  ///< Above 0, and kLongestSeconds at most.
};
/// From the controller, to who tells it of traffic: again and again, though nothing has changed.
struct SharesMessage {
  uint64_t fabric = 0;
  EdgeRates links{};                ///< What edges carry now, where not as the fabric states.
  std::vector<RailShare> limits{};  ///< All others may send what they can.
  std::vector<JobRates> jobs{};     ///< Of which the receiver is the home.
  std::vector<JobWait> waits{};     ///< Of those whose rhythm the receiver has told.
};
/// From who has a JobWait for a communicator, to the controller: a burst of it is ready to begin,
/// or that one has ended.
struct BurstMessage {
  uint64_t fabric = 0;
  uint32_t user = 0;
  uint64_t communicator = 0;
  uint64_t burst = 0;  ///< Its number.
  bool ended = false;
};
/// The controller's answer: it may begin.
struct BurstTurnMessage {
  uint64_t fabric = 0;
  uint64_t communicator = 0;
  uint64_t burst = 0;
};
/// From the home: what links carry now, for dealing messages out.
struct LinkRatesMessage {
  uint64_t communicator = 0;
  EdgeRates rates{};
};
/// From a home to the host `from`: see what one of your rails carries now.
struct AskLinkProbeMessage {
  uint64_t fabric = 0;
  uint64_t probe = 0;  ///< Drawn by the home; not 0.
  int from = 0;        ///< Hosts of the fabric.
  int to = 0;
  uint64_t rail = 0;
};
/// To the host that gets the data, so many messages: it is to tell how fast they came.
struct LinkProbeMessage {
  uint64_t probe = 0;
  int messages = 0;
};
/// What came, back to the host that sent it, and from there to the home.
struct LinkProbedMessage {
  uint64_t probe = 0;
  double bytes_per_second = 0;
};

// Between the hosts of a sender and a receiver.

/// The n-th send of a pair of ranks is on its way. With a reason: it will not come after all.
struct OfferMessage {
  uint64_t communicator = 0;
  int from = 0;
  int to = 0;
  uint64_t number = 0;
  uint64_t count = 0;
  int type = 0;
  int code = 0;
  std::string why{};
};
/// The receive for it is there. With a reason: it is not, or does not fit.
struct AnswerMessage {
  uint64_t communicator = 0;
  int from = 0;
  int to = 0;
  uint64_t number = 0;
  int code = 0;
  std::string why{};
};
/// No more is begun from here: what the receiver was sent beyond these is for nobody.
struct ClosedMessage {
  uint64_t communicator = 0;
  uint64_t collectives = 0;
};

// A probe: one daemon, the coordinator, has others measure the network among themselves.
// `probe` is its number, drawn by the coordinator.

/// Take part: listen at your NICs' addresses until ProbeEndMessage. Who connects there has to show
/// the token. Answered by ProbeReadyMessage.
struct ProbeOpenMessage {
  uint64_t probe = 0;
  std::vector<uint8_t> token{};
};
struct ProbeNic {
  std::string device{};
  std::string address{};  ///< IPv4.
  int port = 0;           ///< Listened at.
};
struct ProbeReadyMessage {
  uint64_t probe = 0;
  std::string host{};
  std::vector<ProbeNic> nics{};
  int code = 0;
  std::string why{};
};
/// Where to connect to, and from where.
struct ProbeTarget {
  int nic = 0;  ///< The receiver's own.
  std::string address{};
  int port = 0;
  std::vector<uint8_t> token{};
  int transfer = 0;  ///< Its number in the set; round trips have none.
  int connections = 1;
};
/// Measure round trips to these, one after the other. Answered by ProbeResultMessage with samples.
struct ProbeRoundTripsMessage {
  uint64_t probe = 0;
  uint64_t step = 0;  ///< Each of the coordinator's questions has another.
  int samples = 0;
  std::vector<ProbeTarget> targets{};
};
/// Bring these connections about. Answered by ProbeResultMessage.
struct ProbeConnectMessage {
  uint64_t probe = 0;
  uint64_t step = 0;
  std::vector<ProbeTarget> targets{};
};
/// Send over the connections that you brought about at step `set`, and receive over those that
/// others brought about to you at it, both from `delay` seconds on and for `seconds`. Then all of
/// them are closed. Answered by ProbeResultMessage with counts.
struct ProbeRunMessage {
  uint64_t probe = 0;
  uint64_t step = 0;
  uint64_t set = 0;
  double delay = 0;
  double seconds = 0;
};
struct ProbeCount {
  int transfer = 0;
  int64_t bytes = 0;  ///< That arrived in the second half of the time.
};
struct ProbeResultMessage {
  uint64_t probe = 0;
  uint64_t step = 0;
  std::vector<std::vector<double>> samples{};  ///< By target, in seconds; none: not reachable.
  std::vector<ProbeCount> counts{};
  int code = 0;
  std::string why{};
};
/// From the coordinator: it is over. From another: I take part no more.
struct ProbeEndMessage {
  uint64_t probe = 0;
  std::string why{};
};

using ClusterMessage =
    std::variant<ApplyMessage, WithdrawMessage, FormedMessage, RefusedMessage, FormingNoticeMessage,
                 AskGrowIdMessage, GrowIdMessage, AskFabricMessage, FabricMessage, BrokenMessage,
                 LeftMessage, ProgressMessage, AskProgressMessage, VerdictMessage, LateMessage,
                 AskPlanMessage, PlanMessage, OfferMessage, AnswerMessage, ClosedMessage,
                 BegunMessage, AgreedMessage, ProposeMessage, PromiseMessage, SettleMessage,
                 ProbeOpenMessage, ProbeReadyMessage, ProbeRoundTripsMessage, ProbeConnectMessage,
                 ProbeRunMessage, ProbeResultMessage, ProbeEndMessage, TrafficMessage,
                 LinkRatesMessage, AskLinkProbeMessage, LinkProbeMessage, LinkProbedMessage,
                 SharesMessage, BurstMessage, BurstTurnMessage>;

/// Texts for people are cut where they are longer than a screen.
std::vector<std::byte> EncodeMessage(const ClusterMessage& message);
/// What comes is a message in which every enumeration has one of its values, every number that
/// counts or names something can be one, and lists fit each other. Whether there is such a rank,
/// host or communicator is for the receiver to see. Errors: kRemoteError for anything else.
Result<ClusterMessage> DecodeMessage(std::span<const std::byte> bytes);

/// What a message carries as `code` and `why`; ok for 0.
Status StatusOf(int code, const std::string& why);

}  // namespace harmonaize::daemon
