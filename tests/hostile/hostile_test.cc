// A hostile user beside an honest job of another: all that the wire offers is misused, by several
// attackers at once, and the job must not notice. The daemon lives, tells no tenant of another,
// answers, holds no more in the end than at the beginning, and obeys SIGTERM. With --hosts 2 there
// are two daemons that stand for two hosts: the job spans them, the attackers work together at
// both, and the link between the daemons must last.
//
// ctest runs it for some twenty seconds; scripts/hostile.sh for as long as wanted, and then it also
// measures at what rate the honest job goes on, compared with processes that burn as much of the
// processors' time and do not talk to the daemon. --help has the options.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "src/base/clock.h"
#include "tests/hostile/attackers.h"
#include "tests/hostile/attacks.h"
#include "tests/hostile/daemon_meter.h"
#include "tests/hostile/daemon_watch.h"
#include "tests/hostile/honest_job.h"
#include "tests/hostile/run_record.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_process.h"
#include "tests/support/other_users.h"
#include "tests/support/sanitized.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

/// Time, in seconds, by which a run may be longer so that each attack has a turn. On a machine that
/// others keep busy some attacks need longer than a phase.
constexpr double kLongestOvertime = 90;

/// What an honest tenant, or an operator, waits for at most, however busy the machine, in seconds.
constexpr double kPatienceSeconds = kSanitized ? 60 : 20;

/// What the daemon may need until it has cleared away what attackers left, in seconds.
constexpr double kSettleWithinSeconds = kSanitized ? 60 : 30;

/// Between two looks at the daemon and the job, in microseconds.
constexpr useconds_t kLookEvery = 200'000;

/// What the daemon's memory may grow by between the end of the warm-up and the end, in KiB. malloc
/// keeps what it was once given where a piece of it is still used, and which piece that is differs
/// from time to time; what leaks grows with every blow, of which there are ten thousands a second.
/// The sanitizers' allocator keeps more: what the attacks took that came after the warm-up.
constexpr long kMostGrowthKilobytes = kSanitized ? 256 * 1024 : 8 * 1024;
/// The same of a daemon that is linked with another. Its transport keeps what it needs for some
/// thousand messages, and remembers a quarter of a million operations that were cancelled.
constexpr long kMostGrowthOfLinkedKilobytes = kSanitized ? 256 * 1024 : 24 * 1024;

/// How long a daemon keeps the thread of a tenant that has gone, and more, in microseconds.
constexpr useconds_t kForgottenWithin = 1'500'000;

/// How long attackers are at work when the daemon is to end.
constexpr double kLastAttackSeconds = 2;

/// The least part of its rate that the honest job keeps.
constexpr double kLeastRate = 0.5;

struct Options {
  double seconds = 16;
  AttackPlan plan;
  bool measure_rate = false;
  double phase_seconds = 15;
  std::string json_path;
};
Options& TheOptions() {
  static Options options;
  return options;
}

double Now() {
  return static_cast<double>(MonotonicNanoseconds()) * 1e-9;
}

/// The daemons of a run, one a host. Two of them are a cluster on the loopback device.
class Daemons {
 public:
  explicit Daemons(int hosts) {
    // As long as ranks are waited for it is remembered that others of theirs have disagreed.
    const std::string config =
        "[ranks]\nformation_timeout_seconds = 5\n[ras]\nlisten = \"127.0.0.1:0\"\n";
    if (hosts == 1) {
      alone_.emplace(config, /*keep_log=*/true);
      all_.push_back(&*alone_);
    } else {
      cluster_.emplace(hosts, config, "", "", /*keep_logs=*/true);
      for (int host = 0; host < hosts; ++host) all_.push_back(&cluster_->daemon(host));
    }
  }
  const std::vector<DaemonProcess*>& all() const { return all_; }

 private:
  std::optional<DaemonProcess> alone_;
  std::optional<TestCluster> cluster_;
  std::vector<DaemonProcess*> all_;
};

/// The port at which a daemon answers NCCL's RAS clients, as its log tells.
uint16_t RasPortOf(const DaemonProcess& daemon) {
  const std::string before = "NCCL's RAS clients are answered at 127.0.0.1:";
  EXPECT_TRUE(daemon.WaitForLog(before));
  const std::string log = daemon.Log();
  return static_cast<uint16_t>(std::atoi(log.c_str() + log.find(before) + before.size()));
}

/// Daemons, an honest job, and what happens to them.
class HostileRun {
 public:
  explicit HostileRun(const Options& options) : options_(options), daemons_(options.plan.hosts) {
    for (DaemonProcess* const daemon : daemons_.all()) {
      EXPECT_EQ(chmod(daemon->folder().c_str(), 0755), 0);
      options_.plan.socket_paths.push_back(daemon->socket_path());
      options_.plan.ras_ports.push_back(RasPortOf(*daemon));
      watches_.emplace_back(daemon);
    }
  }

  void Run() {
    job_.emplace(options_.plan.socket_paths, &field());
    NoteBeginning();
    if (::testing::Test::HasFailure()) return;

    const double until = Now() + options_.seconds;
    const double warm_up = std::min(options_.phase_seconds, options_.seconds / 4);
    static_cast<void>(AttackFor(warm_up));
    record_.warm = CalmDown("after the warm-up");
    const double parts = options_.measure_rate ? 2 : 1;
    do {
      const double rest = std::max(until - Now(), options_.phase_seconds / 2);
      record_.phases.push_back(AttackFor(std::min(options_.phase_seconds, rest / parts)));
      record_.calm.push_back(CalmDown("after attacks"));
      if (options_.measure_rate) record_.phases.push_back(BurnAs(record_.phases.back()));
    } while (GoingWell() && (until - Now() > options_.phase_seconds / 2 ||
                             (Now() < until + kLongestOvertime && !AllMade())));
    Judge();
    if (!options_.json_path.empty()) {
      std::ofstream(options_.json_path) << record_.ToJson(options_.plan, field()) << "\n";
    }
  }

 private:
  Field& field() { return *field_.operator->(); }

  bool GoingWell() { return field_->findings.count() == 0 && DaemonsLive(); }

  /// Whether each attack has had a turn, and the last ones their time.
  bool AllMade() {
    for (const size_t number : AttacksOf(options_.plan)) {
      if (field_->tallies[number].blows.load() > 0) continue;
      std::printf("the attack '%s' has not been made yet\n", AllAttacks()[number].name);
      return false;
    }
    return true;
  }

  bool DaemonsLive() {
    return std::all_of(watches_.begin(), watches_.end(),
                       [](const DaemonWatch& watch) { return watch.DaemonLives(); });
  }

  /// What the daemons use together.
  DaemonSample SampleAll() {
    DaemonSample sum;
    for (const DaemonProcess* const daemon : daemons_.all()) sum += Sample(*daemon);
    return sum;
  }

  /// Returns how long the slowest daemon took to answer operators.
  double AskForStatus() {
    double longest = 0;
    for (const DaemonProcess* const daemon : daemons_.all()) {
      const double asked = Now();
      const Result<Holdings> holdings = FetchHoldings(*daemon);
      if (!holdings.ok()) Report("operators get no status: " + holdings.status().message());
      longest = std::max(longest, Now() - asked);
    }
    return longest;
  }

  void Report(const std::string& what) { field_->findings.Note(what); }

  /// Looks at daemons and job for so long.
  void Watch(double seconds, Phase* phase) {
    const double begun = Now();
    const uint64_t rounds_before = job_->rounds();
    const double processor_before = SampleAll().processor_seconds;
    uint64_t rounds = rounds_before;
    double progress_at = begun;
    job_->TakeLongestRound();
    job_->TakeLongestVisit();
    while (Now() - begun < seconds && GoingWell()) {
      usleep(kLookEvery);
      phase->most.RaiseTo(SampleAll());
      phase->longest_status = std::max(phase->longest_status, AskForStatus());
      if (job_->rounds() != std::exchange(rounds, job_->rounds())) progress_at = Now();
      if (Now() - progress_at > kPatienceSeconds) Report("the honest job stands still");
    }
    phase->seconds = Now() - begun;
    phase->rounds = static_cast<double>(job_->rounds() - rounds_before);
    phase->daemon_processor = SampleAll().processor_seconds - processor_before;
    phase->longest_round = job_->TakeLongestRound();
    phase->longest_visit = job_->TakeLongestVisit();
  }

  Phase AttackFor(double seconds) {
    Phase phase;
    phase.hostile = true;
    Attackers attackers(options_.plan, &field(), seconds);
    Watch(seconds, &phase);
    phase.others = attackers.Wait();
    Tell(phase);
    return phase;
  }

  /// As long as a hostile phase, with as many processes that use as much time.
  Phase BurnAs(const Phase& hostile) {
    Phase phase;
    const pid_t burners = fork();
    if (burners == 0) {
      burned_->seconds =
          BurnInstead(options_.plan.attackers, field(), hostile.seconds, hostile.others).seconds;
      _exit(0);
    }
    Watch(hostile.seconds, &phase);
    waitpid(burners, nullptr, 0);
    phase.others.seconds = burned_->seconds;
    Tell(phase);
    return phase;
  }

  void NoteBeginning() {
    job_->Pause();
    // Until nobody is here any more who asked whether the daemon answers.
    usleep(kForgottenWithin);
    for (DaemonWatch& watch : watches_) watch.NoteBeginning();
    record_.beginning = Calm("at the beginning");
  }

  /// Pauses the job, waits until the daemons hold no more than they had at the beginning, and says
  /// what they take then.
  DaemonSample CalmDown(const char* when) {
    job_->Pause();
    const double until = Now() + kSettleWithinSeconds;
    std::string difference = Difference();
    while (!difference.empty() && Now() < until && GoingWell()) {
      usleep(kLookEvery);
      difference = Difference();
    }
    if (!difference.empty()) Report(fmt::format("{}: {}", when, difference));
    for (const DaemonWatch& watch : watches_) {
      const std::string lost = watch.LostLinks();
      if (!lost.empty()) Report(fmt::format("{}: {}", when, lost));
    }
    // Operators' own thread goes as well, and with it what was freed last.
    usleep(kForgottenWithin);
    return Calm(when);
  }

  /// Requires: the job pauses. It goes on then.
  DaemonSample Calm(const char* when) {
    // With what operators' questions cost, as when what is left is compared.
    AskForStatus();
    const DaemonSample sample = SampleAll();
    TellCalm(when, sample);
    job_->Resume();
    return sample;
  }

  /// The first daemon's difference from the beginning; "" where no daemon has one.
  std::string Difference() {
    for (size_t host = 0; host < watches_.size(); ++host) {
      const std::string difference = watches_[host].Difference();
      if (difference.empty()) continue;
      return watches_.size() == 1 ? difference : fmt::format("at host {}: {}", host, difference);
    }
    return "";
  }

  void Judge() {
    EXPECT_TRUE(DaemonsLive());
    for (const std::string& finding : field_->findings.Texts()) ADD_FAILURE() << finding;
    EXPECT_EQ(field_->findings.count(), 0u);
    TellAttacks(options_.plan, field());
    if (::testing::Test::HasFailure()) return;
    for (const Phase& phase : record_.phases) {
      EXPECT_LE(phase.longest_round, kPatienceSeconds);
      EXPECT_LE(phase.longest_visit, kPatienceSeconds);
      EXPECT_LE(phase.longest_status, kPatienceSeconds);
    }
    const long growth = record_.LeastMemoryOfLast() - record_.warm.resident_kilobytes;
    const long most = options_.plan.hosts == 1 ? kMostGrowthKilobytes
                                               : kMostGrowthOfLinkedKilobytes * options_.plan.hosts;
    std::printf("memory has grown by %ld KiB since the warm-up; %ld may be\n", growth, most);
    EXPECT_LE(growth, most);
    if (options_.measure_rate) JudgeRate();
    EXPECT_TRUE(job_->Stop());
    EndUnderAttack();
  }

  /// SIGTERM is obeyed while attackers are at work.
  void EndUnderAttack() {
    Attackers attackers(options_.plan, &field(), kLastAttackSeconds);
    usleep(static_cast<useconds_t>(kLastAttackSeconds / 2 * 1e6));
    for (DaemonProcess* const daemon : daemons_.all()) {
      const double begun = Now();
      EXPECT_EQ(daemon->Stop(), 0);
      const size_t log_bytes = daemon->Log().size();
      record_.log_bytes += log_bytes;
      std::printf("the daemon ended %.2f s after SIGTERM, under attack; its log has %zu KiB\n",
                  Now() - begun, log_bytes / 1024);
    }
    attackers.Wait();
  }

  void JudgeRate() {
    const RunRecord::Rates rates = record_.rates();
    std::printf(
        "the honest job: %.1f rounds/s beside attackers, %.1f beside processes that burn as much "
        "time: %.2f of it\n",
        rates.hostile, rates.burners, rates.hostile / rates.burners);
    EXPECT_GE(rates.hostile, kLeastRate * rates.burners);
  }

  Options options_;
  Daemons daemons_;
  std::vector<DaemonWatch> watches_;
  SharedByProcesses<Field> field_;
  SharedByProcesses<ProcessorTime> burned_;
  std::optional<HonestJob> job_;
  RunRecord record_;
};

TEST(HostileTest, AnHonestJobBesideAttackers) {
  const std::string why_not = WhyNoAttackers();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  std::printf("seed %lu; again with --seed %lu\n", TheOptions().plan.seed, TheOptions().plan.seed);
  HostileRun(TheOptions()).Run();
}

/// The sanitizer keeps freed memory for a while, which would look like growth.
void LimitQuarantine() {
  const char* const known = std::getenv("ASAN_OPTIONS");
  const std::string more =
      "quarantine_size_mb=8:thread_local_quarantine_size_kb=64:allocator_release_to_os_interval_ms="
      "200";
  setenv("ASAN_OPTIONS", known == nullptr ? more.c_str() : (known + (":" + more)).c_str(), 1);
}

int ListAttacks(const AttackPlan& plan) {
  for (const size_t number : AttacksOf(plan)) {
    std::printf("%-22s %s\n", AllAttacks()[number].name, AllAttacks()[number].what);
  }
  return 0;
}

int Main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  Options& options = TheOptions();
  options.plan.seed = std::random_device()();
  options.phase_seconds = kSanitized ? 5 : 4;
  bool list = false;
  CLI::App app("A hostile user beside an honest job of another");
  app.add_option("--seconds", options.seconds, "For how long, the beginning and the end apart");
  app.add_option("--seed", options.plan.seed, "Of all that attackers draw; default: by chance");
  app.add_option("--hosts", options.plan.hosts, "One daemon for each, which the honest job spans")
      ->check(CLI::Range(1, 2));
  app.add_option("--attackers", options.plan.attackers, "At a time")
      ->check(CLI::Range(size_t{1}, kMostAttackers));
  app.add_option("--only", options.plan.only, "Make this attack only; see --list");
  app.add_flag("--rate", options.measure_rate,
               "Measure what the honest job's rate is, compared with processes that burn as much "
               "time; fail where it is less than half");
  app.add_option("--phase", options.phase_seconds, "Seconds of attacks between two looks");
  app.add_option("--json", options.json_path, "Write what was measured to this file");
  app.add_flag("--list", list, "List the attacks, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (list) return ListAttacks(options.plan);
  if (AttacksOf(options.plan).empty()) {
    std::fprintf(stderr, "there is no attack '%s' on so many hosts; see --list\n",
                 options.plan.only.c_str());
    return 2;
  }
  LimitQuarantine();
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace harmonaize::testing

int main(int argc, char** argv) {
  return harmonaize::testing::Main(argc, argv);
}
