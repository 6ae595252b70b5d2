#include "daemon/cluster/messages/probe.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"

namespace harmonaize::daemon {

HARMONAIZE_FIELDS(ProbeOpenMessage, probe, token)
HARMONAIZE_FIELDS(ProbeNic, device, address, port)
HARMONAIZE_FIELDS(ProbeReadyMessage, probe, host, nics, status)
HARMONAIZE_FIELDS(ProbeTarget, nic, address, port, token, transfer, connections)
HARMONAIZE_FIELDS(ProbeRoundTripsMessage, probe, step, samples, targets)
HARMONAIZE_FIELDS(ProbeConnectMessage, probe, step, targets)
HARMONAIZE_FIELDS(ProbeRunMessage, probe, step, set, delay, seconds)
HARMONAIZE_FIELDS(ProbeCount, transfer, bytes)
HARMONAIZE_FIELDS(ProbeResultMessage, probe, step, samples, counts, status)
HARMONAIZE_FIELDS(ProbeEndMessage, probe, why)

constinit const SubjectCodec kProbeCodec = fields::CodecOf(ProbeMessages());

}  // namespace harmonaize::daemon
