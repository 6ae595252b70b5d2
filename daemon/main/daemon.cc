#include "daemon/main/daemon.h"

#include <utility>

#include "daemon/host/calibration.h"
#include "daemon/host/host_limits.h"
#include "daemon/quota/holdings.h"

namespace harmonaize::daemon {

Result<std::unique_ptr<Daemon>> Daemon::Create(const Config& config) {
  std::unique_ptr<Daemon> daemon(new Daemon());
  HZ_ASSIGN_OR_RETURN(daemon->server_, Server::Open(config));
  const Fingerprint host = FingerprintOfHost();
  HZ_ASSIGN_OR_RETURN(Calibration calibration,
                      LoadOrMeasure(config.state_path, host, [&](const GoOn& go_on) {
                        return MeasureHost(host.last_level_bytes, go_on);
                      }));
  auto accounts = std::make_shared<Accounts>(LimitsOfHost(config, CapacityOfHost()));
  HZ_ASSIGN_OR_RETURN(daemon->engine_, Engine::Create(config, std::move(calibration), accounts));
  daemon->gate_ = std::make_shared<EngineGate>(daemon->engine_.get());
  HZ_RETURN_IF_ERROR(daemon->server_->Serve(daemon->gate_, std::move(accounts)));
  return daemon;
}

void Daemon::Run(const std::function<void()>& on_listening) {
  engine_->Start();
  on_listening();
  server_->Run();
  gate_->Shut();
  engine_->Stop("it was stopped by its operator");
  // Destroys the engine's sessions too, and with them what they keep of the receptions'.
  engine_.reset();
  server_->Close();
}

}  // namespace harmonaize::daemon
