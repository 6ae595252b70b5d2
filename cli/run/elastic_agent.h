#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

struct ElasticAgentOptions {
  std::string socket;       ///< The daemon's.
  std::string job;          ///< The job's name.
  std::string ticket_file;  ///< "": the job has ranks here, or will.
  int places = 0;           ///< Number of ranks that this host takes beside those that run.
  /// What the job asks for, in TOML, beside what was stated for it; "": nothing.
  std::string requirements;
};

/// What an agent has the launcher do.
struct ElasticOrder {
  int ranks = 0;            ///< Number of ranks to start.
  std::string ticket = {};  ///< By which they join the job.
  std::vector<pid_t> leave =
      {};                  ///< Processes that are to leave now, and have not done so themselves.
  std::string offer = {};  ///< The id of the offer by which ranks start.
};

/// The launcher's part in an elastic job, on one host: tells the daemon how many ranks this host
/// takes, and turns offers that were accepted into orders. A thread of its own speaks with the
/// daemon, so that the launcher goes on whatever the daemon does. Thread: the launcher's; one.
class ElasticAgent {
 public:
  /// What is known of the job.
  struct Sight {
    bool attached = false;  ///< Whether the daemon hears of the job now.
    int ranks = 0;          ///< Of the job, on all hosts.
    int ranks_here = 0;
    std::string problem = {};       ///< Why it does not hear of it; "": nothing is known.
    double unattached_seconds = 0;  ///< For how long it has not heard of it.
  };

  /// Starts the thread. Errors: kUnavailable where no daemon listens.
  static Result<std::unique_ptr<ElasticAgent>> Start(const ElasticAgentOptions& options);
  /// Takes the agent back from the daemon, and waits for the thread, some seconds at most.
  ~ElasticAgent();
  ElasticAgent(const ElasticAgent&) = delete;
  ElasticAgent& operator=(const ElasticAgent&) = delete;

  /// Returns a descriptor that is readable once there is an order, or the sight has changed.
  int fd() const { return news_.get(); }
  std::vector<ElasticOrder> TakeOrders();
  Sight sight();
  /// Tells how many ranks this host takes beside those that run now.
  void SetPlaces(int places);

 private:
  ElasticAgent(ElasticAgentOptions options, DaemonHttp daemon, FileDescriptor news);

  void Run();
  void Round();
  Result<Json> Register();
  Result<Json> Renew(const std::string& id);
  void StateRequirements();
  void TakeIn(const Json& agent);
  void Follow(const Json& offer);
  void Stop(const Json& processes);
  void Order(ElasticOrder order);
  void Tell();

  const ElasticAgentOptions options_;
  const DaemonHttp daemon_;
  const FileDescriptor news_;  ///< An eventfd.

  // The thread's own.
  std::string id_;                      ///< The agent's at the daemon; "": it is not registered.
  std::string job_;                     ///< The job's id.
  std::string ticket_;                  ///< That was told last.
  std::map<std::string, int> started_;  ///< Ranks that were ordered, by offer.
  std::set<pid_t> stopped_;             ///< Processes that were asked to leave.
  double unattached_since_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  bool renews_now_ = false;
  int places_ = 0;
  Sight sight_;
  std::vector<ElasticOrder> orders_;

  std::thread thread_;  ///< Declared last: it uses all of the others.
};

}  // namespace harmonaize
