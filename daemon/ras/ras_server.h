#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/access/engine_gate.h"
#include "daemon/config/config.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/ras/ras_caller.h"
#include "daemon/ras/ras_connection.h"
#include "daemon/runtime/port_wait.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/listening_sockets.h"

namespace harmonaize::daemon {

/// Answers NCCL's RAS clients over loopback (docs/nccl-ras.md), on a thread of its own that serves
/// all of them: TCP carries no descriptors, so no client can make the thread wait. It takes a
/// quarter of a processor at most. A port that is taken does not end the daemon. Thread: main.
class RasServer {
 public:
  /// Most connections of all users, and of one.
  static constexpr size_t kMostConnections = 256;
  static constexpr int kMostOfUser = 16;

  /// Requires: `bus` and `loop` outlive the server, and the engine ends before it. Errors name what
  /// is wrong in the configuration.
  static Result<std::unique_ptr<RasServer>> Start(
      const Config& config, std::shared_ptr<EngineGate> gate, EventBus* bus,
      std::shared_ptr<Accounts> accounts, std::shared_ptr<transport::ListeningSockets> listening,
      EventLoop* loop, const RasLimits& limits = {});
  /// Does what Close does.
  ~RasServer();
  RasServer(const RasServer&) = delete;
  RasServer& operator=(const RasServer&) = delete;

  /// Closes all connections and ends the thread.
  void Close();

 private:
  RasServer(const Config& config, std::shared_ptr<EngineGate> gate, EventBus* bus,
            std::shared_ptr<Accounts> accounts,
            std::shared_ptr<transport::ListeningSockets> listening, EventLoop* loop,
            RasCallers callers, const RasLimits& limits);

  Status Listen();
  // Thread: its own.
  void Run();
  void Await();
  void AcceptSome();
  bool AcceptOne();
  Status Admit(FileDescriptor* socket, const transport::NetworkAddress& peer);
  void CloseAll();

  const transport::NetworkAddress address_;
  const std::shared_ptr<Accounts> accounts_;
  const std::shared_ptr<transport::ListeningSockets> listening_;
  JobSnapshots reports_;
  const std::shared_ptr<RasServices> services_ = std::make_shared<RasServices>();
  PortWait port_;
  std::thread thread_;

  // Thread: its own.
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  RasCallers callers_;
  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer rest_;  // when descriptors have run out
  std::map<uint64_t, std::shared_ptr<RasConnection>> connections_;
  std::map<uint32_t, int> of_user_;  // connections by TenantIdentity::number
  uint64_t next_number_ = 1;
};

}  // namespace harmonaize::daemon
