#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/dashboard/dashboard_secrets.h"
#include "cli/dashboard/relay_request.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// The secrets, page and settings that all connections of a relay use. It outlives them.
struct RelayServices {
  uint16_t port = 0;
  std::string page;  ///< The daemon's whole answer to GET /.
  std::function<Result<FileDescriptor>()> connect;
  DashboardSecrets secrets;
};

/// One connection of a browser, which carries one request. Thread: the relay's.
class RelayConnection : public std::enable_shared_from_this<RelayConnection> {
 public:
  RelayConnection(boost::asio::ip::tcp::socket browser, RelayServices* services,
                  std::function<void(RelayConnection*)> on_end);

  void Start();
  /// Ends it; on_end hears of it once.
  void Close() noexcept;
  /// Whether it has shown a session that holds.
  bool is_known() const { return known_; }

 private:
  void Guard(const std::function<void()>& call) noexcept;
  void Expect(std::chrono::milliseconds within);
  void ReadHead();
  void OnHead(const RelayRequest& request);
  void Exchange(const RelayRequest& request);
  void Forward(const RelayRequest& request);
  void Problem(int status, const std::string& detail);
  void Answer(std::string text);
  void Drain();
  void WatchBrowser();
  void PassOn();

  boost::asio::ip::tcp::socket browser_;
  boost::asio::local::stream_protocol::socket daemon_;
  boost::asio::steady_timer deadline_;
  RelayServices* const services_;
  std::function<void(RelayConnection*)> on_end_;
  std::string head_;
  std::string out_;
  std::array<char, 4096> in_;
  std::array<char, 16384> piece_;
  size_t drained_ = 0;
  bool known_ = false;
  bool closed_ = false;
};

}  // namespace harmonaize
