#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harmonaize {

/// The longest head of a request that a dashboard reads, in bytes, as the daemon has it.
inline constexpr size_t kMostRelayHeadBytes = size_t{16} << 10;

/// A request of a browser, as far as the dashboard looks at it. All texts are printable ASCII
/// without spaces around them.
struct RelayRequest {
  std::string method = {};
  std::string target = {};
  std::string host = {};
  std::string origin =
      {};  ///< "": none, as browsers have it when they get a page of their own accord.
  std::string bearer = {};  ///< The secret of the header Authorization; "": none.
  std::string last_event_id = {};
  bool wants_stream = false;  ///< Accept names text/event-stream.
  bool has_body = false;
};

/// The head of a request, as far as it has arrived.
struct RelayHead {
  enum class State : uint8_t { kMore, kWhole, kWrong };
  State state = State::kMore;
  RelayRequest request = {};
};

/// Reads a request's head out of what a browser, or a stranger, has sent so far. Headers that come
/// twice, and texts that are not printable, are wrong where the dashboard looks at them.
RelayHead ReadRelayHead(std::string_view bytes);

/// The ways in which a dashboard answers a request.
enum class RelayAction : uint8_t {
  kShowPage,  ///< Answers with the status page, which holds no data.
  kExchange,  ///< Exchanges the bearer's one-time secret for a session.
  kForward,   ///< Passes it on to the daemon, if the bearer's session holds.
  kRefuse,
};

struct RelayDecision {
  RelayAction action = RelayAction::kRefuse;
  int status = 0;           ///< For kRefuse: the status of the answer.
  std::string detail = {};  ///< For kRefuse: the sentence of the answer.
};

/// Decides about a request to a dashboard at this port of the loopback address. It has to name the
/// dashboard as its host (a page elsewhere may have a name that leads to the loopback address), and
/// no other page may have sent it. A dashboard only reads.
RelayDecision DecideRelay(const RelayRequest& request, uint16_t port);

/// Returns the request as it goes to the daemon, which answers and then closes. What the browser
/// said of itself, and its secrets, stay behind.
std::string ForwardedRequest(const RelayRequest& request);

}  // namespace harmonaize
