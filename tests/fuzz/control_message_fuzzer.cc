// Messages of the control socket, as the daemon gets them from tenants and tenants from the daemon.

#include <cstdint>
#include <vector>

#include "src/ipc/messages.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

template <typename Body>
void RequireCleanNames(const Body& body) {
  if constexpr (requires { body.name; }) RequireClean(CleanFieldText(body.name), "a clean name");
  if constexpr (requires { body.program; }) {
    RequireClean(CleanFieldText(body.program), "a clean program");
  }
  if constexpr (requires { body.communicator[0]; }) {
    RequireClean(CleanFieldText(body.communicator), "a clean communicator");
  }
}

/// The bytes as this body, if they can be; what was decoded is the same when it was encoded.
template <typename Body>
void DecodeAs(const MessageHeader& header, std::span<const std::byte> bytes) {
  const Result<Body> body = DecodeBody<Body>(header, bytes);
  if (!body.ok()) return;
  RequireCleanNames(*body);
  const std::vector<std::byte> again = Encode(header, *body, bytes.last(header.tail_bytes));
  Require(again.size() == bytes.size() &&
              std::memcmp(again.data() + sizeof header, bytes.data() + sizeof header,
                          bytes.size() - sizeof header) == 0,
          "a body is the same when it is encoded again");
}

template <typename... Bodies>
void DecodeAsEach(const MessageHeader& header, std::span<const std::byte> bytes) {
  (DecodeAs<Bodies>(header, bytes), ...);
}

void Run(std::span<const std::byte> bytes) {
  const Result<MessageHeader> header = DecodeHeader(bytes);
  if (!header.ok()) return;
  DecodeAsEach<HelloRequest, HelloReply, CreateIdRequest, CreateIdReply, JoinRequest, MemberReply,
               SplitRequest, ShrinkRequest, CreateGrowIdRequest, GrowRequest, LeaveRequest,
               AbortRequest, RevokeRequest, EmptyReply, RegisterRegionRequest, RegisterRegionReply,
               UnregisterRegionRequest, OpenStreamRequest, OpenStreamReply, CloseStreamRequest,
               EstimateRequest, EstimateReply, AttachInlineRequest, AttachInlineReply,
               OfferRegionRequest, OfferRegionReply, MapPeerRegionRequest, MapPeerRegionReply,
               StatusRequest, ExplainRequest, DocumentReply, DocumentRequest, ProbeRequest,
               ProbeReply, MakeTicketRequest, MakeTicketReply, BurnTicketsRequest, NewcomersRequest,
               NewcomersReply, AdmitRequest, AdmitReply, JoinJobRequest, JoinJobReply,
               LostRanksRequest, LostRanksReply, OpenDoorRequest, OpenDoorReply, KnockRequest,
               TakeKnockRequest, ClosePipeRequest, NcclSettingsRequest, NcclSettingsReply,
               OpenProfileRequest, OpenProfileReply, OpenTuningRequest, OpenTuningReply,
               CloseTuningRequest, CloseTuningReply>(*header, bytes);
  const Result<std::vector<int32_t>> numbers = DecodeNumbers(*header, bytes);
  Require(!numbers.ok() || numbers->size() * sizeof(int32_t) == header->tail_bytes,
          "the numbers are the tail");
  const Status failure = DecodeFailure(*header, bytes);
  Require(failure.ok() == (header->code == 0), "a code makes a failure");
  Require(failure.message().size() <= header->tail_bytes, "a failure's text is the tail");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(std::as_bytes(std::span(data, size)));
  return 0;
}
