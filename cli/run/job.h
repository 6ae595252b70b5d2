#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/child_process.h"
#include "cli/run/elastic_agent.h"
#include "cli/run/environment.h"
#include "cli/run/job_guard.h"
#include "cli/run/launcher_signals.h"
#include "cli/run/line_assembler.h"
#include "cli/run/output_queue.h"
#include "cli/run/rank_program.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// Place of one rank of a job, if that is not simply here.
struct RankPlace {
  int local_rank = 0;
  int local_world_size = 1;
  std::string socket;                    ///< The daemon's socket, or "" to leave HARMONAIZE_SOCKET
                                         ///< alone.
  std::vector<std::string> assignments;  ///< "NAME=value", beyond those of all ranks.
  std::function<bool()> prepare{};       ///< As in ChildSpec.
};

struct JobOptions {
  std::string launcher = "harmonaize";  ///< Name in front of the job's own messages.
  int ranks = 1;
  std::vector<RankPlace> places{};  ///< One for each rank; empty: all here.
  std::string master_address = "127.0.0.1";
  uint16_t master_port = 0;  ///< 0: one that is free here.
  std::vector<std::string> command;
  bool prefix = true;
  bool colour_output = false;  ///< Whether standard output takes colours.
  bool colour_error = false;   ///< Whether standard error does.
  /// The job goes on while no more ranks fail than leave so many, on all hosts where it has an
  /// agent; 0: one that fails ends it.
  int least_ranks = 0;
  /// Most ranks that run here at a time. Places beyond those that run are offered to the daemon,
  /// where the job has an agent.
  int most_ranks_here = 0;
  /// A folder of this launcher's own for the tickets of ranks that it starts later; "": it starts
  /// none.
  std::string ticket_folder;
  /// Limit of the whole job; 0: none.
  std::chrono::milliseconds timeout{0};
  /// Time for the others, after one rank failed, to notice it and report it themselves.
  std::chrono::milliseconds error_wait{1000};
  /// Time between SIGTERM and SIGKILL.
  std::chrono::milliseconds grace{5000};
  // Passed to each rank.
  std::string socket;
  std::string name;  ///< The job's name and kind; "": those of the environment.
  std::string kind;
  std::string requirements;  ///< The absolute path of a file; "": that of the environment.
  std::string preload_library;
  std::vector<std::string> assignments;
  /// Returns what starts in place of `command` as the process of this number, of the environment
  /// that a rank would have; empty: the command itself.
  std::function<Result<RankProgram>(int number, const Environment& of_rank)> wrap{};
};

/// Returns what a rank starts as, unless it comes later. Errors: those of JobOptions::wrap.
Result<RankProgram> ProgramOfRank(const JobOptions& options, int rank, uint16_t master_port);

/// One job: starts its ranks, relays their output line by line, and makes sure that they end
/// together. For one use. Thread: one.
class Job {
 public:
  /// Borrows all but the options. `daemon` is the private daemon whose output the job relays, or
  /// null; `agent` has it start and stop ranks, or is null.
  Job(JobOptions options, LauncherSignals& signals, JobGuard& guard, ChildProcess* daemon,
      ElasticAgent* agent = nullptr);

  /// Runs the job to its end. Returns its exit status: 0 when every rank returned 0, or all but
  /// those without which it went on, else that of the rank whose failure ended it (128 + n after
  /// signal n), 124 after a timeout, 125 to 127 when a rank could not be started.
  int Run();

  /// Returns the numbers of the processes that did not end well. Requires: Run has returned.
  std::vector<int> FailedProcesses();

 private:
  using Clock = std::chrono::steady_clock;

  struct Stream {
    FileDescriptor* fd = nullptr;
    LineAssembler lines;
    OutputQueue* queue = nullptr;
  };

  /// Phases of the job. Each but the first has a deadline after which the next one begins.
  enum class Phase { kRunning, kNoticing, kTerminating, kKilling };

  int StartRanks();
  Result<ChildProcess> StartRank(const RankProgram& program, bool keeps_input,
                                 std::function<bool()> prepare);
  void Adopt(ChildProcess child);
  void TakeOrders();
  void StartNewcomers(const ElasticOrder& order);
  void StopLeavers(const ElasticOrder& order);
  void TellPlaces();
  void NoteSight(const ElasticAgent::Sight& sight);
  bool MayGetRanks() const;
  int Running() const;
  void AddStreams(ChildProcess& child, const std::string& name, const char* colour, bool prefix);
  void Step();
  void ReadStream(Stream& stream);
  void CloseStream(Stream& stream);
  void TakeSignals();
  void TakeEnds();
  bool GoesOnWithout(const std::vector<int>& failed);
  void Fail(int rank);
  void NoteDaemonEnd();
  void NoteBrokenOutput();
  void PassDeadlines();
  void EnterPhase(Phase phase, Clock::duration lasts);
  void SignalRanks(int signal);
  void Say(const std::string& sentence);
  std::string RunningRanks() const;
  bool AllEnded() const;
  bool AllClosed() const;
  bool Backlogged() const;
  int PollTimeout() const;
  void FinishOutput();
  int ExitStatus();

  const JobOptions options_;
  LauncherSignals& signals_;
  JobGuard& guard_;
  ChildProcess* daemon_;
  ElasticAgent* agent_;
  bool daemon_ended_ = false;

  OutputQueue output_;
  OutputQueue error_;
  bool one_output_;  // both are the same file: they share a queue, or lines would mix

  std::deque<ChildProcess> ranks_;  // streams point into them, so none may move
  std::deque<Stream> streams_;
  Phase phase_ = Phase::kRunning;
  std::optional<Clock::time_point> phase_deadline_;
  std::optional<Clock::time_point> job_deadline_;
  std::optional<Clock::time_point> drain_deadline_;
  std::optional<int> failed_rank_;
  int tickets_ = 0;                ///< Files of tickets that were written.
  int elsewhere_ = 0;              ///< Ranks of the job on other hosts, when it was heard of last.
  bool was_attached_ = false;      ///< The daemon has heard of the job.
  std::string told_problem_ = {};  ///< What was said last of why it does not.
  int own_status_ = 0;             // if the launcher itself ends the job: a timeout, a signal
};

}  // namespace harmonaize
