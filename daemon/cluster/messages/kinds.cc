#include "daemon/cluster/messages/kinds.h"

#include "src/transport/link/handshake.h"

namespace harmonaize::daemon {

uint32_t FirstVersionOf(MessageKind kind) {
  switch (kind) {
    case MessageKind::kAskLost:
    case MessageKind::kLost:
    case MessageKind::kJobOffer:
    case MessageKind::kOfferAnswer:
    case MessageKind::kAskTickets:
    case MessageKind::kTickets:
    case MessageKind::kCome:
    case MessageKind::kPlace:
    case MessageKind::kGone:
    case MessageKind::kBurnTickets:
    case MessageKind::kAttach:
    case MessageKind::kAgent:
    case MessageKind::kTie:
    case MessageKind::kHostSizes:
    case MessageKind::kSizeOffer: return 7;
    case MessageKind::kPartSaved:
    case MessageKind::kPartStored:
    case MessageKind::kRoundComplete:
    case MessageKind::kChoice:
    case MessageKind::kAskSaves:
    case MessageKind::kSaves:
    case MessageKind::kAskPart:
    case MessageKind::kPartAt:
    case MessageKind::kKeepPart:
    case MessageKind::kPartKept: return 8;
    case MessageKind::kPipesOpened:
    case MessageKind::kPipesClosed:
    case MessageKind::kKnock:
    case MessageKind::kKnockRefused:
    case MessageKind::kTunedRanks:
    case MessageKind::kTuningProposal:
    case MessageKind::kTuningPromise:
    case MessageKind::kTuningSettle: return 9;
    default: return transport::kOldestProtocolVersion;
  }
}

}  // namespace harmonaize::daemon
