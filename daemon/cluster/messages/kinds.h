#pragma once

#include <cstdint>

namespace harmonaize::daemon {

/// The kind of a message between daemons, as it is sent. Kinds are only added, and FirstVersionOf
/// tells since when: a number keeps its meaning in all versions of the protocol
/// (transport::kProtocolVersion), and the number of a kind that is no longer sent is not given to
/// another.
enum class MessageKind : uint16_t {
  // messages/formation.h
  kApply = 100,
  kWithdraw = 101,
  kFormed = 102,
  kRefused = 103,
  kFormingNotice = 104,
  kAskGrowId = 105,
  kGrowId = 106,

  // messages/outcome.h
  kBroken = 200,
  kLeft = 201,
  kProgress = 202,
  kAskProgress = 203,
  kVerdict = 204,
  kLate = 205,
  kBegun = 206,
  kAgreed = 207,
  kClosed = 208,
  kAskLost = 209,
  kLost = 210,

  // messages/planning.h
  kAskPlan = 300,
  kPlan = 301,
  kPropose = 302,
  kPromise = 303,
  kSettle = 304,
  kLinkRates = 305,
  kAskFabric = 306,
  kFabric = 307,

  // messages/pair.h
  kOffer = 400,
  kAnswer = 401,
  kPipesOpened = 402,
  kPipesClosed = 403,

  // messages/link.h
  kTraffic = 500,
  kShares = 501,
  kBurst = 502,
  kBurstTurn = 503,
  kAskLinkProbe = 504,
  kLinkProbe = 505,
  kLinkProbed = 506,

  // messages/probe.h
  kProbeOpen = 600,
  kProbeReady = 601,
  kProbeRoundTrips = 602,
  kProbeConnect = 603,
  kProbeRun = 604,
  kProbeResult = 605,
  kProbeEnd = 606,

  // messages/event.h
  kEvent = 700,
  kRequirements = 701,
  kRequirementsDigest = 702,
  kAskRequirements = 703,
  kJobOffer = 704,
  kOfferAnswer = 705,

  // messages/diagnosis.h
  kAskStanding = 800,
  kStanding = 801,
  kHang = 802,

  // messages/ticket.h
  kAskTickets = 900,
  kTickets = 901,
  kCome = 902,
  kPlace = 903,
  kGone = 904,
  kBurnTickets = 905,

  // messages/agent.h
  kAttach = 1000,
  kAgent = 1001,
  kTie = 1002,

  // messages/sizing.h
  kHostSizes = 1100,
  kSizeOffer = 1101,

  // messages/checkpoint.h
  kPartSaved = 1200,
  kRoundComplete = 1201,
  kChoice = 1202,
  kAskSaves = 1203,
  kSaves = 1204,
  kAskPart = 1205,
  kPartAt = 1206,
  kKeepPart = 1207,
  kPartKept = 1208,
  kPartStored = 1209,

  // messages/door.h
  kKnock = 1300,
  kKnockRefused = 1301,

  // messages/tuning.h
  kTunedRanks = 1400,
  kTuningProposal = 1401,
  kTuningPromise = 1402,
  kTuningSettle = 1403,
};

/// Returns the first version of the protocol between daemons that has the kind.
uint32_t FirstVersionOf(MessageKind kind);

}  // namespace harmonaize::daemon
