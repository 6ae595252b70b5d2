// What any user of a host, and any page in its browser, can send to a dashboard.

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/dashboard/relay_request.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

constexpr uint16_t kPort = 4711;

void Run(std::string_view text) {
  const RelayHead head = ReadRelayHead(text);
  if (head.state == RelayHead::State::kMore) {
    Require(text.size() <= kMostRelayHeadBytes, "a head that is too long is not waited for");
  }
  if (head.state != RelayHead::State::kWhole) return;
  const RelayRequest& request = head.request;
  for (const std::string* one : {&request.method, &request.target, &request.host, &request.origin,
                                 &request.bearer, &request.last_event_id}) {
    RequireClean(*one, "a request's texts are clean");
    Require(one->find(' ') == std::string::npos, "and have no spaces");
  }
  const RelayDecision decision = DecideRelay(request, kPort);
  if (decision.action == RelayAction::kRefuse) {
    Require(decision.status >= 400 && !decision.detail.empty(), "a refusal says why");
    return;
  }
  Require(request.host == "127.0.0.1:4711" || request.host == "localhost:4711",
          "requests to other hosts are refused");
  Require(request.origin.empty() || request.origin == "http://" + request.host,
          "requests of other pages are refused");
  if (decision.action != RelayAction::kForward) return;
  Require(request.method == "GET", "a dashboard only reads");
  // The daemon reads one request of what is passed on, and the same one.
  const RelayHead again = ReadRelayHead(ForwardedRequest(request));
  Require(again.state == RelayHead::State::kWhole, "what is passed on is one request");
  Require(again.request.target == request.target && again.request.bearer.empty(),
          "for the same, without the secret");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
