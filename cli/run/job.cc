#include "cli/run/job.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cli/command_line.h"
#include "cli/run/environment.h"
#include "cli/run/free_port.h"
#include "cli/ticket/ticket_file.h"

namespace harmonaize {
namespace {

constexpr const char* kRankColours[] = {"\033[36m", "\033[33m", "\033[35m",
                                        "\033[32m", "\033[34m", "\033[31m"};
constexpr char kDaemonColour[] = "\033[2m";
constexpr char kPlain[] = "\033[0m";

/// Seconds for which a job that this host does not hear of any more may come back: another host
/// becomes its home within them, where one is lost.
constexpr double kAwaySeconds = 5;
/// Seconds within which the daemon hears of a job for the first time: the one that keeps the ticket
/// may just be starting.
constexpr double kComingSeconds = 30;

bool SameFile(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

int StartFailureStatus(const Status& status) {
  if (status.code() == Code::kInvalidArgument) return kNotFoundStatus;
  if (status.code() == Code::kInvalidUsage) return kCannotExecuteStatus;
  return kLauncherFailedStatus;
}

std::string Seconds(std::chrono::milliseconds duration) {
  return fmt::format("{:g} s", static_cast<double>(duration.count()) / 1000.0);
}

RankPlace PlaceOf(const JobOptions& options, int rank) {
  if (!options.places.empty()) return options.places[static_cast<size_t>(rank)];
  RankPlace here;
  here.local_rank = rank;
  here.local_world_size = options.ranks;
  here.socket = options.socket;
  return here;
}

Result<RankProgram> Wrapped(const JobOptions& options, int number, const Environment& of_rank) {
  if (options.wrap) return options.wrap(number, of_rank);
  return RankProgram{.arguments = options.command, .environment = of_rank};
}

}  // namespace

Result<RankProgram> ProgramOfRank(const JobOptions& options, int rank, uint16_t master_port) {
  const RankPlace place = PlaceOf(options, rank);
  RankVariables variables{.rank = rank,
                          .world_size = options.ranks,
                          .local_rank = place.local_rank,
                          .local_world_size = place.local_world_size,
                          .master_address = options.master_address,
                          .master_port = master_port,
                          .socket = place.socket,
                          .job_name = options.name,
                          .job_kind = options.kind,
                          .requirements = options.requirements,
                          .preload_library = options.preload_library,
                          .assignments = place.assignments};
  variables.assignments.insert(variables.assignments.end(), options.assignments.begin(),
                               options.assignments.end());
  return Wrapped(options, rank, RankEnvironment(Environment::OfThisProcess(), variables));
}

Job::Job(JobOptions options, LauncherSignals& signals, JobGuard& guard, ChildProcess* daemon,
         ElasticAgent* agent)
    : options_(std::move(options)),
      signals_(signals),
      guard_(guard),
      daemon_(daemon),
      agent_(agent),
      output_(STDOUT_FILENO),
      error_(STDERR_FILENO),
      one_output_(SameFile(STDOUT_FILENO, STDERR_FILENO)) {}

int Job::Run() {
  if (daemon_ != nullptr) AddStreams(*daemon_, "harmonaized", kDaemonColour, true);
  if (const int failure = StartRanks(); failure != 0) {
    own_status_ = failure;
    EnterPhase(Phase::kKilling, Clock::duration::zero());
    SignalRanks(SIGKILL);
  }
  if (options_.timeout.count() > 0) job_deadline_ = Clock::now() + options_.timeout;
  TellPlaces();
  while (!AllEnded() || !AllClosed() || MayGetRanks()) Step();
  for (ChildProcess& rank : ranks_) rank.SignalGroup(SIGKILL);
  FinishOutput();
  for (ChildProcess& rank : ranks_) rank.Reap();
  return ExitStatus();
}

int Job::StartRanks() {
  const Result<uint16_t> port =
      options_.master_port != 0 ? options_.master_port : FreePort(options_.master_address);
  if (!port.ok()) {
    Say(port.status().message());
    return kLauncherFailedStatus;
  }
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const Result<RankProgram> program = ProgramOfRank(options_, rank, *port);
    // A rank in a process group of its own may not read the terminal, but any other input works.
    Result<ChildProcess> child = !program.ok()
                                     ? program.status()
                                     : StartRank(*program, rank == 0 && ::isatty(STDIN_FILENO) == 0,
                                                 PlaceOf(options_, rank).prepare);
    if (!child.ok()) {
      Say(fmt::format("rank {}: {}", rank, child.status().message()));
      return StartFailureStatus(child.status());
    }
    Adopt(std::move(*child));
  }
  return 0;
}

Result<ChildProcess> Job::StartRank(const RankProgram& program, bool keeps_input,
                                    std::function<bool()> prepare) {
  ChildSpec spec;
  spec.arguments = program.arguments;
  spec.environment = program.environment.Lines();
  spec.prepare = std::move(prepare);
  spec.signal_mask = signals_.previous_mask();
  spec.keep_standard_input = keeps_input;
  return ChildProcess::Start(spec);
}

void Job::Adopt(ChildProcess child) {
  const size_t number = ranks_.size();
  const size_t width = std::to_string(std::max(options_.ranks, 1) - 1).size();
  ranks_.push_back(std::move(child));
  guard_.WatchGroup(ranks_.back().pid());
  AddStreams(ranks_.back(), fmt::format("{:>{}}", number, width),
             kRankColours[number % std::size(kRankColours)], options_.prefix);
}

// ---------------------------------------------------------------------------------------------
// Elastic jobs

void Job::TakeOrders() {
  for (const ElasticOrder& order : agent_->TakeOrders()) {
    if (phase_ != Phase::kRunning) return;
    if (order.ranks > 0) StartNewcomers(order);
    if (!order.leave.empty()) StopLeavers(order);
  }
  NoteSight(agent_->sight());
}

void Job::NoteSight(const ElasticAgent::Sight& sight) {
  if (sight.attached) {
    was_attached_ = true;
    elsewhere_ = std::max(sight.ranks - sight.ranks_here, 0);
    return;
  }
  if (!sight.problem.empty() && sight.problem != told_problem_) {
    told_problem_ = sight.problem;
    Say(fmt::format("the daemon does not hear of the job now: {}", sight.problem));
  }
  const bool has_come = was_attached_ || !ranks_.empty();
  if (has_come || phase_ != Phase::kRunning || sight.unattached_seconds < kComingSeconds) return;
  Say(fmt::format("the job was not found within {:g} s, so no ranks were started", kComingSeconds));
  own_status_ = 1;
  EnterPhase(Phase::kKilling, Clock::duration::zero());
}

// The ticket goes to the newcomers in a file that nobody else can read, since other users may see a
// process's arguments.
void Job::StartNewcomers(const ElasticOrder& order) {
  const std::string file = fmt::format("{}/ticket-{}", options_.ticket_folder, ++tickets_);
  const Status written = WriteTicketFile(file, order.ticket);
  if (!written.ok()) return Say(written.message());
  const Environment base = Environment::OfThisProcess();
  const int free = std::max(options_.most_ranks_here - Running(), 0);
  for (int i = 0; i < std::min(order.ranks, free); ++i) {
    const RankVariables variables{.socket = options_.socket,
                                  .job_name = options_.name,
                                  .job_kind = options_.kind,
                                  .requirements = options_.requirements,
                                  .preload_library = options_.preload_library,
                                  .assignments = options_.assignments};
    const Result<RankProgram> program =
        Wrapped(options_, static_cast<int>(ranks_.size()),
                NewcomerEnvironment(RankEnvironment(base, variables),
                                    {.local_rank = Running(), .ticket_file = file}));
    Result<ChildProcess> child = program.ok() ? StartRank(*program, false, {}) : program.status();
    if (!child.ok()) {
      Say(fmt::format("another rank cannot start: {}", child.status().message()));
      break;
    }
    Say(fmt::format("process {} (pid {}) starts, to become a rank of the job ({})", ranks_.size(),
                    child->pid(), order.offer));
    Adopt(std::move(*child));
  }
  TellPlaces();
}

// Processes are this launcher's, whatever the daemon says. Behind a shell or a container's launcher
// the rank is another process of the group.
void Job::StopLeavers(const ElasticOrder& order) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const pid_t pid = ranks_[i].pid();
    const bool leaves = std::any_of(order.leave.begin(), order.leave.end(), [pid](pid_t leaver) {
      return leaver == pid || ::getpgid(leaver) == pid;
    });
    if (!leaves || ranks_[i].ended()) continue;
    Say(fmt::format("process {} (pid {}) was to leave by an offer, and gets SIGTERM", i, pid));
    ranks_[i].SignalGroup(SIGTERM);
  }
}

int Job::Running() const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(),
                                        [](const ChildProcess& rank) { return !rank.ended(); }));
}

void Job::TellPlaces() {
  if (agent_ != nullptr) agent_->SetPlaces(std::max(options_.most_ranks_here - Running(), 0));
}

// Returns whether ranks may still come: the job runs on, here or on other hosts.
bool Job::MayGetRanks() const {
  if (agent_ == nullptr || phase_ != Phase::kRunning) return false;
  if (!ranks_.empty() && elsewhere_ == 0) return false;
  const ElasticAgent::Sight sight = agent_->sight();
  if (sight.attached) return sight.ranks > 0;
  return !was_attached_ || sight.unattached_seconds < kAwaySeconds;
}

void Job::AddStreams(ChildProcess& child, const std::string& name, const char* colour,
                     bool prefix) {
  const auto text = [&](bool coloured) {
    if (!prefix) return std::string();
    return coloured ? fmt::format("{}[{}]{} ", colour, name, kPlain) : fmt::format("[{}] ", name);
  };
  // A single rank without a prefix has the output to itself.
  const bool whole_lines = prefix || options_.ranks > 1;
  const bool is_daemon = &child == daemon_;
  OutputQueue* error = one_output_ ? &output_ : &error_;
  streams_.push_back(
      {.fd = &child.standard_output(),
       .lines = LineAssembler(text(is_daemon ? options_.colour_error : options_.colour_output),
                              whole_lines),
       .queue = is_daemon ? error : &output_});
  streams_.push_back({.fd = &child.standard_error(),
                      .lines = LineAssembler(text(options_.colour_error), whole_lines),
                      .queue = error});
}

void Job::Step() {
  std::vector<pollfd> events;
  events.push_back({.fd = signals_.fd(), .events = POLLIN, .revents = 0});
  for (const OutputQueue* queue : {&output_, &error_}) {
    // poll skips a negative descriptor.
    events.push_back({.fd = queue->Empty() ? -1 : queue->fd(), .events = POLLOUT, .revents = 0});
  }
  const size_t first_stream = events.size();
  const size_t first_rank = first_stream + streams_.size();
  const bool backlogged = Backlogged();
  for (const Stream& stream : streams_) {
    events.push_back({.fd = backlogged ? -1 : stream.fd->get(), .events = POLLIN, .revents = 0});
  }
  for (const ChildProcess& rank : ranks_) {
    events.push_back({.fd = rank.ended() ? -1 : rank.pidfd(), .events = POLLIN, .revents = 0});
  }
  events.push_back({.fd = agent_ == nullptr ? -1 : agent_->fd(), .events = POLLIN, .revents = 0});
  const bool watch_daemon = daemon_ != nullptr && !daemon_ended_;
  events.push_back({.fd = watch_daemon ? daemon_->pidfd() : -1, .events = POLLIN, .revents = 0});

  if (::poll(events.data(), events.size(), PollTimeout()) < 0) return;  // EINTR: look again
  if (events[1].revents != 0) output_.Write();
  if (events[2].revents != 0) error_.Write();
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (events[first_stream + i].revents != 0) ReadStream(streams_[i]);
  }
  if (events[0].revents != 0) TakeSignals();
  if (std::any_of(events.begin() + static_cast<std::ptrdiff_t>(first_rank), events.end() - 2,
                  [](const pollfd& event) { return event.revents != 0; })) {
    TakeEnds();
  }
  if (events[events.size() - 2].revents != 0) TakeOrders();
  if (events.back().revents != 0) NoteDaemonEnd();
  NoteBrokenOutput();
  PassDeadlines();
}

void Job::ReadStream(Stream& stream) {
  char buffer[64 * 1024];
  const ssize_t got = ::read(stream.fd->get(), buffer, sizeof(buffer));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    CloseStream(stream);
    return;
  }
  std::string text;
  stream.lines.Append(std::string_view(buffer, static_cast<size_t>(got)), &text);
  stream.queue->Append(text);
}

void Job::CloseStream(Stream& stream) {
  std::string text;
  stream.lines.Finish(&text);
  stream.queue->Append(text);
  stream.fd->Reset();
}

void Job::TakeSignals() {
  while (const std::optional<int> signal = signals_.Next()) {
    if (!LauncherSignals::EndsJob(*signal)) {
      SignalRanks(*signal);
      continue;
    }
    const bool again = own_status_ > kSignalStatusBase;
    own_status_ = kSignalStatusBase + *signal;
    if (again) {
      Say(fmt::format("SIG{} again: killing all ranks", ::sigabbrev_np(*signal)));
      SignalRanks(SIGKILL);
      EnterPhase(Phase::kKilling, Clock::duration::zero());
    } else {
      Say(fmt::format("SIG{}: passed on to all ranks", ::sigabbrev_np(*signal)));
      SignalRanks(*signal);
      EnterPhase(Phase::kTerminating, options_.grace);
    }
  }
}

void Job::TakeEnds() {
  std::optional<int> first_failed;
  std::vector<int> failed;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended()) continue;
    const std::optional<ChildEnd> end = ranks_[i].PollEnd();
    if (!end) continue;
    // Processes that the rank leaves behind in its group end with it.
    ranks_[i].SignalGroup(SIGTERM);
    // If several fail at once, one that was killed is the likelier cause.
    if (!end->success()) failed.push_back(static_cast<int>(i));
    const bool cause = !end->success() && (!first_failed || end->by_signal);
    if (cause) first_failed = static_cast<int>(i);
  }
  if (first_failed && phase_ == Phase::kRunning && !GoesOnWithout(failed)) Fail(*first_failed);
  TellPlaces();
  if (AllEnded() && !drain_deadline_) drain_deadline_ = Clock::now() + options_.grace;
}

// Ranks that have ended well are not lost: the others may end at another time. Ranks of other hosts
// count where the agent knows of them.
bool Job::GoesOnWithout(const std::vector<int>& failed) {
  int left = static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [](ChildProcess& rank) {
    return !rank.ended() || rank.PollEnd()->success();
  }));
  left += elsewhere_;
  if (options_.least_ranks == 0 || left < options_.least_ranks) return false;
  for (const int rank : failed) {
    ChildProcess& child = ranks_[static_cast<size_t>(rank)];
    Say(fmt::format("rank {} (pid {}) {}; the job goes on without it", rank, child.pid(),
                    child.PollEnd()->ToString()));
  }
  return true;
}

void Job::Fail(int rank) {
  failed_rank_ = rank;
  ChildProcess& child = ranks_[static_cast<size_t>(rank)];
  Say(fmt::format("rank {} (pid {}) {}{}", rank, child.pid(), child.PollEnd()->ToString(),
                  AllEnded() ? "" : "; ending the other ranks"));
  EnterPhase(Phase::kNoticing, options_.error_wait);
}

void Job::NoteDaemonEnd() {
  daemon_ended_ = true;
  if (const std::optional<ChildEnd> end = daemon_->PollEnd()) {
    Say(fmt::format("the private daemon (pid {}) {} while the job ran", daemon_->pid(),
                    end->ToString()));
  }
}

void Job::NoteBrokenOutput() {
  // As in any pipeline, a writer ends when its reader has gone.
  if (phase_ != Phase::kRunning || !output_.Broken()) return;
  own_status_ = kSignalStatusBase + SIGPIPE;
  SignalRanks(SIGTERM);
  EnterPhase(Phase::kTerminating, options_.grace);
}

void Job::PassDeadlines() {
  const Clock::time_point now = Clock::now();
  if (job_deadline_ && now >= *job_deadline_) {
    job_deadline_.reset();
    if (phase_ == Phase::kRunning && !AllEnded()) {
      Say(fmt::format("the job did not end within {}: ending all ranks",
                      Seconds(options_.timeout)));
      own_status_ = kTimeoutStatus;
      SignalRanks(SIGTERM);
      EnterPhase(Phase::kTerminating, options_.grace);
    }
  }
  if (phase_deadline_ && now >= *phase_deadline_) {
    phase_deadline_.reset();
    if (AllEnded()) return;
    if (phase_ == Phase::kNoticing) {
      SignalRanks(SIGTERM);
      EnterPhase(Phase::kTerminating, options_.grace);
    } else if (phase_ == Phase::kTerminating) {
      Say(fmt::format("{} did not end within {}: killing", RunningRanks(),
                      Seconds(options_.grace)));
      SignalRanks(SIGKILL);
      EnterPhase(Phase::kKilling, Clock::duration::zero());
    }
  }
  if (drain_deadline_ && Backlogged()) {
    // Nothing is read while our own reader is slow, which is not the ranks' fault.
    drain_deadline_ = now + options_.grace;
  } else if (drain_deadline_ && now >= *drain_deadline_) {
    // A process that a rank left behind holds its output open and has had its SIGTERM.
    drain_deadline_.reset();
    SignalRanks(SIGKILL);
    for (Stream& stream : streams_) {
      if (stream.fd->valid()) CloseStream(stream);
    }
  }
}

void Job::EnterPhase(Phase phase, Clock::duration lasts) {
  phase_ = phase;
  phase_deadline_ = Clock::now() + lasts;
}

void Job::SignalRanks(int signal) {
  for (const ChildProcess& rank : ranks_) rank.SignalGroup(signal);
}

void Job::Say(const std::string& sentence) {
  (one_output_ ? output_ : error_).Append(fmt::format("{}: {}\n", options_.launcher, sentence));
}

std::string Job::RunningRanks() const {
  std::string numbers;
  int running = 0;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].ended()) continue;
    numbers += fmt::format("{}{}", running == 0 ? "" : ", ", i);
    ++running;
  }
  return fmt::format("rank{} {}", running == 1 ? "" : "s", numbers);
}

bool Job::AllEnded() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const ChildProcess& rank) { return rank.ended(); });
}

bool Job::AllClosed() const {
  // The daemon's streams stay open as long as it lives.
  const size_t first = daemon_ == nullptr ? 0 : 2;
  return std::all_of(streams_.begin() + static_cast<std::ptrdiff_t>(first), streams_.end(),
                     [](const Stream& stream) { return !stream.fd->valid(); });
}

bool Job::Backlogged() const {
  return output_.Full() || error_.Full();
}

int Job::PollTimeout() const {
  std::optional<Clock::time_point> next;
  for (const auto& deadline : {phase_deadline_, job_deadline_, drain_deadline_}) {
    if (deadline && (!next || *deadline < *next)) next = deadline;
  }
  if (!next) return -1;
  // Rounded up; otherwise the last fraction of a millisecond would be spent spinning.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3600 * 1000));
}

std::vector<int> Job::FailedProcesses() {
  std::vector<int> failed;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const std::optional<ChildEnd> end = ranks_[i].PollEnd();
    if (!end || !end->success()) failed.push_back(static_cast<int>(i));
  }
  return failed;
}

void Job::FinishOutput() {
  while (!output_.Empty() || !error_.Empty()) {
    pollfd events[] = {{.fd = output_.Empty() ? -1 : output_.fd(), .events = POLLOUT, .revents = 0},
                       {.fd = error_.Empty() ? -1 : error_.fd(), .events = POLLOUT, .revents = 0},
                       {.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    if (::poll(events, std::size(events), -1) < 0) continue;
    if (events[0].revents != 0) output_.Write();
    if (events[1].revents != 0) error_.Write();
    // A user who interrupts now does not want to wait for a slow reader.
    while (const std::optional<int> signal = signals_.Next()) {
      if (LauncherSignals::EndsJob(*signal)) return;
    }
  }
}

int Job::ExitStatus() {
  if (failed_rank_) return ranks_[static_cast<size_t>(*failed_rank_)].PollEnd()->ShellStatus();
  // Ranks that took a signal as a request and ended well have done as asked.
  const bool asked = own_status_ > kSignalStatusBase && own_status_ != kSignalStatusBase + SIGPIPE;
  const bool all_well = std::all_of(ranks_.begin(), ranks_.end(), [](ChildProcess& rank) {
    return rank.PollEnd() && rank.PollEnd()->success();
  });
  return asked && all_well ? 0 : own_status_;
}

}  // namespace harmonaize
