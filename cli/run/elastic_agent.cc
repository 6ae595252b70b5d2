#include "cli/run/elastic_agent.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "src/base/clock.h"
#include "src/base/json_text.h"
#include "src/ipc/ticket_file.h"

namespace harmonaize {
namespace {

/// Time between two renewals, at which the agent also learns of offers. The daemon keeps an agent
/// for 15 s.
constexpr std::chrono::seconds kRenewEvery(1);
/// Seconds for which the ticket of ranks that are started holds: programs may take long to load.
constexpr int kTicketSeconds = 600;

double Now() {
  return static_cast<double>(MonotonicNanoseconds()) * 1e-9;
}

Result<Json> Document(const DaemonHttp& daemon, const HttpCall& call) {
  HZ_ASSIGN_OR_RETURN(const std::string body, CallDaemon(daemon, call));
  return ParseDocument(body);
}

}  // namespace

Result<std::unique_ptr<ElasticAgent>> ElasticAgent::Start(const ElasticAgentOptions& options) {
  HZ_ASSIGN_OR_RETURN(DaemonHttp daemon, FindTenantsHttp(options.socket));
  FileDescriptor news(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news.valid()) return ErrnoError(errno, "cannot make an eventfd");
  std::unique_ptr<ElasticAgent> agent(
      new ElasticAgent(options, std::move(daemon), std::move(news)));
  agent->thread_ = std::thread([raw = agent.get()] { raw->Run(); });
  return agent;
}

ElasticAgent::ElasticAgent(ElasticAgentOptions options, DaemonHttp daemon, FileDescriptor news)
    : options_(std::move(options)),
      daemon_(std::move(daemon)),
      news_(std::move(news)),
      unattached_since_(Now()),
      places_(options_.places) {}

ElasticAgent::~ElasticAgent() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::vector<ElasticOrder> ElasticAgent::TakeOrders() {
  uint64_t count = 0;
  static_cast<void>(::read(news_.get(), &count, sizeof count));
  const std::lock_guard lock(mutex_);
  return std::exchange(orders_, {});
}

ElasticAgent::Sight ElasticAgent::sight() {
  const std::lock_guard lock(mutex_);
  return sight_;
}

void ElasticAgent::SetPlaces(int places) {
  {
    const std::lock_guard lock(mutex_);
    if (places_ == places) return;
    places_ = places;
    renews_now_ = true;
  }
  changed_.notify_one();
}

// ---------------------------------------------------------------------------------------------
// The thread

void ElasticAgent::Run() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    renews_now_ = false;
    lock.unlock();
    Round();
    lock.lock();
    changed_.wait_for(lock, kRenewEvery, [this] { return stops_ || renews_now_; });
  }
  lock.unlock();
  if (id_.empty()) return;
  // A daemon that does not answer forgets the agent by itself.
  static_cast<void>(CallDaemon(daemon_, {.method = "DELETE", .target = "/v1/agents/" + id_}));
}

void ElasticAgent::Round() {
  Result<Json> agent = id_.empty() ? Register() : Renew(id_);
  if (!agent.ok() && !id_.empty()) {
    // The daemon was restarted, or has not heard of the agent for too long.
    id_.clear();
    agent = Register();
  }
  if (agent.ok()) return TakeIn(*agent);
  const std::lock_guard lock(mutex_);
  sight_.attached = false;
  sight_.problem = agent.status().message();
  sight_.unattached_seconds = Now() - unattached_since_;
  Tell();
}

Result<Json> ElasticAgent::Register() {
  Json body = {{"job", options_.job}};
  {
    const std::lock_guard lock(mutex_);
    body["places"] = places_;
  }
  if (!options_.ticket_file.empty()) {
    HZ_ASSIGN_OR_RETURN(ticket_, ReadTicketFile(options_.ticket_file));
    body["ticket"] = ticket_;
  }
  HZ_ASSIGN_OR_RETURN(
      Json agent,
      Document(daemon_, {.method = "POST", .target = "/v1/agents", .body = JsonText(body)}));
  id_ = TextAt(agent, "id");
  job_ = TextAt(agent, "job");
  StateRequirements();
  return agent;
}

Result<Json> ElasticAgent::Renew(const std::string& id) {
  Json body;
  bool attached = false;
  {
    const std::lock_guard lock(mutex_);
    body["places"] = places_;
    attached = sight_.attached;
  }
  // The file may hold another ticket by now.
  if (!attached && !options_.ticket_file.empty()) {
    const Result<std::string> ticket = ReadTicketFile(options_.ticket_file);
    if (ticket.ok() && *ticket != ticket_) {
      ticket_ = *ticket;
      body["ticket"] = ticket_;
    }
  }
  return Document(daemon_, {.method = "PUT", .target = "/v1/agents/" + id, .body = JsonText(body)});
}

// A daemon that was restarted does not know them any more. One that does not take them asks the job
// about each offer.
void ElasticAgent::StateRequirements() {
  if (options_.requirements.empty()) return;
  static_cast<void>(CallDaemon(daemon_, {.method = "PUT",
                                         .target = "/v1/jobs/" + job_ + "/requirements",
                                         .body = options_.requirements,
                                         .content_type = "application/toml"}));
}

void ElasticAgent::TakeIn(const Json& agent) {
  Sight sight{.attached = TextAt(agent, "standing") == "attached",
              .ranks = static_cast<int>(CountAt(agent, "ranks")),
              .ranks_here = static_cast<int>(CountAt(agent, "ranks_here"))};
  if (sight.attached) {
    unattached_since_ = Now();
    for (const Json& offer : ListAt(agent, "offers")) Follow(offer);
    Stop(ListAt(agent, "leave"));
  } else {
    sight.problem = At(agent, "problem").is_null() ? "" : TextAt(agent, "problem");
    sight.unattached_seconds = Now() - unattached_since_;
  }
  const std::lock_guard lock(mutex_);
  sight_ = std::move(sight);
  Tell();
}

// Ranks that a grow brings are started once. Those that do not come about are the job's to ask for
// again: the offer counts ranks, and its end says what became of it.
void ElasticAgent::Follow(const Json& offer) {
  if (TextAt(offer, "kind") != "grow" || TextAt(offer, "state") != "accepted") return;
  const std::string id = TextAt(offer, "id");
  const int missing = static_cast<int>(CountAt(offer, "ranks")) - started_[id];
  if (missing < 1) return;
  const Json order = {{"uses", missing}, {"seconds", kTicketSeconds}};
  const Result<Json> ticket = Document(
      daemon_,
      {.method = "POST", .target = "/v1/jobs/" + job_ + "/tickets", .body = JsonText(order)});
  if (!ticket.ok()) return;  // tried again in a moment
  started_[id] += missing;
  Order({.ranks = missing, .ticket = TextAt(*ticket, "ticket"), .offer = id});
}

// Each process is asked once: a program may take its time to end well.
void ElasticAgent::Stop(const Json& processes) {
  ElasticOrder order;
  std::set<pid_t> listed;
  for (const Json& process : processes) {
    if (!process.is_number_integer()) continue;
    const auto pid = process.get<pid_t>();
    listed.insert(pid);
    if (!stopped_.contains(pid)) order.leave.push_back(pid);
  }
  // Numbers of processes come again.
  stopped_ = std::move(listed);
  if (!order.leave.empty()) Order(std::move(order));
}

void ElasticAgent::Order(ElasticOrder order) {
  const std::lock_guard lock(mutex_);
  orders_.push_back(std::move(order));
  Tell();
}

void ElasticAgent::Tell() {
  const uint64_t one = 1;
  static_cast<void>(::write(news_.get(), &one, sizeof one));
}

}  // namespace harmonaize
