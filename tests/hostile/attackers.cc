#include "tests/hostile/attackers.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <random>

#include "src/base/clock.h"
#include "tests/hostile/attacks.h"
#include "tests/support/other_users.h"

namespace harmonaize::testing {
namespace {

/// A run that takes longer than this waits for something that it will not get, in seconds.
constexpr unsigned kRunWithinSeconds = 10;

/// How often the process that looks after the attackers looks, in microseconds.
constexpr useconds_t kReapEvery = 5000;

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// Waits for the child, for its status, and for what it and its own children have used.
ProcessorTime AwaitWithChildren(pid_t process, int* status = nullptr) {
  rusage used{};
  if (wait4(process, status, 0, &used) != process) return {};
  return {SecondsOf(used.ru_utime) + SecondsOf(used.ru_stime)};
}

/// A seed of its own for each turn.
uint64_t SeedOf(uint64_t seed, uint64_t turn) {
  std::seed_seq sequence{seed, seed >> 32, turn, turn >> 32};
  std::array<uint32_t, 2> words{};
  sequence.generate(words.begin(), words.end());
  return uint64_t{words[0]} << 32 | words[1];
}

/// The attacks to make, in an order that the seed decides, another one each time they are dealt.
std::vector<size_t> Deal(const AttackPlan& plan, uint64_t times_dealt) {
  std::vector<size_t> order;
  for (const size_t number : AttacksOf(plan)) {
    order.insert(order.end(), AllAttacks()[number].hosts > 1 ? kTimesOverHosts : 1, number);
  }
  std::shuffle(order.begin(), order.end(), std::mt19937_64(SeedOf(plan.seed, ~times_dealt)));
  return order;
}

RunTimes MakeAttack(const Attacker::Aim& aim, size_t number, uint64_t seed) {
  const Attack& attack = AllAttacks()[number];
  AttackTally& tally = aim.field->tallies[number];
  tally.runs.fetch_add(1);
  const uint64_t begun = MonotonicNanoseconds();
  std::fflush(nullptr);
  const pid_t run = fork();
  if (run == 0) {
    alarm(kRunWithinSeconds);
    Attacker attacker(aim, number, seed, attack.run_for);
    attack.run(attacker);
    _exit(0);
  }
  int status = 0;
  const ProcessorTime used = AwaitWithChildren(run, &status);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    tally.overdue.fetch_add(1);
  } else if (status != 0) {
    aim.field->findings.Note(
        fmt::format("the attack '{}' failed itself, with wait status {:#x}", attack.name, status));
  }
  return {static_cast<float>(MonotonicNanoseconds() - begun) * 1e-9f,
          static_cast<float>(used.seconds)};
}

/// Attackers take turns from one deal, so attacks come as often as they were dealt, and what a turn
/// is depends on the seed alone, whoever takes it.
int AttackForEver(const AttackPlan& plan, const Attacker::Aim& aim, size_t attacker) {
  const size_t attacks = Deal(plan, 0).size();
  while (true) {
    const uint64_t turn = aim.field->turns.fetch_add(1);
    const size_t number = Deal(plan, turn / attacks)[turn % attacks];
    aim.field->logs[attacker].Add(MakeAttack(aim, number, SeedOf(plan.seed, turn)));
  }
}

/// Says all that it may over somebody else's session.
void UseAnothersSocket(ControlSocket& socket) {
  JoinRequest join;
  join.id = MakeNamedId("accomplice:1");
  join.ranks = 1;
  const auto register_region =
      Encode(RegisterRegionRequest::kType, RegisterRegionRequest{.bytes = 4096});
  Result<SharedMemory> memory = CreateSharedMemory("accomplice", 4096);
  const int descriptor = memory.ok() ? memory->descriptor.get() : STDERR_FILENO;
  static_cast<void>(socket.Send(Encode(StatusRequest::kType, StatusRequest{})));
  static_cast<void>(socket.Send(register_region, std::span(&descriptor, 1)));
  static_cast<void>(socket.Send(Encode(JoinRequest::kType, join)));
  while (socket.Receive(5).ok()) continue;
}

/// Another user's process, which uses what descriptors it is given.
int BeAccomplice(const std::string& name) {
  const FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return 1;
  if (listen(listener.get(), 64) != 0) return 1;
  while (true) {
    ControlSocket giver(FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    if (!giver.valid()) continue;
    Result<ControlMessage> gift = giver.Receive(100);
    if (!gift.ok()) continue;
    for (FileDescriptor& descriptor : gift->descriptors) {
      ControlSocket socket(std::move(descriptor));
      UseAnothersSocket(socket);
    }
  }
}

/// Process number 1 of the attackers: starts them, and ends all of them when the time is up.
int LookAfterAttackers(const AttackPlan& plan, Field* field, double seconds) {
  const uint64_t until = MonotonicNanoseconds() + static_cast<uint64_t>(seconds * 1e9);
  const Attacker::Aim aim{plan.socket_paths,
                          fmt::format("harmonaize-hostile-{:x}", MonotonicNanoseconds()), field,
                          plan.ras_ports};
  StartAs(kCarol, [&] { return BeAccomplice(aim.accomplice); });
  for (int i = 0; i < plan.attackers; ++i) {
    StartAs(kBob, [&] { return AttackForEver(plan, aim, static_cast<size_t>(i)); });
  }
  while (MonotonicNanoseconds() < until) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    usleep(kReapEvery);
  }
  // Everybody of this process number space but this process.
  kill(-1, SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0) continue;
  return 0;
}

/// A child in a process number space of its own.
pid_t StartInOwnSpace(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t outside = fork();
  if (outside != 0) return outside;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (unshare(CLONE_NEWPID) != 0) _exit(125);
  const pid_t first = fork();
  if (first == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(body());
  }
  int status = 0;
  waitpid(first, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 124);
}

double OwnProcessorSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// Uses up what each run has used, at once, and sleeps until the run would have ended.
int Burn(std::span<const RunTimes> runs) {
  uint64_t until = MonotonicNanoseconds();
  double share = OwnProcessorSeconds();
  for (const RunTimes& run : runs) {
    until += static_cast<uint64_t>(static_cast<double>(run.seconds) * 1e9);
    share += static_cast<double>(run.processor_seconds);
    while (OwnProcessorSeconds() < share) continue;
    const uint64_t now = MonotonicNanoseconds();
    if (now < until) usleep(static_cast<useconds_t>((until - now) / 1000));
  }
  return 0;
}

/// The runs of an attacker, and what it took beside them.
std::vector<RunTimes> RunsWithRest(std::span<const RunTimes> runs, double seconds,
                                   double processor_seconds) {
  std::vector<RunTimes> all(runs.begin(), runs.end());
  for (const RunTimes& run : runs) {
    seconds -= static_cast<double>(run.seconds);
    processor_seconds -= static_cast<double>(run.processor_seconds);
  }
  all.push_back({static_cast<float>(std::max(seconds, 0.0)),
                 static_cast<float>(std::max(processor_seconds, 0.0))});
  return all;
}

}  // namespace

std::vector<size_t> AttacksOf(const AttackPlan& plan) {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < AllAttacks().size(); ++i) {
    const Attack& attack = AllAttacks()[i];
    if (attack.hosts > plan.hosts) continue;
    if (plan.only.empty() || plan.only == attack.name) numbers.push_back(i);
  }
  return numbers;
}

std::string WhyNoAttackers() {
  if (geteuid() != 0) return "only root can be several users";
  if (StatusOf(StartInOwnSpace([] { return 0; })) != 0) {
    return "this process may not make process number spaces";
  }
  return "";
}

Attackers::Attackers(const AttackPlan& plan, Field* field, double seconds) {
  for (RunLog& log : field->logs) log.Clear();
  space_ = StartInOwnSpace([&] { return LookAfterAttackers(plan, field, seconds); });
}

ProcessorTime Attackers::Wait() {
  return AwaitWithChildren(space_);
}

ProcessorTime BurnInstead(int processes, const Field& field, double seconds, ProcessorTime time) {
  // What no run accounts for was cut off by the end of the phase: everybody has a part of it.
  double rest = time.seconds;
  std::vector<double> own(static_cast<size_t>(processes), 0);
  for (size_t i = 0; i < own.size(); ++i) {
    for (const RunTimes& run : field.logs[i].runs()) {
      own[i] += static_cast<double>(run.processor_seconds);
    }
    rest -= own[i];
  }
  std::vector<pid_t> burners;
  for (size_t i = 0; i < own.size(); ++i) {
    const std::vector<RunTimes> runs =
        RunsWithRest(field.logs[i].runs(), seconds, own[i] + rest / processes);
    burners.push_back(StartAs(kBob, [&] { return Burn(runs); }));
  }
  ProcessorTime used;
  for (const pid_t burner : burners) used.seconds += AwaitWithChildren(burner).seconds;
  return used;
}

}  // namespace harmonaize::testing
