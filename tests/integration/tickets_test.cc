// Newcomers that find a running job by its name and a ticket, on one host and on several.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/daemon_document.h"
#include "include/harmonaize.h"
#include "src/base/json_text.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_http.h"
#include "tests/support/hosts_case.h"
#include "tests/support/other_users.h"
#include "tests/support/rank_runner.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

constexpr char kJob[] = "elastic";
constexpr int kForEver = -1;
/// The longest wait for another process of a test.
constexpr std::chrono::seconds kPatience(kSanitized ? 120 : 30);
/// A wait, in milliseconds, after which nobody has been admitted.
constexpr int kShortWaitMs = 50;

/// What the processes of a test tell each other.
struct Board {
  std::array<char, HZ_TICKET_BYTES> ticket{};
  std::array<std::atomic<int>, 8> words{};
};

class Told {
 public:
  void Say(size_t word, int value = 1) { board_->words.at(word).store(value); }
  /// Waits until the word is said. Returns it; 0 if it was not said in time.
  int Hear(size_t word) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (board_->words.at(word).load() == 0 && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_NE(board_->words.at(word).load(), 0) << "word " << word << " was not said";
    return board_->words.at(word).load();
  }
  void Publish(const char* ticket, size_t word) {
    std::memcpy(board_->ticket.data(), ticket, board_->ticket.size());
    Say(word);
  }
  const char* Ticket(size_t word) {
    Hear(word);
    return board_->ticket.data();
  }

 private:
  SharedByProcesses<Board> board_;
};

/// Returns a ticket that a rank makes.
std::string NewTicket(ncclComm_t communicator, int uses, double seconds = 60) {
  char ticket[HZ_TICKET_BYTES] = "";
  EXPECT_NCCL(hzMakeTicket(communicator, uses, seconds, ticket));
  return ticket;
}

/// Waits until so many newcomers wait.
void AwaitNewcomers(ncclComm_t communicator, int count) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  int waiting = -1;
  while (waiting != count && std::chrono::steady_clock::now() < until) {
    ASSERT_NCCL(hzNewcomers(communicator, &waiting));
  }
  EXPECT_EQ(waiting, count);
}

/// The newcomer's part: joins by the ticket, and counts the ranks. Returns its communicator.
ncclComm_t JoinBy(const char* ticket) {
  hzPlace_t place = HZ_PLACE_INITIALIZER;
  ncclComm_t grown = nullptr;
  EXPECT_NCCL(hzJoinJob(kJob, ticket, kForEver, &place));
  EXPECT_NCCL(ncclCommGrow(nullptr, place.ranks, &place.id, place.rank, &grown, nullptr));
  if (grown == nullptr) return nullptr;
  EXPECT_EQ(CountRanks(grown), place.ranks);
  return grown;
}

/// A rank's part: one admits `count` newcomers, and all grow.
ncclComm_t AdmitAndGrow(ncclComm_t communicator, int rank, int count, Told* told, size_t word) {
  if (rank == 0) {
    AwaitNewcomers(communicator, count);
    int ranks = 0;
    EXPECT_NCCL(hzAdmit(communicator, count, &ranks));
    told->Say(word, ranks);
  }
  ncclComm_t grown = nullptr;
  const int ranks = told->Hear(word);
  EXPECT_NCCL(ncclCommGrow(communicator, ranks, nullptr, -1, &grown, nullptr));
  if (grown == nullptr) return nullptr;
  EXPECT_EQ(CountRanks(grown), ranks);
  return grown;
}

void Destroy(ncclComm_t communicator) {
  ASSERT_NE(communicator, nullptr);
  EXPECT_NCCL(ncclCommDestroy(communicator));
}

/// Returns what a newcomer is told that is refused.
std::string WhyRefused(const char* job, const char* ticket, ncclResult_t expected) {
  hzPlace_t place = HZ_PLACE_INITIALIZER;
  EXPECT_EQ(hzJoinJob(job, ticket, kForEver, &place), expected) << ncclGetLastError(nullptr);
  return ncclGetLastError(nullptr);
}

void ExpectContains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// Processes on hosts. The first `members` make a communicator of the job.
class TicketsTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { setenv("HARMONAIZE_JOB", kJob, 1); }
  void TearDown() override { unsetenv("HARMONAIZE_JOB"); }

  /// Runs members and newcomers, which take turns on the hosts of the cluster.
  void Run(int members, int newcomers, const std::function<void(int rank, ncclComm_t)>& member,
           const std::function<void(int index)>& newcomer) {
    TestCluster cluster(GetParam(), Impatient());
    std::vector<int> hosts;
    for (int i = 0; i < members + newcomers; ++i) hosts.push_back(i % GetParam());
    HostedRanks processes(&cluster, hosts);
    processes.Start([&](int process) {
      if (process >= members) {
        unsetenv("HARMONAIZE_JOB");
        newcomer(process - members);
        return 0;
      }
      ncclComm_t communicator = nullptr;
      const ncclUniqueId id = processes.ShareId(0, process == 0);
      EXPECT_NCCL(ncclCommInitRank(&communicator, members, id, process));
      if (communicator == nullptr) return 1;
      member(process, communicator);
      EXPECT_NCCL(ncclCommDestroy(communicator));
      return 0;
    });
    ExpectAllEndWell(&processes);
  }

  Told told_;
};

INSTANTIATE_TEST_SUITE_P(Hosts, TicketsTest, ::testing::Values(1, 2, 3),
                         [](const auto& one) { return "On" + std::to_string(one.param); });

TEST_P(TicketsTest, NewcomersBecomeRanks) {
  Run(
      2, 3,
      [&](int rank, ncclComm_t communicator) {
        if (rank == 1) told_.Publish(NewTicket(communicator, 3).c_str(), 0);
        ncclComm_t grown = AdmitAndGrow(communicator, rank, 3, &told_, 1);
        ASSERT_NE(grown, nullptr);
        EXPECT_EQ(told_.Hear(1), 5);
        int waiting = -1;
        EXPECT_NCCL(hzNewcomers(grown, &waiting));
        EXPECT_EQ(waiting, 0);
        int ranks = 0;
        EXPECT_NCCL(hzAdmit(grown, 8, &ranks));
        EXPECT_EQ(ranks, 5) << "nobody waits";
        EXPECT_EQ(CountRanks(grown), 5);
        EXPECT_NCCL(ncclCommDestroy(grown));
      },
      [&](int) {
        ncclComm_t grown = JoinBy(told_.Ticket(0));
        ASSERT_NE(grown, nullptr);
        EXPECT_EQ(CountRanks(grown), 5);
        EXPECT_NCCL(ncclCommDestroy(grown));
      });
}

TEST_P(TicketsTest, ANewcomerThatNobodyAdmitsIsToldSoAndKeepsItsTurn) {
  Run(
      2, 1,
      [&](int rank, ncclComm_t communicator) {
        if (rank == 0) told_.Publish(NewTicket(communicator, 1).c_str(), 0);
        told_.Hear(1);
        ncclComm_t grown = AdmitAndGrow(communicator, rank, 1, &told_, 2);
        Destroy(grown);
      },
      [&](int) {
        hzPlace_t place = HZ_PLACE_INITIALIZER;
        const char* const ticket = told_.Ticket(0);
        EXPECT_EQ(hzJoinJob(kJob, ticket, kShortWaitMs, &place), ncclInProgress);
        EXPECT_EQ(hzJoinJob(kJob, ticket, 0, &place), ncclInProgress);
        told_.Say(1);
        ncclComm_t grown = JoinBy(ticket);
        Destroy(grown);
      });
}

TEST_P(TicketsTest, TicketsThatCannotBeUsedAreRefusedWithTheReason) {
  Run(
      1, 1,
      [&](int, ncclComm_t communicator) {
        told_.Publish(NewTicket(communicator, 1, 0.01).c_str(), 0);
        told_.Hear(1);
        told_.Publish(NewTicket(communicator, 1).c_str(), 2);
        told_.Hear(3);
        EXPECT_NCCL(hzBurnTickets(communicator));
        told_.Say(4);
        told_.Hear(5);
      },
      [&](int) {
        const std::string expiring = told_.Ticket(0);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ExpectContains(WhyRefused(kJob, expiring.c_str(), ncclInvalidUsage), "expired");
        ExpectContains(WhyRefused(kJob, "hzt1_", ncclInvalidArgument), "no text of a ticket");
        // One letter of the secret, and one of the way to the home.
        std::string other = expiring;
        other[6] = other[6] == 'A' ? 'B' : 'A';
        ExpectContains(WhyRefused(kJob, other.c_str(), ncclInvalidUsage), "is not valid");
        told_.Say(1);
        const std::string good = told_.Ticket(2);
        ExpectContains(WhyRefused("another", good.c_str(), ncclInvalidUsage), "another job");
        told_.Say(3);
        told_.Hear(4);
        ExpectContains(WhyRefused(kJob, good.c_str(), ncclInvalidUsage), "burnt");
        told_.Say(5);
      });
}

TEST_P(TicketsTest, ABurningAndARevocationRefuseWhoWaits) {
  Run(
      2, 1,
      [&](int rank, ncclComm_t communicator) {
        if (rank == 0) told_.Publish(NewTicket(communicator, 5).c_str(), 0);
        // The rank that burns is on another host than the home.
        if (rank == 1) {
          told_.Hear(0);
          AwaitNewcomers(communicator, 1);
          EXPECT_NCCL(hzBurnTickets(communicator));
          told_.Hear(1);
          told_.Publish(NewTicket(communicator, 5).c_str(), 2);
          AwaitNewcomers(communicator, 1);
          EXPECT_NCCL(ncclCommRevoke(communicator, NCCL_REVOKE_DEFAULT));
        }
        told_.Hear(3);
      },
      [&](int) {
        ExpectContains(WhyRefused(kJob, told_.Ticket(0), ncclInvalidUsage), "burnt");
        told_.Say(1);
        ExpectContains(WhyRefused(kJob, told_.Ticket(2), ncclInvalidUsage), "burnt");
        told_.Say(3);
      });
}

TEST_P(TicketsTest, AUseServesOneNewcomerAndIsFreeAgainIfThatDies) {
  Run(
      1, 3,
      [&](int, ncclComm_t communicator) {
        told_.Publish(NewTicket(communicator, 1).c_str(), 0);
        AwaitNewcomers(communicator, 1);
        told_.Say(1);
        told_.Hear(2);
        AwaitNewcomers(communicator, 0);
        told_.Say(3);
        ncclComm_t grown = AdmitAndGrow(communicator, 0, 1, &told_, 4);
        ASSERT_NE(grown, nullptr);
        told_.Say(5);
        EXPECT_NCCL(ncclCommDestroy(grown));
        told_.Hear(6);
      },
      [&](int index) {
        const char* const ticket = told_.Ticket(0);
        hzPlace_t place = HZ_PLACE_INITIALIZER;
        if (index == 0) {
          // It waits, and dies with its connection.
          EXPECT_EQ(hzJoinJob(kJob, ticket, kShortWaitMs, &place), ncclInProgress);
          told_.Hear(7);
          told_.Say(2);
          return;
        }
        if (index == 1) {
          told_.Hear(1);
          ExpectContains(WhyRefused(kJob, ticket, ncclInvalidUsage), "held by newcomers");
          told_.Say(7);
          told_.Hear(5);
          ExpectContains(WhyRefused(kJob, ticket, ncclInvalidUsage), "used up");
          told_.Say(6);
          return;
        }
        told_.Hear(3);
        ncclComm_t grown = JoinBy(ticket);
        Destroy(grown);
      });
}

TEST_P(TicketsTest, AGrowthFailsWithANewcomerAndSucceedsWithAnother) {
  Run(
      2, 2,
      [&](int rank, ncclComm_t communicator) {
        if (rank == 0) {
          told_.Publish(NewTicket(communicator, 1).c_str(), 0);
          AwaitNewcomers(communicator, 1);
          int ranks = 0;
          EXPECT_NCCL(hzAdmit(communicator, 4, &ranks));
          EXPECT_EQ(ranks, 3);
          EXPECT_NCCL(hzAdmit(communicator, 4, &ranks));
          EXPECT_EQ(ranks, 3) << "the admission has not ended";
          told_.Say(1, ranks);
        }
        ncclComm_t grown = nullptr;
        // One rank waits when the newcomer dies, and the other comes later.
        const int ranks = told_.Hear(1);
        if (rank == 1) told_.Hear(2);
        EXPECT_EQ(ncclCommGrow(communicator, ranks, nullptr, -1, &grown, nullptr), ncclRemoteError);
        EXPECT_MENTIONS(nullptr, "newcomer");
        if (rank == 0) told_.Say(2);
        if (rank == 1) told_.Say(3);
        if (rank == 0) told_.Hear(3);
        grown = AdmitAndGrow(communicator, rank, 1, &told_, 4);
        Destroy(grown);
      },
      [&](int index) {
        const char* const ticket = told_.Ticket(0);
        hzPlace_t place = HZ_PLACE_INITIALIZER;
        if (index == 0) {
          EXPECT_NCCL(hzJoinJob(kJob, ticket, kForEver, &place));
          told_.Hear(1);
          return;  // and comes to no growth
        }
        told_.Hear(3);
        ncclComm_t grown = JoinBy(ticket);
        Destroy(grown);
      });
}

TEST_P(TicketsTest, AnAdmissionFailsWithARankOfTheJob) {
  Run(
      3, 1,
      [&](int rank, ncclComm_t communicator) {
        int ranks = 0;
        if (rank == 0) {
          told_.Publish(NewTicket(communicator, 1).c_str(), 0);
          AwaitNewcomers(communicator, 1);
          EXPECT_NCCL(hzAdmit(communicator, 1, &ranks));
          told_.Say(1, ranks);
        }
        if (rank == 1) return;  // it leaves instead of growing
        ncclComm_t grown = nullptr;
        EXPECT_NE(ncclCommGrow(communicator, told_.Hear(1), nullptr, -1, &grown, nullptr),
                  ncclSuccess);
        EXPECT_EQ(grown, nullptr);
        // The ranks that remain take the newcomer in, by the same ticket.
        const int excluded = 1;
        ncclComm_t smaller = nullptr;
        ASSERT_NCCL(ncclCommShrink(communicator, const_cast<int*>(&excluded), 1, &smaller, nullptr,
                                   NCCL_SHRINK_DEFAULT));
        grown = AdmitAndGrow(smaller, rank == 0 ? 0 : 1, 1, &told_, 2);
        Destroy(grown);
        Destroy(smaller);
      },
      [&](int) {
        const char* const ticket = told_.Ticket(0);
        hzPlace_t place = HZ_PLACE_INITIALIZER;
        ncclComm_t grown = nullptr;
        EXPECT_NCCL(hzJoinJob(kJob, ticket, kForEver, &place));
        EXPECT_EQ(place.ranks, 4);
        EXPECT_NE(ncclCommGrow(nullptr, place.ranks, &place.id, place.rank, &grown, nullptr),
                  ncclSuccess);
        Destroy(JoinBy(ticket));
      });
}

TEST_P(TicketsTest, TheJobEndsWithItsTickets) {
  TestCluster cluster(GetParam(), Impatient());
  HostedRanks processes(&cluster, {0, GetParam() - 1});
  processes.Start([&](int process) {
    if (process == 0) {
      ncclComm_t communicator = processes.Join(0);
      if (communicator == nullptr) return 1;
      told_.Publish(NewTicket(communicator, 5).c_str(), 0);
      told_.Hear(1);
      EXPECT_NCCL(ncclCommDestroy(communicator));
      return 0;
    }
    // The one rank's communicator is on another host than this process, or on the same.
    ncclComm_t other = processes.Join(1);
    const std::string ticket = told_.Ticket(0);
    told_.Say(1);
    Destroy(other);
    ExpectContains(WhyRefused(kJob, ticket.c_str(), ncclInvalidUsage), "ended");
    return 0;
  });
  ExpectAllEndWell(&processes);
}

TEST(Tickets, AreGoneWithTheDaemonThatKeepsThem) {
  setenv("HARMONAIZE_JOB", kJob, 1);
  TestCluster cluster(2, Impatient());
  Told told;
  HostedRanks processes(&cluster, {0, 1});
  processes.Start([&](int process) {
    if (process == 0) {
      ncclComm_t communicator = nullptr;
      const ncclUniqueId id = processes.ShareId(0, true);
      EXPECT_NCCL(ncclCommInitRank(&communicator, 1, id, 0));
      told.Publish(NewTicket(communicator, 5).c_str(), 0);
      told.Hear(1);
      return 0;
    }
    const std::string ticket = told.Ticket(0);
    hzPlace_t place = HZ_PLACE_INITIALIZER;
    EXPECT_EQ(hzJoinJob(kJob, ticket.c_str(), kShortWaitMs, &place), ncclInProgress);
    told.Say(2);
    ExpectContains(WhyRefused(kJob, ticket.c_str(), ncclRemoteError), "tickets are gone with it");
    told.Say(3);
    told.Hear(4);
    // Another daemon at that host knows nothing of the ticket, and it does not lead there.
    ExpectContains(WhyRefused(kJob, ticket.c_str(), ncclRemoteError), "hzMakeTicket");
    return 0;
  });
  told.Hear(2);
  cluster.daemon(0).Kill();
  told.Hear(3);
  cluster.Restart(0);
  told.Say(4);
  told.Say(1);
  ExpectAllEndWell(&processes);
  unsetenv("HARMONAIZE_JOB");
}

TEST(Tickets, AStolenOneIsOfNoUseToAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become two users";
  const DaemonProcess daemon;
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  Told told;
  const pid_t alice = StartAs(kAlice, [&] {
    setenv("HARMONAIZE_JOB", kJob, 1);
    ncclComm_t communicator = nullptr;
    ncclUniqueId id;
    EXPECT_NCCL(ncclGetUniqueId(&id));
    EXPECT_NCCL(ncclCommInitRank(&communicator, 1, id, 0));
    told.Publish(NewTicket(communicator, 5).c_str(), 0);
    told.Hear(1);
    int waiting = -1;
    EXPECT_NCCL(hzNewcomers(communicator, &waiting));
    EXPECT_EQ(waiting, 0);
    EXPECT_NCCL(hzBurnTickets(communicator));
    told.Say(2);
    told.Hear(3);
    Destroy(communicator);
    return 0;
  });
  const pid_t bob = StartAs(kBob, [&] {
    const std::string stolen = told.Ticket(0);
    std::string wrong = stolen;
    wrong[8] = wrong[8] == 'A' ? 'B' : 'A';
    const std::string answer = WhyRefused(kJob, stolen.c_str(), ncclInvalidUsage);
    ExpectContains(answer, "is not valid");
    EXPECT_EQ(WhyRefused(kJob, wrong.c_str(), ncclInvalidUsage), answer);
    const auto none = Ask(daemon.socket_path(), {.target = "/v1/jobs/nobodys/tickets"});
    EXPECT_EQ(Ask(daemon.socket_path(), {.target = "/v1/jobs/elastic/tickets"}), none);
    EXPECT_EQ(none.first, 404);
    told.Say(1);
    told.Hear(2);
    EXPECT_EQ(WhyRefused(kJob, stolen.c_str(), ncclInvalidUsage), answer) << "nothing to probe";
    told.Say(3);
    return 0;
  });
  EXPECT_EQ(StatusOf(alice), 0);
  EXPECT_EQ(StatusOf(bob), 0);
}

std::string ContentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Returns whether the secret part of a ticket is in the text.
bool Shows(const std::string& text, const std::string& ticket) {
  return text.find(ticket.substr(5, 20)) != std::string::npos;
}

// The newcomer reads its ticket from a file.
TEST(Tickets, AreNowhereToBeRead) {
  setenv("HARMONAIZE_JOB", kJob, 1);
  TestCluster cluster(1, Impatient(), "", "", true);
  const std::string& folder = cluster.daemon(0).folder();
  const std::string file = folder + "/ticket";
  const std::string log = folder + "/client-log";
  Told told;
  HostedRanks processes(&cluster, {0, 0});
  processes.Start([&](int process) {
    setenv("NCCL_DEBUG", "TRACE", 1);
    setenv("NCCL_DEBUG_SUBSYS", "ALL", 1);
    setenv("NCCL_DEBUG_FILE", (log + std::to_string(process)).c_str(), 1);
    setenv("HARMONAIZE_TICKET_FILE", file.c_str(), 1);
    if (process == 0) {
      ncclComm_t communicator = nullptr;
      const ncclUniqueId id = processes.ShareId(0, true);
      EXPECT_NCCL(ncclCommInitRank(&communicator, 1, id, 0));
      const std::string ticket = NewTicket(communicator, 5);
      std::ofstream(file) << ticket << "\n";
      EXPECT_EQ(chmod(file.c_str(), 0600), 0);
      told.Publish(ticket.c_str(), 0);
      ncclComm_t grown = AdmitAndGrow(communicator, 0, 1, &told, 1);
      told.Hear(2);
      Destroy(grown);
      Destroy(communicator);
      return 0;
    }
    const std::string ticket = told.Ticket(0);
    EXPECT_EQ(chmod(file.c_str(), 0644), 0);
    ExpectContains(WhyRefused(kJob, nullptr, ncclInvalidUsage), "chmod 600");
    EXPECT_EQ(chmod(file.c_str(), 0600), 0);
    ncclComm_t grown = JoinBy(nullptr);
    for (const char* const of_process : {"/proc/self/environ", "/proc/self/cmdline"}) {
      EXPECT_FALSE(Shows(ContentOf(of_process), ticket));
    }
    const std::string& socket = cluster.daemon(0).socket_path();
    for (const char* const target :
         {"/v1/jobs", "/v1/jobs/elastic", "/v1/jobs/elastic/tickets", "/v1/events?from=start"}) {
      const Answer answer = Ask(socket, {.target = target});
      EXPECT_EQ(answer.first, 200) << target;
      EXPECT_FALSE(Shows(JsonText(answer.second), ticket)) << target;
    }
    const Result<std::string> status = FetchDaemonStatus(socket);
    EXPECT_TRUE(status.ok() && !Shows(*status, ticket));
    told.Say(2);
    Destroy(grown);
    return 0;
  });
  ExpectAllEndWell(&processes);
  const std::string ticket = ContentOf(file);
  EXPECT_TRUE(Shows(ticket, ticket));
  EXPECT_FALSE(Shows(cluster.daemon(0).Log(), ticket));
  for (const char* const process : {"0", "1"}) {
    const std::string text = ContentOf(log + process);
    EXPECT_FALSE(text.empty());
    EXPECT_FALSE(Shows(text, ticket));
    unlink((log + process).c_str());
  }
  unlink(file.c_str());
  unsetenv("HARMONAIZE_JOB");
}

}  // namespace
}  // namespace harmonaize::testing
