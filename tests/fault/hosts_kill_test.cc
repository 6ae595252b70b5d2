// Ranks and daemons die, or fall silent, while communicators span several hosts: the others are
// told who is lost, nothing hangs, nothing piles up, and no text that a tenant gets tells where
// anything is.
//
// HARMONAIZE_TEST_ROUNDS sets the number of rounds; the default keeps the suite short.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "harmonaize.h"
#include "src/base/clock.h"
#include "src/base/json_text.h"
#include "tests/support/cluster.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;

constexpr double kPromisedSeconds = kSanitized ? 30 : 3;
// For a rank that dies before it has asked to join.
constexpr const char* kRanksConfig = kSanitized ? "[ranks]\nformation_timeout_seconds = 5\n"
                                                : "[ranks]\nformation_timeout_seconds = 1.5\n";
// PlanTable change all the while.
constexpr const char* kChangingPlans = "[plans]\nswitch_every_ms = 50\n";
/// Seconds after which a question that is asked again and again hangs.
constexpr double kHangs = kSanitized ? 120 : 30;
/// Most lost ranks that a test asks for.
constexpr int kMostFound = 16;
constexpr int kDefaultRounds = kSanitized ? 4 : 40;

int Rounds() {
  const char* given = std::getenv("HARMONAIZE_TEST_ROUNDS");
  return given == nullptr ? kDefaultRounds : std::atoi(given);
}

/// How a rank ended.
enum Outcome : int {
  kToldWhoIsLost = 0,
  kNeverFormed = 10,
  kFinished = 20,
  kWrongError = 21,
  kNotNamed = 22,
  kTooLate = 23
};

/// Host names of the provider and of tenants, which this test gives where it may.
constexpr char kProvidersHostName[] = "provider-host-4711";
constexpr char kTenantsHostName[] = "tenant";

/// What the process and its children call their host. False: it may not.
bool TakeHostName(const std::string& name) {
  return unshare(CLONE_NEWUTS) == 0 && sethostname(name.data(), name.size()) == 0;
}

/// Where the ranks' output goes: all that a tenant gets to see.
class TenantTexts {
 public:
  TenantTexts() { folder_ = mkdtemp(name_); }
  ~TenantTexts() { std::filesystem::remove_all(folder_); }

  /// In a rank: from here on what it prints is kept.
  void Redirect(const std::string& name) const {
    TakeHostName(kTenantsHostName);
    const int file = open((folder_ + "/" + name).c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    setenv("NCCL_DEBUG", "TRACE", 1);
  }
  /// Afterwards. A tenant was given the way to its own daemon, and may find it in its own log.
  /// Returns the rank's text.
  std::string Collect(const std::string& name, const std::string& own_socket) {
    std::ifstream file(folder_ + "/" + name);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (size_t at = text.find(own_socket); at != std::string::npos; at = text.find(own_socket)) {
      text.replace(at, own_socket.size(), "(its own socket)");
    }
    all_ += text;
    return text;
  }
  const std::string& all() const { return all_; }

 private:
  char name_[32] = "/tmp/harmonaize-texts-XXXXXX";
  std::string folder_;
  std::string all_;
};

/// What the ranks and the test share of a round.
struct Moment {
  std::atomic<uint64_t> killed_ns{0};

  double SecondsSince() const {
    const uint64_t killed = killed_ns.load();
    return killed == 0 ? 0 : static_cast<double>(MonotonicNanoseconds() - killed) * 1e-9;
  }
};
using SharedMoment = SharedByProcesses<Moment>;

/// All kinds of operations, over and over, until one fails.
ncclResult_t SweepUntilError(ncclComm_t communicator, int rank, int ranks) {
  constexpr size_t kLargest = size_t{1} << 18;
  const auto all = static_cast<size_t>(ranks);
  void* registered = nullptr;
  if (ncclMemAlloc(&registered, kLargest * sizeof(float)) != ncclSuccess) return ncclSystemError;
  std::vector<float> heap(kLargest, 1.0f);
  for (int i = 0; i < 100000; ++i) {
    const size_t count = size_t{1} << (i % 19);
    const size_t share = std::max<size_t>(count / all, 1);
    void* buffer = i % 2 == 0 ? registered : heap.data();
    ncclResult_t result = ncclSuccess;
    switch (i % 5) {
      case 0:
      case 1:
        result = ncclAllReduce(buffer, buffer, count, ncclFloat, ncclMax, communicator, nullptr);
        break;
      case 2:
        result = ncclBroadcast(buffer, buffer, count, ncclFloat, i % ranks, communicator, nullptr);
        break;
      case 3: {
        std::vector<float> received(share * all);
        std::vector<float> sent(share * all);
        result =
            ncclAlltoAll(sent.data(), received.data(), share, ncclFloat, communicator, nullptr);
        break;
      }
      default: {
        std::vector<float> received(count);
        ncclGroupStart();
        ncclSend(buffer, count, ncclFloat, (rank + 1) % ranks, communicator, nullptr);
        ncclRecv(received.data(), count, ncclFloat, (rank + ranks - 1) % ranks, communicator,
                 nullptr);
        result = ncclGroupEnd();
        break;
      }
    }
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

bool IsDigit(char letter) {
  return letter >= '0' && letter <= '9';
}

/// The numbers in "rank 3" and in "ranks 1, 3", wherever they stand in the text.
std::vector<int> RanksNamedIn(const std::string& text) {
  std::vector<int> ranks;
  for (size_t at = text.find("rank"); at != std::string::npos; at = text.find("rank", at)) {
    at += 4;
    if (at < text.size() && text[at] == 's') ++at;
    while (at + 1 < text.size() && text[at] == ' ' && IsDigit(text[at + 1])) {
      int rank = 0;
      for (++at; at < text.size() && IsDigit(text[at]); ++at) rank = 10 * rank + text[at] - '0';
      ranks.push_back(rank);
      if (at < text.size() && text[at] == ',') ++at;
    }
  }
  return ranks;
}

bool NamesOneOf(const std::string& text, const std::vector<int>& lost) {
  const std::vector<int> named = RanksNamedIn(text);
  return std::any_of(lost.begin(), lost.end(), [&](int rank) {
    return std::find(named.begin(), named.end(), rank) != named.end();
  });
}

/// A rank's life in a round. `lost`: whom its error must name; empty: anything will do, since its
/// own daemon is the victim.
int LiveUntilError(HostedRanks* ranks, int rank, const std::vector<int>& lost,
                   const SharedMoment& moment, bool cleans_up) {
  const ncclUniqueId id = ranks->ShareId(0, rank == 0);
  ncclComm_t communicator = nullptr;
  ncclResult_t result = ncclCommInitRank(&communicator, ranks->ranks(), id, rank);
  const bool formed = result == ncclSuccess;
  if (formed) result = SweepUntilError(communicator, rank, ranks->ranks());
  const double seconds = moment->SecondsSince();
  const std::string error = ncclGetLastError(communicator);
  std::fprintf(stderr, "rank %d: %d after %.3f s: %s\n", rank, result, seconds, error.c_str());
  if (cleans_up && formed) ncclCommAbort(communicator);
  if (result == ncclSuccess) return kFinished;
  if (seconds > kPromisedSeconds) return kTooLate;
  if (!formed) return kNeverFormed;
  if (result != ncclRemoteError) return kWrongError;
  // Another rank may have heard of the loss, and aborted, before this one's daemon has.
  if (cleans_up && error.find("aborted the communicator") != std::string::npos) {
    return kToldWhoIsLost;
  }
  return lost.empty() || NamesOneOf(error, lost) ? kToldWhoIsLost : kNotNamed;
}

struct Round {
  int number = 0;
  std::vector<int> host_of_rank;
  bool kills_daemon = false;
  int victim = 0;  // a rank, or a host
  int after_us = 0;
};

Round MakeRound(int number, std::mt19937* random) {
  const auto pick = [random](int limit) {
    return static_cast<int>((*random)() % static_cast<unsigned>(limit));
  };
  Round round{.number = number, .host_of_rank = {}};
  const int ranks = 3 + pick(3);
  const int hosts = 2 + pick(3);
  // Host 3 is in each, and is never killed, so that it shows what piles up.
  for (int rank = 0; rank < ranks; ++rank) {
    round.host_of_rank.push_back(rank == ranks - 1 ? 3 : 3 - pick(hosts));
  }
  if (round.host_of_rank[0] == 3 && hosts > 1) round.host_of_rank[0] = 2 - pick(hosts - 1);
  round.kills_daemon = number % 4 == 3;
  round.victim = round.kills_daemon ? round.host_of_rank[0] : pick(ranks);
  if (round.kills_daemon && number % 8 == 3) {
    for (const int host : round.host_of_rank) {
      if (host != 3) round.victim = host;  // perhaps not the home
    }
  }
  // A fifth of the rounds hits communicators while they form.
  round.after_us = number % 5 == 4 ? pick(6000) : 10000 + pick(60000);
  return round;
}

std::vector<int> LostIn(const Round& round) {
  if (!round.kills_daemon) return {round.victim};
  std::vector<int> lost;
  for (size_t rank = 0; rank < round.host_of_rank.size(); ++rank) {
    if (round.host_of_rank[rank] == round.victim) lost.push_back(static_cast<int>(rank));
  }
  return lost;
}

std::string TextName(const Round& round, int rank) {
  return "round-" + std::to_string(round.number) + "-rank-" + std::to_string(rank);
}

void Play(TestCluster* cluster, const Round& round, TenantTexts* texts) {
  SharedMoment moment;
  const std::vector<int> lost = LostIn(round);
  HostedRanks ranks(cluster, round.host_of_rank);
  ranks.Start([&](int rank) {
    texts->Redirect(TextName(round, rank));
    const bool own =
        round.kills_daemon && round.host_of_rank[static_cast<size_t>(rank)] == round.victim;
    return LiveUntilError(&ranks, rank, own ? std::vector<int>{} : lost, moment,
                          round.number % 2 == 0);
  });
  // A rank that waits for an id whose maker is dead waits for ever; that is not under test.
  ranks.ShareId(0, false);
  std::this_thread::sleep_for(std::chrono::microseconds(round.after_us));
  moment->killed_ns = MonotonicNanoseconds();
  if (round.kills_daemon) {
    cluster->daemon(round.victim).Kill();
  } else {
    kill(ranks.process(round.victim), SIGKILL);
  }
  const std::vector<int> statuses = ranks.Wait();
  for (int rank = 0; rank < ranks.ranks(); ++rank) {
    const int status = statuses[static_cast<size_t>(rank)];
    const std::string text = texts->Collect(
        TextName(round, rank),
        cluster->daemon(round.host_of_rank[static_cast<size_t>(rank)]).socket_path());
    if (!round.kills_daemon && rank == round.victim) continue;
    EXPECT_TRUE(WIFEXITED(status) &&
                (WEXITSTATUS(status) == kToldWhoIsLost || WEXITSTATUS(status) == kNeverFormed))
        << "round " << round.number << ", rank " << rank << " of " << ranks.ranks() << " at host "
        << round.host_of_rank[static_cast<size_t>(rank)] << ": status " << status << "; killed "
        << (round.kills_daemon ? "daemon " : "rank ") << round.victim << " after " << round.after_us
        << " us\n"
        << text.substr(text.size() - std::min<size_t>(text.size(), 2000));
  }
  if (round.kills_daemon) cluster->Restart(round.victim);
}

/// Links all daemons with each other, and shows that they serve.
void RunHealthyJob(TestCluster* cluster) {
  RunOnHosts(cluster, {0, 1, 2, 3, 3}, [](int rank, ncclComm_t communicator) {
    std::vector<float> data(10000, static_cast<float>(rank));
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclMax,
                              communicator, nullptr));
    EXPECT_EQ(data.back(), 4.0f);
    std::vector<float> received(data.size());
    EXPECT_NCCL(ncclAlltoAll(data.data(), received.data(), 2000, ncclFloat, communicator, nullptr));
  });
}

/// What a daemon's transport holds; see StatusReport.
nlohmann::json TransportOf(DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  return ReadJson(*status).at("daemon").at("transport");
}

void ExpectNothingTold(const std::string& texts, TestCluster* cluster,
                       const std::vector<std::string>& logs) {
  std::vector<std::string> secrets = {"127.0.0.1", "/state", "provider.toml", "key_file",
                                      kProvidersHostName};
  const std::string address = "127.0.0.1:";
  for (const std::string& log : logs) {
    for (size_t at = log.find(address); at != std::string::npos; at = log.find(address, at)) {
      const size_t port = at += address.size();
      while (at < log.size() && IsDigit(log[at])) ++at;
      secrets.push_back(log.substr(port - 1, at - port + 1));  // with its colon
    }
  }
  for (int host = 0; host < cluster->hosts(); ++host) {
    secrets.push_back(cluster->daemon(host).folder());
  }
  EXPECT_GT(secrets.size(), 8u) << "the logs name no addresses: is this test still looking?";
  for (const std::string& secret : secrets) {
    const size_t at = texts.find(secret);
    if (at == std::string::npos) continue;
    const size_t line_begin = texts.rfind('\n', at) + 1;
    const std::string line = texts.substr(line_begin, texts.find('\n', at) - line_begin);
    ADD_FAILURE() << "tenants are told '" << secret << "': " << line;
  }
}

TEST(HostsKill, TheOthersAreToldAndNothingPilesUp) {
  if (!TakeHostName(kProvidersHostName)) {
    std::puts("not permitted to give host names: only addresses and paths are looked for");
  }
  TestCluster cluster(4, std::string(kRanksConfig) + kChangingPlans, "", "", /*keep_logs=*/true);
  TenantTexts texts;
  std::vector<std::string> logs;
  std::mt19937 random(4711);
  RunHealthyJob(&cluster);
  constexpr int kWarmUp = 8;
  for (int number = 0; number < kWarmUp; ++number) {
    Play(&cluster, MakeRound(number, &random), &texts);
  }
  RunHealthyJob(&cluster);
  DaemonProcess& witness = cluster.daemon(3);
  std::this_thread::sleep_for(milliseconds(300));
  const int descriptors = witness.OpenDescriptors();
  const int mappings = witness.Mappings();
  const long resident = witness.ResidentKilobytes();
  const int rounds = Rounds();
  for (int number = 0; number < rounds && !::testing::Test::HasFailure(); ++number) {
    Play(&cluster, MakeRound(kWarmUp + number, &random), &texts);
    if (number % 10 == 9) RunHealthyJob(&cluster);
  }
  RunHealthyJob(&cluster);
  EXPECT_TRUE(witness.SettlesTo(descriptors))
      << witness.OpenDescriptors() << ", before " << descriptors;
  const nlohmann::json transport = TransportOf(witness);
  EXPECT_EQ(transport.at("arrivals_waiting"), 0) << transport;
  EXPECT_EQ(transport.at("requests_under_way"), 0) << transport;
  if (!kSanitized) {
    EXPECT_LE(witness.Mappings(), mappings + 30);
    EXPECT_LE(witness.ResidentKilobytes(), resident + 16384 + rounds);
  }
  for (int host = 0; host < cluster.hosts(); ++host) logs.push_back(cluster.daemon(host).Log());
  EXPECT_NE(texts.all().find("(its own socket)"), std::string::npos) << "were logs collected?";
  ExpectNothingTold(texts.all(), &cluster, logs);
}

// Silence: a daemon that is stopped answers nobody, but its connections stand.
TEST(HostsKill, ADaemonThatFallsSilentIsTakenForDead) {
  TestCluster cluster(4, "", "dead_after_seconds = 0.8\n");
  RunHealthyJob(&cluster);
  for (const int silent : {1, 0}) {  // not the home, and the home
    SharedMoment moment;
    HostedRanks ranks(&cluster, {0, 1, 2, 1, 3});
    ranks.Start([&](int rank) {
      const int host = rank == 3 ? 1 : rank == 4 ? 3 : rank;
      const std::vector<int> lost = silent == 0 ? std::vector<int>{0} : std::vector<int>{1, 3};
      // Those of the silent host hear of it when it is back.
      if (host == silent) {
        LiveUntilError(&ranks, rank, {}, moment, true);
        return 0;
      }
      return LiveUntilError(&ranks, rank, lost, moment, true);
    });
    ranks.ShareId(0, false);
    std::this_thread::sleep_for(milliseconds(300));
    moment->killed_ns = MonotonicNanoseconds();
    kill(cluster.daemon(silent).pid(), SIGSTOP);
    std::this_thread::sleep_for(milliseconds(1700));
    kill(cluster.daemon(silent).pid(), SIGCONT);
    const std::vector<int> statuses = ranks.Wait();
    for (size_t rank = 0; rank < statuses.size(); ++rank) {
      EXPECT_EQ(statuses[rank], 0) << "rank " << rank << ", silent host " << silent;
    }
    RunHealthyJob(&cluster);
  }
}

/// Ranks 0 and 1 are at the host whose daemon is killed; the others shrink, twice, and go on.
void ShrinkAfterLoss(const std::vector<int>& host_of_rank, int maker) {
  TestCluster cluster(4, kRanksConfig);
  HostedRanks ranks(&cluster, host_of_rank);
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == maker);
    ncclComm_t world = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&world, ranks.ranks(), id, rank));
    const ncclResult_t result = SweepUntilError(world, rank, ranks.ranks());
    EXPECT_EQ(result, ncclRemoteError);
    if (rank < 2) return 0;
    int excluded[] = {0, 1};
    ncclComm_t rest = nullptr;
    EXPECT_NCCL(ncclCommShrink(world, excluded, 2, &rest, nullptr, NCCL_SHRINK_ABORT));
    if (rest == nullptr) return 1;
    int one = 1;
    int sum = 0;
    EXPECT_NCCL(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, rest, nullptr));
    EXPECT_EQ(sum, ranks.ranks() - 2);
    EXPECT_NCCL(ncclCommDestroy(rest));
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommSplit(world, 0, 0, &part, nullptr), ncclRemoteError);
    ncclComm_t grown = nullptr;
    EXPECT_EQ(ncclCommGrow(world, 9, nullptr, -1, &grown, nullptr), ncclRemoteError);
    ncclUniqueId grow_id;
    // The home can still make one, where there is a home.
    EXPECT_EQ(ncclCommGetUniqueId(world, &grow_id), maker < 2 ? ncclRemoteError : ncclSuccess);
    EXPECT_NCCL(ncclCommAbort(world));
    return 0;
  });
  ranks.ShareId(0, false);
  std::this_thread::sleep_for(milliseconds(300));
  cluster.daemon(host_of_rank[0]).Kill();
  const std::vector<int> statuses = ranks.Wait();
  for (size_t rank = 2; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
  }
}

TEST(HostsKill, TheOthersShrinkWithoutALostHost) {
  ShrinkAfterLoss({0, 0, 1, 2, 1}, 2);
}

TEST(HostsKill, TheOthersShrinkWithoutTheLostHome) {
  ShrinkAfterLoss({0, 0, 1, 2, 1, 3}, 0);
}

/// The home's daemon is killed, and then these ranks of other hosts. The others find out which they
/// are, and go on without them.
void FindLostWithoutTheHome(const std::vector<int>& host_of_rank, const std::vector<int>& dead) {
  TestCluster cluster(4, kRanksConfig);
  HostedRanks ranks(&cluster, host_of_rank);
  const int all = ranks.ranks();
  const auto dies = [&](int rank) { return std::count(dead.begin(), dead.end(), rank) > 0; };
  std::vector<int> expected = dead;
  for (int rank = 0; rank < all; ++rank) {
    if (host_of_rank[static_cast<size_t>(rank)] == host_of_rank[0]) expected.push_back(rank);
  }
  std::sort(expected.begin(), expected.end());
  ranks.Start([&](int rank) {
    const ncclComm_t world = ranks.Join(rank);
    const bool is_lost = std::count(expected.begin(), expected.end(), rank) > 0;
    EXPECT_EQ(SweepUntilError(world, rank, all), ncclRemoteError);
    if (dies(rank)) raise(SIGKILL);
    if (is_lost) return 0;
    std::vector<int> lost(static_cast<size_t>(all));
    int count = 0;
    EXPECT_TRUE(Eventually(10, [&] {
      EXPECT_NCCL(hzLostRanks(world, all, lost.data(), &count));
      return count >= static_cast<int>(expected.size());
    }));
    lost.resize(static_cast<size_t>(count));
    EXPECT_EQ(lost, expected);
    ncclComm_t rest = nullptr;
    EXPECT_NCCL(ncclCommShrink(world, lost.data(), count, &rest, nullptr, NCCL_SHRINK_ABORT));
    if (rest == nullptr) return 1;
    EXPECT_NCCL(ncclCommDestroy(rest));
    EXPECT_NCCL(ncclCommAbort(world));
    return 0;
  });
  ranks.ShareId(0, false);
  std::this_thread::sleep_for(milliseconds(300));
  cluster.daemon(host_of_rank[0]).Kill();
  const std::vector<int> statuses = ranks.Wait();
  for (int rank = 0; rank < all; ++rank) {
    const int expected_status = dies(rank) ? SIGKILL : 0;
    EXPECT_EQ(statuses[static_cast<size_t>(rank)], expected_status) << "rank " << rank;
  }
}

TEST(HostsKill, TheOthersAreToldWhoIsLostWithTheHome) {
  FindLostWithoutTheHome({0, 1, 2, 3, 1}, {});
}

// These die when nobody is left who would pass it on.
TEST(HostsKill, TheOthersAreToldWhoIsLostAfterTheHome) {
  FindLostWithoutTheHome({0, 1, 2, 1, 3, 2}, {1, 5});
}

// The daemon that would take the home's place has no rank of the communicator any more.
TEST(HostsKill, AHostWhoseRanksAreAllLostAfterTheHomeIsFoundOut) {
  FindLostWithoutTheHome({0, 1, 2, 3, 1}, {1, 4});
}

/// Ids of HostedRanks by which the ranks of the next tests and the test say how far they are.
/// Of kJoined and kKnowsOwn each rank has one, behind them.
enum Word : int { kJoined = 1, kRanksAreDead = 7, kKnowsOwn = 8, kHomeIsBackOrDead = 15 };

/// Asks which ranks are lost, until it is these. Returns whether it was.
bool Finds(ncclComm_t world, const std::vector<int>& expected) {
  std::vector<int> lost;
  const bool found = Eventually(kHangs, [&] {
    lost.assign(static_cast<size_t>(kMostFound), -1);
    int count = 0;
    EXPECT_NCCL(hzLostRanks(world, kMostFound, lost.data(), &count));
    lost.resize(static_cast<size_t>(count));
    return lost == expected;
  });
  EXPECT_EQ(lost, expected);
  return found;
}

/// Leaves out these ranks, and counts the others.
void ExpectShrinkTo(ncclComm_t world, std::vector<int> lost, int left) {
  ncclComm_t rest = nullptr;
  EXPECT_NCCL(ncclCommShrink(world, lost.data(), static_cast<int>(lost.size()), &rest, nullptr,
                             NCCL_SHRINK_ABORT));
  if (rest == nullptr) return;
  EXPECT_EQ(CountRanks(rest), left);
  EXPECT_NCCL(ncclCommDestroy(rest));
  EXPECT_NCCL(ncclCommAbort(world));
}

/// Returns whether the daemon knows no communicator.
bool HasNoCommunicator(DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  const auto document = ReadJson(*status);
  for (const auto& tenant : document.at("tenants")) {
    if (!tenant.at("communicators").empty()) return false;
  }
  return true;
}

bool IsAmong(int rank, const std::vector<int>& ranks) {
  return std::count(ranks.begin(), ranks.end(), rank) > 0;
}

/// Ranks die while the home, the host of rank 0 alone, is stopped: each daemon knows those of its
/// own host. Then the home is killed, or goes on.
void LoseRanksOfAStoppedHome(const std::vector<int>& host_of_rank, const std::vector<int>& dead,
                             bool killed) {
  // The tests are over before the home is taken for dead because it is silent.
  TestCluster cluster(4, kRanksConfig, "dead_after_seconds = 60\n");
  HostedRanks ranks(&cluster, host_of_rank);
  const int all = ranks.ranks();
  const auto host_of = [&](int rank) { return host_of_rank[static_cast<size_t>(rank)]; };
  std::vector<int> expected = dead;
  if (killed) expected.insert(expected.begin(), 0);
  std::vector<int> staying;
  for (int rank = 1; rank < all; ++rank) {
    if (!IsAmong(rank, dead)) staying.push_back(rank);
  }
  ranks.Start([&](int rank) {
    const ncclComm_t world = ranks.Join(rank);
    EXPECT_EQ(CountRanks(world), all);
    ranks.PublishId(kJoined + rank, {});
    if (IsAmong(rank, dead)) pause();
    if (rank > 0) {
      ranks.ShareId(kRanksAreDead, false);
      // The home does not answer, and what is known here is told in its place.
      std::vector<int> own;
      std::copy_if(dead.begin(), dead.end(), std::back_inserter(own),
                   [&](int one) { return host_of(one) == host_of(rank); });
      EXPECT_TRUE(Finds(world, own));
      ranks.PublishId(kKnowsOwn + rank, {});
    }
    ranks.ShareId(kHomeIsBackOrDead, false);
    if (rank == 0 && killed) return 0;
    if (Finds(world, expected)) {
      ExpectShrinkTo(world, expected, all - static_cast<int>(expected.size()));
    }
    return 0;
  });
  for (int rank = 0; rank < all; ++rank) ranks.ShareId(kJoined + rank, false);
  kill(cluster.daemon(0).pid(), SIGSTOP);
  for (const int rank : dead) kill(ranks.process(rank), SIGKILL);
  ranks.PublishId(kRanksAreDead, {});
  for (const int rank : staying) ranks.ShareId(kKnowsOwn + rank, false);
  for (const int rank : dead) {
    const bool is_last = std::none_of(staying.begin(), staying.end(),
                                      [&](int one) { return host_of(one) == host_of(rank); });
    if (!is_last) continue;
    EXPECT_TRUE(
        Eventually(kHangs, [&] { return HasNoCommunicator(cluster.daemon(host_of(rank))); }));
  }
  if (killed) {
    cluster.daemon(0).Kill();
  } else {
    kill(cluster.daemon(0).pid(), SIGCONT);
  }
  ranks.PublishId(kHomeIsBackOrDead, {});
  const std::vector<int> statuses = ranks.Wait();
  for (int rank = 0; rank < all; ++rank) {
    const int status = IsAmong(rank, dead) ? SIGKILL : 0;
    EXPECT_EQ(statuses[static_cast<size_t>(rank)], status) << "rank " << rank;
  }
}

// The question has a deadline. Its answer may come later, when nobody waits for it any more.
TEST(HostsKill, WhoIsLostIsToldWhileTheHomeDoesNotAnswer) {
  LoseRanksOfAStoppedHome({0, 1, 2, 1, 3, 2}, {1, 5}, /*killed=*/false);
}

// No daemon has told another one of the ranks: they find out by asking the successor of the home.
TEST(HostsKill, RanksThatDieTogetherWithTheHomeAreFoundOut) {
  LoseRanksOfAStoppedHome({0, 1, 2, 1, 3, 2}, {1, 5}, /*killed=*/true);
}

// The successor is another host, and the daemon of these ranks asks nobody: it is asked itself.
TEST(HostsKill, AHostWhoseRanksAllDieTogetherWithTheHomeIsFoundOut) {
  LoseRanksOfAStoppedHome({0, 2, 1, 3, 1}, {2, 4}, /*killed=*/true);
}

// A host whose ranks were left out is none of theirs any more, even if it was the home.
TEST(HostsKill, AShrunkCommunicatorOutlivesAHostThatItHasLeft) {
  TestCluster cluster(3, kRanksConfig);
  HostedRanks ranks(&cluster, {0, 1, 2, 1});
  ranks.Start([&](int rank) {
    const ncclComm_t world = ranks.Join(rank);
    const auto count = [](ncclComm_t communicator) {
      int one = 1;
      int sum = 0;
      EXPECT_NCCL(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, communicator, nullptr));
      return sum;
    };
    EXPECT_EQ(count(world), 4);
    if (rank == 0) pause();
    int excluded[] = {0};
    ncclComm_t rest = nullptr;
    EXPECT_NCCL(ncclCommShrink(world, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    if (rest == nullptr) return 1;
    EXPECT_EQ(count(rest), 3);
    if (rank == 1) ranks.PublishId(1, {});
    // Until the daemon here knows that the home is lost.
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) {
      EXPECT_NCCL(ncclCommGetAsyncError(world, &state));
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_EQ(state, ncclRemoteError);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(count(rest), 3);
    EXPECT_NCCL(ncclCommDestroy(rest));
    EXPECT_NCCL(ncclCommAbort(world));
    return 0;
  });
  ranks.ShareId(1, false);
  cluster.daemon(0).Kill();
  kill(ranks.process(0), SIGKILL);
  const std::vector<int> statuses = ranks.Wait();
  for (size_t rank = 1; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
  }
}

// They apply where their first rank was. That daemon knows nothing of the communicator any more.
TEST(HostsKill, AShrinkWhoseFirstRankIsLostTooSaysSo) {
  TestCluster cluster(3, kRanksConfig);
  HostedRanks ranks(&cluster, {0, 1, 2});
  ranks.Start([&](int rank) {
    const ncclComm_t world = ranks.Join(rank);
    if (rank < 2) pause();
    ranks.PublishId(1, {});
    ranks.ShareId(2, false);  // rank 1 is dead
    int excluded[] = {0, 1};
    ncclComm_t rest = nullptr;
    EXPECT_EQ(ncclCommShrink(world, excluded, 1, &rest, nullptr, NCCL_SHRINK_ABORT),
              ncclRemoteError);
    EXPECT_NCCL(ncclCommShrink(world, excluded, 2, &rest, nullptr, NCCL_SHRINK_ABORT));
    EXPECT_NCCL(ncclCommDestroy(rest));
    EXPECT_NCCL(ncclCommAbort(world));
    ranks.PublishId(3, {});
    return 0;
  });
  ranks.ShareId(1, false);
  kill(ranks.process(1), SIGKILL);
  while (!HasNoCommunicator(cluster.daemon(1))) std::this_thread::sleep_for(milliseconds(5));
  ranks.PublishId(2, {});
  ranks.ShareId(3, false);
  kill(ranks.process(0), SIGKILL);
  const std::vector<int> statuses = ranks.Wait();
  EXPECT_EQ(statuses[2], 0);
}

// Nobody has to wait for the end of a formation that a daemon's ranks were to take part in.
TEST(HostsKill, ASplitThatWaitsForALostHostFails) {
  TestCluster cluster(3);
  HostedRanks ranks(&cluster, {0, 1, 2});
  SharedMoment moment;
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    ncclComm_t world = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&world, 3, id, rank));
    if (rank == 1) {
      ranks.PublishId(1, id);
      pause();
    }
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommSplit(world, 0, rank, &part, nullptr), ncclRemoteError);
    EXPECT_LT(moment->SecondsSince(), kPromisedSeconds);
    EXPECT_NCCL(ncclCommAbort(world));
    return 0;
  });
  ranks.ShareId(1, false);
  std::this_thread::sleep_for(milliseconds(200));
  moment->killed_ns = MonotonicNanoseconds();
  cluster.daemon(1).Kill();
  kill(ranks.process(1), SIGKILL);
  const std::vector<int> statuses = ranks.Wait();
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[2], 0);
}

}  // namespace
}  // namespace harmonaize::testing
