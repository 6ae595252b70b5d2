#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/access/engine_gate.h"
#include "daemon/access/refused_connections.h"
#include "daemon/config/config.h"
#include "daemon/config/nccl_config.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/quota/holdings.h"
#include "daemon/runtime/event_loop.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class Connection;
class Reception;
struct AdoptedConnection;

/// The daemon's front door: accepts connections, finds out whose they are, and hands each to its
/// tenant's Reception. It touches nothing that a tenant has sent, so no tenant can make it stand
/// still. Thread: main, except for Stop.
class Server {
 public:
  /// Opens the sockets; connections wait there until Run. Errors name the daemon or the path that
  /// is in the way.
  static Result<std::unique_ptr<Server>> Open(const Config& config);
  ~Server();

  /// Sets the gate by which requests reach the engine, and the accounts of the tenants. Requires:
  /// called once, before Run.
  Status Serve(std::shared_ptr<EngineGate> gate, std::shared_ptr<Accounts> accounts);
  /// Takes over a connection at an HTTP socket. An error leaves it as it was.
  using AdoptHttp = std::function<Status(AdoptedConnection* connection)>;
  /// Sets where connections at HTTP sockets go. Requires: called once, before Run.
  void ServeHttp(AdoptHttp adopt) { adopt_http_ = std::move(adopt); }
  /// Has clients get these settings for NCCL from now on.
  void SetNcclSettings(const NcclConfig& config) { nccl_settings_->Set(config); }
  /// Accepts connections until Stop.
  void Run();
  /// Ends Run. Thread: any.
  void Stop();
  /// Drops all connections. Does not return if a tenant keeps a thread of the daemon waiting, here
  /// or, as `http_closed` says, among those of HTTP: the process then ends here, with the status
  /// that `end` returns, if it does. What strangers have sent to the sockets, and nobody has read,
  /// holds up nothing. Requires: the engine has gone.
  void Close(bool http_closed, const std::function<int()>& end);

  EventLoop& loop() { return *loop_; }

 private:
  /// A socket at which the daemon listens.
  struct Door {
    std::string path;
    std::string tenant;  ///< The tenant that it belongs to; "": all tenants.
    bool for_operators = false;
    bool http = false;
    FileDescriptor listener;
  };
  /// Whose a new connection is, and what the tenant pays for it.
  struct Newcomer {
    PeerCredentials credentials;
    FileDescriptor process;
    TenantIdentity tenant;
    std::shared_ptr<Account> account;
    Holding place;
    Holding memory;
  };
  struct ReceptionKey {
    uint32_t tenant = 0;
    bool for_operators = false;
    auto operator<=>(const ReceptionKey&) const = default;
  };

  explicit Server(const Config& config);

  Status OpenDoors();
  Status OpenDoor(Door door, mode_t mode);
  void Accept(const Door& door);
  bool AcceptOne(const Door& door);
  Result<Newcomer> Identify(const ControlSocket& socket, const Door& door);
  Status Admit(ControlSocket* socket, const Door& door);
  Status AdmitControl(ControlSocket* socket, Newcomer newcomer, const Door& door);
  Status AdmitHttp(ControlSocket* socket, Newcomer newcomer, const Door& door);
  void Refuse(ControlSocket socket, const Status& why, const Door& door);
  Status HandOver(std::unique_ptr<Connection>* connection);
  void TurnAway(const Door& door);
  void CloseDoors();
  void ForgetClosed();
  bool CloseReceptions();
  void RemoveSockets();

  const Config config_;
  const std::shared_ptr<NcclSettingsInForce> nccl_settings_;
  std::unique_ptr<EventLoop> loop_;
  FileDescriptor lock_;
  std::vector<std::unique_ptr<Door>> doors_;
  FileDescriptor spare_;  // given up for a moment, to accept a connection and turn it away
  TenantIdentifier identifier_;
  std::shared_ptr<Accounts> accounts_;
  std::shared_ptr<EngineGate> gate_;
  AdoptHttp adopt_http_;
  std::map<ReceptionKey, std::shared_ptr<Reception>> receptions_;
  RefusedConnections refused_;
  bool stopping_ = false;
};

}  // namespace harmonaize::daemon
