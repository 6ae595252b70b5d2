#include "daemon/cluster/messages/link.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"

namespace harmonaize::daemon {

using fields::AllSound;
using fields::InRange;
using fields::IsAmount;

HARMONAIZE_FIELDS(TrafficJob, user, communicator, weight, bytes_per_second, sent_bytes)
HARMONAIZE_FIELDS(TrafficFlow, peer, rail, bytes_per_second, busy, arrival_queue, astray, jobs)
HARMONAIZE_FIELDS(TrafficNic, nic, sent, received, queued_bytes)
HARMONAIZE_FIELDS(TrafficRhythm, user, communicator, bursts, burst_seconds, pause_seconds,
                  iteration_seconds, begun_seconds)
HARMONAIZE_FIELDS(TrafficTerms, user, communicator, owner, priority, floor, cap, tenant_floor,
                  tenant_cap)
HARMONAIZE_FIELDS(TrafficMessage, fabric, host, flows, nics, homes, rhythms, terms)
HARMONAIZE_FIELDS(RailShare, peer, rail, user, owner, bytes_per_second)
HARMONAIZE_FIELDS(JobRates, communicator, rates)
HARMONAIZE_FIELDS(JobWait, communicator, seconds)
HARMONAIZE_FIELDS(FloorWord, communicator, floor, refused, room, tenant_bound, missed, had)
HARMONAIZE_FIELDS(SharesMessage, fabric, links, limits, jobs, waits, floors)
HARMONAIZE_FIELDS(BurstMessage, fabric, user, communicator, burst, ended)
HARMONAIZE_FIELDS(BurstTurnMessage, fabric, communicator, burst)
HARMONAIZE_FIELDS(AskLinkProbeMessage, fabric, probe, from, to, rail)
HARMONAIZE_FIELDS(LinkProbeMessage, probe, messages)
HARMONAIZE_FIELDS(LinkProbedMessage, probe, bytes_per_second)

namespace {

/// Upper bound of a tenant's weight, its priority included.
constexpr double kMostWeight = 1e15;
/// The most messages that one probe of a link takes.
constexpr int kMostProbeMessages = 1024;
/// End of the priorities of jobs.
constexpr int kPriorities = 4;

}  // namespace

static bool IsWeight(double weight) {
  return weight > 0 && weight < kMostWeight;
}

static bool IsSound(const TrafficJob& job) {
  return IsWeight(job.weight) && IsAmount(job.bytes_per_second);
}

static bool IsSound(const TrafficNic& nic) {
  return InRange(nic.nic, INT_MAX) && IsAmount(nic.sent) && IsAmount(nic.received) &&
         std::isfinite(nic.queued_bytes);
}

static bool IsSound(const TrafficRhythm& rhythm) {
  return IsAmount(rhythm.burst_seconds) && IsAmount(rhythm.pause_seconds) &&
         IsAmount(rhythm.iteration_seconds) && rhythm.iteration_seconds > 0 &&
         IsAmount(rhythm.begun_seconds);
}

static bool IsSound(const TrafficTerms& terms) {
  return InRange(terms.priority, kPriorities) && IsAmount(terms.floor) && IsAmount(terms.cap) &&
         IsAmount(terms.tenant_floor) && IsAmount(terms.tenant_cap);
}

static bool IsSound(const TrafficFlow& flow) {
  return InRange(flow.peer, INT_MAX) && IsAmount(flow.bytes_per_second) && IsAmount(flow.busy) &&
         flow.busy <= 1 && std::isfinite(flow.arrival_queue) && AllSound(flow.jobs);
}

static bool IsSound(const TrafficMessage& traffic) {
  return InRange(traffic.host, INT_MAX) && AllSound(traffic.rhythms) && AllSound(traffic.nics) &&
         AllSound(traffic.flows) && AllSound(traffic.terms);
}

static bool IsSound(const RailShare& share) {
  return InRange(share.peer, INT_MAX) && IsAmount(share.bytes_per_second) &&
         share.bytes_per_second > 0;
}

static bool IsSound(const JobWait& wait) {
  return wait.seconds > 0 && wait.seconds <= JobWait::kLongestSeconds;
}

static bool IsSound(const FloorWord& word) {
  return IsAmount(word.floor) && IsAmount(word.room) && IsAmount(word.had);
}

static bool IsSound(const JobRates& job) {
  return fields::AreSoundRates(job.rates);
}

static bool IsSound(const SharesMessage& shares) {
  return fields::AreSoundRates(shares.links) && AllSound(shares.limits) && AllSound(shares.waits) &&
         AllSound(shares.jobs) && AllSound(shares.floors);
}

static bool IsSound(const AskLinkProbeMessage& question) {
  return question.probe != 0 && InRange(question.from, INT_MAX) && InRange(question.to, INT_MAX);
}

static bool IsSound(const LinkProbeMessage& probe) {
  return probe.probe != 0 && probe.messages >= 2 && probe.messages <= kMostProbeMessages;
}

static bool IsSound(const LinkProbedMessage& probed) {
  return probed.probe != 0 && IsAmount(probed.bytes_per_second);
}

constinit const SubjectCodec kLinkCodec = fields::CodecOf(LinkMessages());

}  // namespace harmonaize::daemon
