// A hostile user beside an honest job of another: all that the wire offers is misused, by several
// attackers at once, and the job must not notice. The daemon lives, tells no tenant of another,
// answers, holds no more in the end than at the beginning, and obeys SIGTERM.
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
#include "tests/hostile/honest_job.h"
#include "tests/hostile/run_record.h"
#include "tests/support/daemon_process.h"
#include "tests/support/other_users.h"
#include "tests/support/sanitized.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

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
/// The same of its mappings: malloc's arenas for threads, and stacks that are kept for new ones;
/// with sanitizers, their allocator's blocks for each size.
constexpr int kMostNewMappings = kSanitized ? 512 : 64;
/// Regions that the honest job has at most: what each of its ranks asks for, and what it copies
/// through.
constexpr int64_t kMostHonestRegions = 8 * HonestJob::kRanks;

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

void RaiseAll(DaemonSample* most, const DaemonSample& sample) {
  const auto raise = [](auto* known, auto value) { *known = std::max(*known, value); };
  raise(&most->resident_kilobytes, sample.resident_kilobytes);
  raise(&most->proportional_kilobytes, sample.proportional_kilobytes);
  raise(&most->anonymous_kilobytes, sample.anonymous_kilobytes);
  raise(&most->descriptors, sample.descriptors);
  raise(&most->threads, sample.threads);
  raise(&most->mappings, sample.mappings);
}

/// A daemon, an honest job, and what happens to them.
class HostileRun {
 public:
  explicit HostileRun(const Options& options) : options_(options) {
    EXPECT_EQ(chmod(daemon_.folder().c_str(), 0755), 0);
    options_.plan.socket_path = daemon_.socket_path();
  }

  void Run() {
    job_.emplace(&field());
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
    } while (GoingWell() && (until - Now() > options_.phase_seconds / 2 || !AllMade()));
    Judge();
    if (!options_.json_path.empty()) {
      std::ofstream(options_.json_path) << record_.ToJson(options_.plan, field()) << "\n";
    }
  }

 private:
  Field& field() { return *field_.operator->(); }

  bool GoingWell() { return field_->findings.count() == 0 && DaemonLives(); }

  /// Whether each attack has had a turn, and the last ones their time.
  bool AllMade() {
    const std::vector<size_t> attacks = AttacksOf(options_.plan);
    return std::all_of(attacks.begin(), attacks.end(),
                       [this](size_t number) { return field_->tallies[number].blows.load() > 0; });
  }

  bool DaemonLives() {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(daemon_.pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid == 0;
  }

  void Report(const std::string& what) { field_->findings.Note(what); }

  /// Looks at daemon and job for so long.
  void Watch(double seconds, Phase* phase) {
    const double begun = Now();
    const uint64_t rounds_before = job_->rounds();
    const double processor_before = Sample(daemon_).processor_seconds;
    uint64_t rounds = rounds_before;
    double progress_at = begun;
    job_->TakeLongestRound();
    job_->TakeLongestVisit();
    while (Now() - begun < seconds && GoingWell()) {
      usleep(kLookEvery);
      RaiseAll(&phase->most, Sample(daemon_));
      const double asked = Now();
      const Result<Holdings> holdings = FetchHoldings(daemon_);
      if (!holdings.ok()) Report("operators get no status: " + holdings.status().message());
      phase->longest_status = std::max(phase->longest_status, Now() - asked);
      if (job_->rounds() != std::exchange(rounds, job_->rounds())) progress_at = Now();
      if (Now() - progress_at > kPatienceSeconds) Report("the honest job stands still");
    }
    phase->seconds = Now() - begun;
    phase->rounds = static_cast<double>(job_->rounds() - rounds_before);
    phase->daemon_processor = Sample(daemon_).processor_seconds - processor_before;
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
    const Result<Holdings> holdings = FetchHoldings(daemon_);
    ASSERT_TRUE(holdings.ok()) << holdings.status().message();
    std::printf("the honest job holds %s\n", Describe(*holdings).c_str());
    ASSERT_EQ(holdings->size(), 1u);
    ASSERT_EQ(holdings->count(kAlice), 1u);
    honest_holdings_ = *holdings;
    honest_regions_ = TakeMemory(&honest_holdings_);
    baseline_ = Sample(daemon_);
    descriptors_before_ = DescribeDescriptors(daemon_);
    record_.beginning = Calm("at the beginning");
  }

  /// Pauses the job, waits until the daemon holds no more than it had at the beginning, and says
  /// what it takes then.
  DaemonSample CalmDown(const char* when) {
    job_->Pause();
    const double until = Now() + kSettleWithinSeconds;
    std::string difference = Difference();
    while (!difference.empty() && Now() < until && GoingWell()) {
      usleep(kLookEvery);
      difference = Difference();
    }
    if (!difference.empty()) Report(fmt::format("{}: {}", when, difference));
    // Operators' own thread goes as well, and with it what was freed last.
    usleep(kForgottenWithin);
    return Calm(when);
  }

  /// Requires: the job pauses. It goes on then.
  DaemonSample Calm(const char* when) {
    // With what operators' questions cost, as when what is left is compared.
    static_cast<void>(FetchHoldings(daemon_));
    const DaemonSample sample = Sample(daemon_);
    TellCalm(when, sample);
    job_->Resume();
    return sample;
  }

  /// What the daemon holds now that it did not hold at the beginning; "" where there is nothing.
  std::string Difference() {
    const Result<Holdings> found = FetchHoldings(daemon_);
    if (!found.ok()) return found.status().message();
    // The honest job keeps more or less memory to copy through, as its ranks happened to overlap.
    Holdings holdings = *found;
    const int64_t regions = TakeMemory(&holdings);
    if (holdings != honest_holdings_) {
      return fmt::format("holdings are {}, and were {}", Describe(holdings),
                         Describe(honest_holdings_));
    }
    if (regions > kMostHonestRegions) return fmt::format("the honest job has {} regions", regions);
    const DaemonSample sample = Sample(daemon_);
    // Each region is a descriptor and a mapping.
    const auto more = static_cast<int>(regions - honest_regions_);
    if (sample.descriptors > baseline_.descriptors + more) {
      return fmt::format("{} descriptors ({}), and were {} ({}), with {} regions more",
                         sample.descriptors, DescribeDescriptors(daemon_), baseline_.descriptors,
                         descriptors_before_, more);
    }
    if (sample.threads > baseline_.threads) {
      return fmt::format("{} threads, and were {}", sample.threads, baseline_.threads);
    }
    if (sample.mappings > baseline_.mappings + more + kMostNewMappings) {
      return fmt::format("{} mappings, and were {}", sample.mappings, baseline_.mappings);
    }
    return "";
  }

  /// Removes what the honest user's memory is from the holdings; how many regions it has.
  static int64_t TakeMemory(Holdings* holdings) {
    std::map<std::string, int64_t>& honest = (*holdings)[kAlice];
    const int64_t regions = honest["regions"];
    for (const char* resource : {"regions", "bytes of registered memory", "descriptors of regions",
                                 "bytes of the daemon's memory"}) {
      honest.erase(resource);
    }
    return regions;
  }

  void Judge() {
    EXPECT_TRUE(DaemonLives());
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
    std::printf("memory has grown by %ld KiB since the warm-up; %ld may be\n", growth,
                kMostGrowthKilobytes);
    EXPECT_LE(growth, kMostGrowthKilobytes);
    if (options_.measure_rate) JudgeRate();
    EXPECT_TRUE(job_->Stop());
    EndUnderAttack();
  }

  /// SIGTERM is obeyed while attackers are at work.
  void EndUnderAttack() {
    Attackers attackers(options_.plan, &field(), kLastAttackSeconds);
    usleep(static_cast<useconds_t>(kLastAttackSeconds / 2 * 1e6));
    const double begun = Now();
    EXPECT_EQ(daemon_.Stop(), 0);
    record_.log_bytes = daemon_.Log().size();
    std::printf("the daemon ended %.2f s after SIGTERM, under attack; its log has %zu KiB\n",
                Now() - begun, record_.log_bytes / 1024);
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
  // As long as ranks are waited for it is remembered that others of theirs have disagreed.
  DaemonProcess daemon_{"[ranks]\nformation_timeout_seconds = 5\n", /*keep_log=*/true};
  SharedByProcesses<Field> field_;
  SharedByProcesses<ProcessorTime> burned_;
  std::optional<HonestJob> job_;
  DaemonSample baseline_;
  std::string descriptors_before_;
  Holdings honest_holdings_;  ///< Its memory apart.
  int64_t honest_regions_ = 0;
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

int ListAttacks() {
  for (const Attack& attack : AllAttacks()) std::printf("%-22s %s\n", attack.name, attack.what);
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
  if (list) return ListAttacks();
  if (AttacksOf(options.plan).empty()) {
    std::fprintf(stderr, "there is no attack '%s'; see --list\n", options.plan.only.c_str());
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
