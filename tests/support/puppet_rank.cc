#include "tests/support/puppet_rank.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

namespace harmonaize::testing {
namespace {

/// What the puppet's process has.
class Puppet {
 public:
  Outcome Do(const Command& command) {
    Outcome outcome;
    outcome.result = Act(command, &outcome);
    if (outcome.result != ncclSuccess) {
      const std::string error = ncclGetLastError(next_ != nullptr ? next_ : current_);
      error.copy(outcome.error.data(), outcome.error.size() - 1);
    }
    return outcome;
  }

 private:
  ncclResult_t Act(const Command& command, Outcome* outcome) {
    switch (command.act) {
      case Act::kMakeId: return ncclGetUniqueId(&outcome->id);
      case Act::kMakeGrowId: return ncclCommGetUniqueId(current_, &outcome->id);
      case Act::kSum: return Sum(command);
      case Act::kWork: return DoWork(command);
      case Act::kWait: return WaitFor(command.wait, command.quiet, Ranks(), current_);
      case Act::kRevoke: return ncclCommRevoke(current_, NCCL_REVOKE_DEFAULT);
      case Act::kTakeNext: return TakeNext(command.aborts);
      case Act::kDropNext: return End(&next_, true);
      case Act::kEnd: return EndBoth(command.aborts);
      default: return MakeNext(command);
    }
  }

  ncclResult_t DoWork(const Command& command) {
    std::thread revoker;
    if (command.revokes_after_us >= 0) {
      revoker = std::thread([this, &command] {
        std::this_thread::sleep_for(std::chrono::microseconds(command.revokes_after_us));
        ncclCommRevoke(current_, NCCL_REVOKE_DEFAULT);
      });
    }
    const ncclResult_t result = WorkUntilFailure(command.work, Rank(), Ranks(), current_);
    if (revoker.joinable()) revoker.join();
    return result;
  }

  ncclResult_t MakeNext(const Command& command) {
    std::array<int, Command::kMostExcluded> excluded = command.excluded;
    switch (command.act) {
      case Act::kJoin: return ncclCommInitRank(&next_, command.ranks, command.id, command.rank);
      case Act::kJoinGrowth:
        return ncclCommGrow(nullptr, command.ranks, &command.id, command.rank, &next_, nullptr);
      case Act::kGrow: return ncclCommGrow(current_, command.ranks, nullptr, -1, &next_, nullptr);
      case Act::kSplit: return ncclCommSplit(current_, 0, Rank(), &next_, nullptr);
      default:
        return ncclCommShrink(current_, excluded.data(), command.excluded_count, &next_, nullptr,
                              command.aborts ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT);
    }
  }

  // Each rank gives other numbers at other times.
  ncclResult_t Sum(const Command& command) {
    const ncclComm_t communicator = next_ != nullptr ? next_ : current_;
    int rank = -1;
    int ranks = -1;
    if (ncclCommUserRank(communicator, &rank) != ncclSuccess || rank != command.rank ||
        ncclCommCount(communicator, &ranks) != ncclSuccess || ranks != command.ranks) {
      return ncclInternalError;
    }
    const auto number = [&](int of_rank, int at) {
      return (command.seed + 7919 * of_rank + at) % 1000;
    };
    std::vector<int> data(static_cast<size_t>(command.elements));
    for (int at = 0; at < command.elements; ++at) data[static_cast<size_t>(at)] = number(rank, at);
    const ncclResult_t result = ncclAllReduce(data.data(), data.data(), data.size(), ncclInt,
                                              ncclSum, communicator, nullptr);
    if (result != ncclSuccess) return result;
    for (int at = 0; at < command.elements; ++at) {
      int sum = 0;
      for (int other = 0; other < ranks; ++other) sum += number(other, at);
      if (data[static_cast<size_t>(at)] != sum) return ncclInternalError;
    }
    return ncclSuccess;
  }

  ncclResult_t TakeNext(bool aborts) {
    const ncclResult_t ended = End(&current_, aborts);
    current_ = std::exchange(next_, nullptr);
    return ended;
  }

  ncclResult_t EndBoth(bool aborts) {
    const ncclResult_t next_ended = End(&next_, aborts);
    const ncclResult_t ended = End(&current_, aborts);
    return ended != ncclSuccess ? ended : next_ended;
  }

  static ncclResult_t End(ncclComm_t* communicator, bool aborts) {
    const ncclComm_t ending = std::exchange(*communicator, nullptr);
    if (ending == nullptr) return ncclSuccess;
    return aborts ? ncclCommAbort(ending) : ncclCommDestroy(ending);
  }

  int Rank() const {
    int rank = 0;
    ncclCommUserRank(current_, &rank);
    return rank;
  }

  int Ranks() const {
    int ranks = 0;
    ncclCommCount(current_, &ranks);
    return ranks;
  }

  ncclComm_t current_ = nullptr;
  ncclComm_t next_ = nullptr;
};

/// The puppet's life: until the test closes its end.
void Obey(int channel) {
  Puppet puppet;
  Command command;
  while (recv(channel, &command, sizeof command, 0) == sizeof command) {
    const Outcome outcome = puppet.Do(command);
    if (send(channel, &outcome, sizeof outcome, MSG_NOSIGNAL) != sizeof outcome) return;
  }
}

}  // namespace

PuppetRank::PuppetRank(const std::string& socket_path) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    setenv("HARMONAIZE_SOCKET", socket_path.c_str(), 1);
    Obey(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  channel_ = FileDescriptor(ends[0]);
}

PuppetRank::~PuppetRank() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  AwaitEnd();
}

void PuppetRank::Tell(const Command& command) {
  EXPECT_FALSE(owes_answer_) << "process " << process_;
  EXPECT_EQ(send(channel_.get(), &command, sizeof command, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof command));
  owes_answer_ = true;
}

std::optional<Outcome> PuppetRank::Answer(std::chrono::seconds within) {
  pollfd answer{channel_.get(), POLLIN, 0};
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(within);
  if (poll(&answer, 1, static_cast<int>(milliseconds.count())) != 1) return std::nullopt;
  Outcome outcome;
  if (recv(channel_.get(), &outcome, sizeof outcome, 0) != sizeof outcome) return std::nullopt;
  owes_answer_ = false;
  return outcome;
}

void PuppetRank::Kill() {
  kill(process_, SIGKILL);
}

void PuppetRank::Stop() const {
  kill(process_, SIGSTOP);
}

void PuppetRank::GoOn() const {
  kill(process_, SIGCONT);
}

void PuppetRank::AwaitEnd() {
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

}  // namespace harmonaize::testing
