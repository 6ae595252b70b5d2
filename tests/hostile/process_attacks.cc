// What a tenant's processes can do while the daemon works for them.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "tests/hostile/attacks.h"

namespace harmonaize::testing {
namespace {

/// What is reduced in mid-operation, in bytes: it takes some milliseconds.
constexpr uint64_t kLargeBytes = uint64_t{8} << 20;

/// The id by which helpers of one run meet.
UniqueId DrawMeeting(Attacker& attacker) {
  return DrawId(attacker);
}

/// One of `ranks` ranks: joins, and posts large all-reduces for ever. Ends where it is refused.
void BeRank(Attacker& attacker, const UniqueId& id, int ranks, int rank) {
  std::optional<HostileSession> session = attacker.Greet();
  const Result<SharedMemory> memory = CreateSharedMemory("rank", kLargeBytes);
  if (!session.has_value() || !memory.ok()) return;
  const Result<uint32_t> region = session->TryRegister(memory->descriptor.get(), kLargeBytes);
  if (!attacker.Count(region.status())) return;
  const Result<uint32_t> member = session->TryJoin(id, ranks, rank);
  if (!attacker.Count(member.status())) return;
  const MemberSlot& slot = session->segment().members[*member];
  while (slot.state.load() == static_cast<uint32_t>(MemberState::kForming)) usleep(200);
  const std::atomic<uint64_t>& completed = session->segment().streams[*member].completed;
  for (uint64_t sequence = 0;; ++sequence) {
    OperationDescriptor descriptor =
        HostileSession::AllReduceOf(*member, sequence, {0, *region}, {kLargeBytes / 2, *region});
    descriptor.count = kLargeBytes / 2 / sizeof(int32_t);
    session->Post(descriptor);
    attacker.CountBlows();
    // Some are on their way at once.
    while (completed.load() + 4 < sequence) {
      if (session->socket().PeerGone()) return;
      usleep(200);
    }
  }
}

void KeepAcrossExec(int descriptor) {
  fcntl(descriptor, F_SETFD, 0);
}

/// Becomes another program, which keeps the session's socket: one that waits, or one that runs as
/// root.
void BecomeAnotherProgram(uint64_t which) {
  static const std::array<std::array<const char*, 4>, 4> kPrograms = {{
      {"/bin/sleep", "0.05", nullptr, nullptr},
      {"/bin/su", "-c", "true", nullptr},
      {"/usr/bin/passwd", "--status", nullptr, nullptr},
      {"/bin/cat", nullptr, nullptr, nullptr},
  }};
  const int nothing = open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, standard);
  std::array<char*, 5> arguments{};
  for (size_t i = 0; i < 4; ++i) arguments[i] = const_cast<char*>(kPrograms[which][i]);
  execv(arguments[0], arguments.data());
}

}  // namespace

void ExecInMidOperation(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const uint64_t program = attacker.DrawBelow(4);
    const bool during = attacker.OneIn(2);
    Helper process([&] {
      std::optional<Gang> gang = Gang::Form(attacker, 2, kLargeBytes);
      if (!gang.has_value()) return;
      gang->PostAll(Collective::kAllReduce, UINT64_MAX);
      if (during) gang->session().Post(gang->Next(0, Collective::kAllReduce, 1, DataType::kInt32));
      KeepAcrossExec(gang->session().socket().fd());
      attacker.CountBlows();
      BecomeAnotherProgram(program);
    });
    usleep(static_cast<useconds_t>(5'000 + attacker.DrawBelow(20'000)));
  }
}

void ForkInMidOperation(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const uint64_t lives_us = attacker.DrawBelow(15'000);
    const Helper parent([&] {
      std::optional<Gang> gang = Gang::Form(attacker, 2, kLargeBytes);
      if (!gang.has_value()) return;
      gang->PostAll(Collective::kAllReduce, UINT64_MAX);
      // The child, and its own, go on with what the parent leaves.
      const pid_t child = fork();
      const pid_t grandchild = child == 0 ? fork() : -1;
      for (int i = 0; i < 20 && !gang->session().socket().PeerGone(); ++i) {
        gang->PostAll(Collective::kAllReduce, 5000);
        if (attacker.OneIn(2))
          gang->session().Send(Encode(CreateIdRequest::kType, CreateIdRequest{}));
        attacker.CountBlows();
        usleep(500);
      }
      if (grandchild > 0) kill(grandchild, SIGKILL);
      if (grandchild == 0 || child == 0) _exit(0);
    });
    usleep(static_cast<useconds_t>(5'000 + lives_us));
  }
}

void KillARank(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const UniqueId id = DrawMeeting(attacker);
    const uint64_t lives_us = attacker.DrawBelow(30'000);
    Helper first([&] { BeRank(attacker, id, 3, 0); });
    Helper second([&] { BeRank(attacker, id, 3, 1); });
    Helper third([&] { BeRank(attacker, id, 3, 2); });
    usleep(static_cast<useconds_t>(5'000 + lives_us));
    second.Kill();
    usleep(3'000);
  }
}

void StopARank(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const UniqueId id = DrawMeeting(attacker);
    const uint64_t lives_us = attacker.DrawBelow(30'000);
    Helper first([&] { BeRank(attacker, id, 2, 0); });
    Helper second([&] { BeRank(attacker, id, 2, 1); });
    usleep(static_cast<useconds_t>(5'000 + lives_us));
    kill(second.process(), SIGSTOP);
    usleep(static_cast<useconds_t>(attacker.DrawBelow(60'000)));
    if (attacker.OneIn(2)) kill(second.process(), SIGCONT);
    usleep(3'000);
  }
}

}  // namespace harmonaize::testing
