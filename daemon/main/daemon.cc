#include "daemon/main/daemon.h"

#include <chrono>
#include <utility>

#include "daemon/config/state_directory.h"
#include "daemon/config/state_lock.h"
#include "daemon/host/calibration.h"
#include "daemon/host/host_limits.h"
#include "daemon/job_events/event_rooms.h"
#include "daemon/nats/event_forwarder.h"
#include "daemon/nats/nats_connection.h"
#include "daemon/nats/nats_settings.h"
#include "daemon/quota/holdings.h"
#include "daemon/requirements/requirements_book.h"
#include "daemon/tenant/tenant.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {

namespace {

/// Time, in milliseconds, that an ending daemon waits for its last events to be kept and told.
constexpr std::chrono::milliseconds kLastEventsWithin(1000);

/// Returns the bus of events. Where the state directory cannot be used, events are kept in memory.
Result<std::unique_ptr<EventBus>> OpenEvents(const Config& config, EventPublisher* publisher) {
  EventBus::Options options{
      .folder = config.state_path.empty() ? "" : config.state_path + "/events",
      .retention = {.most_bytes = config.events.keep_bytes,
                    .most_seconds = static_cast<int64_t>(config.events.keep_seconds)},
      .now_seconds = [] { return static_cast<int64_t>(UnixSeconds()); },
      .publisher = publisher};
  Status usable = CheckStateFolder(config.state_path);
  Result<std::unique_ptr<EventBus>> bus = usable.ok() ? EventBus::Create(options) : usable;
  if (bus.ok()) return bus;
  Log(LogLevel::kWarning, kLogInit, "events do not outlive this daemon: {}",
      bus.status().message());
  options.folder.clear();
  return EventBus::Create(std::move(options));
}

/// Has Azure told that it may begin with what all jobs here have acknowledged. Requires: `poller`
/// outlives the engine's thread, or the gate is shut before.
void ApproveWhatAllAgreeTo(EngineGate& gate, const SourceConfig& source, SourcePoller* poller) {
  const auto approve = [poller](const CloudNotice& notice) {
    poller->Approve(notice.id, [id = notice.id](const Status& outcome) {
      if (outcome.ok()) {
        Log(LogLevel::kInfo, kLogInit, "{} is approved: all jobs here have acknowledged it", id);
      } else {
        Log(LogLevel::kWarning, kLogInit, "{} is not approved: {}", id, outcome.message());
      }
    });
  };
  const NoticeAgreement::Policy policy{.source = source.kind,
                                       .lasts = std::chrono::seconds(source.approve_after_seconds),
                                       .on_agreement = approve};
  gate.Post([policy](EngineRooms& rooms) { rooms.events().agreement().SetPolicy(policy); });
}

/// Returns who publishes events outside of the hosts; nullptr where the configuration names nobody.
Result<std::unique_ptr<EventPublisher>> OpenPublisher(const Config& config) {
  if (config.events.nats.servers.empty()) return std::unique_ptr<EventPublisher>();
  HZ_ASSIGN_OR_RETURN(NatsSettings settings, CheckNatsConfig(config.events.nats));
  EventForwarder::Options options{
      .prefix = settings.prefix,
      .folder = CheckStateFolder(config.state_path).ok() ? config.state_path : ""};
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<NatsLink> link, MakeNatsLink(std::move(settings)));
  return std::unique_ptr<EventPublisher>(
      std::make_unique<EventForwarder>(std::move(link), std::move(options)));
}

/// Returns the HTTP server, which has an audit log in the state directory.
Result<std::unique_ptr<HttpServer>> OpenHttp(
    const Config& config, std::shared_ptr<TokenStore> tokens, std::shared_ptr<HttpHandler> handler,
    std::shared_ptr<transport::ListeningSockets> listening) {
  HttpOptions options{.host_names = config.http.names,
                      .tokens = std::move(tokens),
                      .listening = std::move(listening)};
  if (!config.state_path.empty()) {
    Result<std::unique_ptr<AuditLog>> audit = AuditLog::Start(config.state_path, {});
    if (audit.ok()) {
      options.audit = std::move(*audit);
    } else {
      Log(LogLevel::kWarning, kLogInit, "what operators change is not written down: {}",
          audit.status().message());
    }
  }
  return HttpServer::Create(std::move(options), std::move(handler));
}

/// Closes sockets that were passed on and that nobody has asked for.
void CloseUnused(transport::ListeningSockets* sockets) {
  for (const transport::NetworkAddress& address : sockets->CloseUnused()) {
    Log(LogLevel::kWarning, kLogInit,
        "a socket that listens at {} was passed on to the daemon, whose configuration does not "
        "name "
        "that address: it is closed",
        address.ToString());
  }
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Create(
    const Config& config, std::shared_ptr<transport::ListeningSockets> listening) {
  std::unique_ptr<Daemon> daemon(new Daemon());
  HZ_ASSIGN_OR_RETURN(daemon->server_, Server::Open(config));
  HZ_ASSIGN_OR_RETURN(daemon->state_lock_, LockState(config.state_path, config.socket_path));
  const Fingerprint host = FingerprintOfHost();
  HZ_ASSIGN_OR_RETURN(Calibration calibration,
                      LoadOrMeasure(config.state_path, host, [&](const GoOn& go_on) {
                        return MeasureHost(host.last_level_bytes, go_on);
                      }));
  auto accounts = std::make_shared<Accounts>(LimitsOfHost(config, CapacityOfHost()));
  HZ_ASSIGN_OR_RETURN(daemon->engine_,
                      Engine::Create(config, std::move(calibration), accounts, listening));
  HZ_ASSIGN_OR_RETURN(daemon->publisher_, OpenPublisher(config));
  HZ_ASSIGN_OR_RETURN(daemon->events_, OpenEvents(config, daemon->publisher_.get()));
  daemon->engine_->TellEventsTo(daemon->events_.get(), [self = daemon.get()] {
    self->is_to_restart_.store(true, std::memory_order_relaxed);
    self->Stop();
  });
  daemon->gate_ = std::make_shared<EngineGate>(daemon->engine_.get());
  HZ_RETURN_IF_ERROR(daemon->server_->Serve(daemon->gate_, accounts));
  const std::shared_ptr<TokenStore> tokens =
      TokenStore::Open(config.state_path, [] { return static_cast<int64_t>(UnixSeconds()); });
  HZ_ASSIGN_OR_RETURN(daemon->api_,
                      Api::Create(config, daemon->gate_, daemon->events_.get(), tokens));
  HZ_ASSIGN_OR_RETURN(daemon->http_, OpenHttp(config, tokens, daemon->api_->handler(), listening));
  HZ_ASSIGN_OR_RETURN(daemon->http_door_,
                      HttpDoor::Open(config.http, daemon->http_.get(), &daemon->loop()));
  if (!config.ras.listen.empty()) {
    HZ_ASSIGN_OR_RETURN(daemon->ras_,
                        RasServer::Start(config, daemon->gate_, daemon->events_.get(),
                                         std::move(accounts), listening, &daemon->loop()));
  }
  CloseUnused(listening.get());
  if (!config.sources.sources.empty()) {
    HZ_RETURN_IF_ERROR(daemon->PollSources(config.sources));
  }
  daemon->server_->ServeHttp([http = daemon->http_.get()](AdoptedConnection* connection) {
    return http->Adopt(connection);
  });
  return daemon;
}

// Has the engine hear of what clouds announce, and clouds of what all jobs here agree to.
Status Daemon::PollSources(const SourcesConfig& config) {
  const auto on_notice = [gate = gate_](const CloudNotice& notice) {
    gate->Post([notice](EngineRooms& rooms) {
      const Status taken = rooms.events().announcements().Take(notice);
      if (!taken.ok()) Log(LogLevel::kWarning, kLogInit, "{}", taken.message());
    });
  };
  HZ_ASSIGN_OR_RETURN(sources_, SourcePoller::Start(config, on_notice));
  for (const SourceConfig& source : config.sources) {
    if (source.approve_when_all_agree) ApproveWhatAllAgreeTo(*gate_, source, sources_.get());
  }
  return Status::Ok();
}

// Threads that serve HTTP or ask clouds may run already where Create has failed.
// The names of tenants are looked up apart from the main thread: that may wait for a server.
void Daemon::SetPolicy(PolicyConfig policy, const TenantsConfig& tenants) {
  api_->work().Post([gate = gate_, policy = std::move(policy), tenants]() mutable {
    policy = FindPolicyTenants(std::move(policy), tenants);
    gate->Post([policy = std::move(policy)](EngineRooms& rooms) { rooms.SetPolicy(policy); });
  });
}

Daemon::~Daemon() {
  if (gate_ != nullptr) gate_->Shut();
}

void Daemon::Run(const std::function<void()>& on_listening,
                 const std::function<int()>& start_anew) {
  engine_->Start();
  on_listening();
  server_->Run();
  if (sources_ != nullptr) sources_->Stop();
  gate_->Shut();
  engine_->Stop("it was stopped by its operator");
  // Subscribers still hear that the daemon ends.
  events_->Flush(kLastEventsWithin);
  if (ras_ != nullptr) ras_->Close();
  const bool http_closed = http_->Close();
  // Destroys the engine's sessions too, and with them what they keep of the receptions'.
  engine_.reset();
  server_->Close(http_closed, [&] { return is_to_restart() ? start_anew() : EXIT_SUCCESS; });
}

}  // namespace harmonaize::daemon
