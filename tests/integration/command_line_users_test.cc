// What tenants of one daemon, and its operator, see by commands: needs root, and skips without.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harmonaize.h"
#include "src/base/json_text.h"
#include "src/ipc/control_socket.h"
#include "tests/integration/command_line.h"
#include "tests/support/eventually.h"
#include "tests/support/other_users.h"
#include "tests/support/saved_model.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

constexpr const char* kDaemon = "/tmp/bin/harmonaized";
constexpr const char* kCommandLine = "/tmp/bin/harmonaize";
constexpr const char* kSystemSocket = "/run/harmonaize/harmonaized.sock";

/// The system's daemon of a private host.
class SystemDaemon {
 public:
  SystemDaemon() {
    process_ = StartAs(0, [] {
      clearenv();
      setenv("STATE_DIRECTORY", "/tmp/state", 1);
      execl(kDaemon, kDaemon, "--log-level", "error", "--socket", kSystemSocket, nullptr);
      return 127;
    });
    for (int i = 0; i < 3000 && !ControlSocket::Connect(kSystemSocket).ok(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~SystemDaemon() {
    kill(process_, SIGTERM);
    EXPECT_EQ(StatusOf(process_), 0);
  }
  SystemDaemon(const SystemDaemon&) = delete;
  SystemDaemon& operator=(const SystemDaemon&) = delete;

 private:
  pid_t process_;
};

int MakeEventsAs(uid_t user, const std::string& job) {
  return StatusOf(StartAs(user, [&] {
    setenv("HARMONAIZE_SOCKET", kSystemSocket, 1);
    return MakeEvents(job, 2) ? 0 : 1;
  }));
}

Ran Command(uid_t user, std::vector<std::string> words) {
  words.insert(words.begin(), kCommandLine);
  return RunAs(user, words);
}

/// Starts a job of two ranks of Alice's, named "alices", which goes on until it is to end.
pid_t StartJobOfAlice() {
  const pid_t job = StartAs(kAlice, [] {
    setenv("HARMONAIZE_SOCKET", kSystemSocket, 1);
    setenv("HARMONAIZE_JOB", "alices", 1);
    const std::vector<int> statuses = RunAsProcesses(2, [](int rank) {
      ncclComm_t communicator;
      if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
      if (rank == 0) std::ofstream("/tmp/joined") << std::flush;
      for (int i = 0; i < 3000 && access("/tmp/enough", F_OK) != 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_NCCL(ncclCommDestroy(communicator));
      return 0;
    });
    return statuses == std::vector<int>{0, 0} ? 0 : 1;
  });
  for (int i = 0; i < 3000 && access("/tmp/joined", F_OK) != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return job;
}

void EndJobOfAlice(pid_t job) {
  std::ofstream("/tmp/enough") << std::flush;
  EXPECT_EQ(StatusOf(job), 0);
}

class CommandsOfUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = PrivateHost::WhyNot(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(CommandsOfUsers, ShowEachTenantItsOwnAndTheOperatorAll) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    ASSERT_EQ(MakeEventsAs(kAlice, "alices"), 0);
    ASSERT_EQ(MakeEventsAs(kBob, "bobs"), 0);
    // The daemon keeps them a moment after it told them, the operators' last.
    EXPECT_EQ(Command(0, {"events", "--follow", "--from", "start", "--limit", "4"}).status, 0);
    for (const auto& [user, own, other] :
         {std::tuple{kAlice, "alices", "bobs"}, std::tuple{kBob, "bobs", "alices"}}) {
      const Ran jobs = Command(user, {"jobs"});
      ExpectHolds(jobs.text, own);
      EXPECT_EQ(jobs.text.find(other), std::string::npos) << jobs.text;
      EXPECT_EQ(jobs.text.find("tenant"), std::string::npos) << jobs.text;
      const Ran events = Command(user, {"events"});
      EXPECT_EQ(LinesLike(events.text, ".* mismatch\\.detected .*"), 2) << events.text;
      const Ran foreign = Command(user, {"jobs", other});
      EXPECT_EQ(foreign.status, 1);
      ExpectHolds(foreign.text, "there is no job");
    }
    const Ran jobs = Command(0, {"jobs"});
    EXPECT_EQ(LinesLike(jobs.text, ".* (uid )?64001 .* alices .*"), 1) << jobs.text;
    EXPECT_EQ(LinesLike(jobs.text, ".* (uid )?64002 .* bobs .*"), 1) << jobs.text;
    const Ran events = Command(0, {"events"});
    EXPECT_EQ(LinesLike(events.text, ".* mismatch\\.detected .* (uid )?6400[12] .*"), 4)
        << events.text;
    const Ran of_bob = Command(0, {"events", "--json", "--job", "bobs"});
    EXPECT_EQ(LinesLike(of_bob.text, ".*mismatch\\.detected.*"), 2) << of_bob.text;
  });
}

TEST_F(CommandsOfUsers, LetTheOperatorReadAndChangeWhatIsAskedForATenantsJob) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    const pid_t job = StartJobOfAlice();
    std::ofstream("/tmp/job.toml") << "faults.late_after = '9 s'\n" << std::flush;
    for (const uid_t user : {uid_t(0), kAlice}) {
      const Ran none = Command(user, {"requirements", "--of", "alices"});
      EXPECT_EQ(none.status, 0) << none.text;
      ExpectHolds(none.text, "nothing is asked for this job");
      const Ran applied = Command(user, {"requirements", "/tmp/job.toml", "--apply", "alices"});
      EXPECT_EQ(applied.status, 0) << applied.text;
      ExpectHolds(applied.text, "late_after = \"9 s\"");
      const Ran forgotten = Command(user, {"requirements", "--forget", "alices"});
      EXPECT_EQ(forgotten.status, 0) << forgotten.text;
      ExpectHolds(forgotten.text, "what was asked for this job is forgotten");
    }
    const Ran foreign = Command(kBob, {"requirements", "--of", "alices"});
    EXPECT_EQ(foreign.status, 1);
    ExpectHolds(foreign.text, "there is no job 'alices'");
    EndJobOfAlice(job);
  });
}

/// Has two ranks of a job of Alice's, named "alices", save a step in memory, and kills them.
int SaveAsAlice(uint64_t step) {
  return StatusOf(StartAs(kAlice, [step] {
    setenv("HARMONAIZE_SOCKET", kSystemSocket, 1);
    setenv("HARMONAIZE_JOB", "alices", 1);
    const std::vector<int> statuses = RunAsProcesses(2, [step](int rank) {
      ncclComm_t communicator;
      if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
      hzCheckpointer_t saver = nullptr;
      EXPECT_NCCL(hzCheckpointerCreate(communicator, nullptr, &saver));
      EXPECT_NCCL(SavedModel(rank, 2, step).Save(saver));
      EXPECT_NCCL(hzCheckpointWait(saver, step, hzInMemory, 60'000));
      if (::testing::Test::HasFailure()) return 1;
      kill(getpid(), SIGKILL);
      return 3;
    });
    return statuses == std::vector<int>{SIGKILL, SIGKILL} ? 0 : 1;
  }));
}

/// Has Alice run so many short jobs, one after the other.
int RunShortJobsOfAlice(int count) {
  return StatusOf(StartAs(kAlice, [count] {
    setenv("HARMONAIZE_SOCKET", kSystemSocket, 1);
    for (int i = 0; i < count; ++i) {
      const pid_t job = fork();
      if (job == 0) {
        setenv("HARMONAIZE_JOB", ("short" + std::to_string(i)).c_str(), 1);
        ncclComm_t communicator;
        if (JoinNamed("one", 1, 0, &communicator) != ncclSuccess) _exit(1);
        _exit(ncclCommDestroy(communicator) == ncclSuccess ? 0 : 1);
      }
      if (StatusOf(job) != 0) return 1;
    }
    return 0;
  }));
}

TEST_F(CommandsOfUsers, ShowHeldCheckpointsToTheirTenantAndTheOperatorAlone) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    EXPECT_EQ(Command(kAlice, {"checkpoints", "held"}).text, "no checkpoints\n");
    ASSERT_EQ(SaveAsAlice(1200), 0);
    const Ran all = Command(kAlice, {"checkpoints", "held"});
    EXPECT_EQ(LinesLike(all.text, "alices +1200 +whole .* +2 +2 +- +[0-9.]+ KiB"), 1) << all.text;
    const Ran one = Command(kAlice, {"checkpoints", "held", "alices"});
    EXPECT_EQ(LinesLike(one.text, "1200 +whole .* +2 +2 +0 +[0-9.]+ KiB"), 1) << one.text;
    const Ran text = Command(kAlice, {"checkpoints", "held", "alices", "--json"});
    const json document = ReadJson(text.text);
    ASSERT_TRUE(document.is_object()) << text.text;
    EXPECT_EQ(document["checkpoints"][0]["step"], 1200);
    EXPECT_EQ(document["checkpoints"][0]["parts_here"], json({0, 1}));
    EXPECT_EQ(Command(kBob, {"checkpoints", "held"}).text, "no checkpoints\n");
    const std::string id =
        ReadJson(Command(kAlice, {"checkpoints", "held", "--json"}).text)["jobs"][0]["job"];
    for (const std::string& which : {std::string("alices"), id}) {
      const Ran foreign = Command(kBob, {"checkpoints", "held", which});
      EXPECT_EQ(foreign.status, 1);
      ExpectHolds(foreign.text, "there is no job '" + which + "'");
    }
    const Ran operators = Command(0, {"checkpoints", "held"});
    EXPECT_EQ(LinesLike(operators.text, "(uid )?64001 +alices +1200 +whole .*"), 1)
        << operators.text;
  });
}

TEST_F(CommandsOfUsers, FindHeldCheckpointsOfJobsThatTheDaemonHasForgotten) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    ASSERT_EQ(SaveAsAlice(7), 0);
    const std::string id =
        ReadJson(Command(kAlice, {"checkpoints", "held", "--json"}).text)["jobs"][0]["job"];
    // The daemon remembers the last 64 of a tenant.
    ASSERT_EQ(RunShortJobsOfAlice(65), 0);
    EXPECT_EQ(Command(kAlice, {"jobs", "alices"}).status, 1);
    for (const std::string& which : {std::string("alices"), id}) {
      const Ran found = Command(kAlice, {"checkpoints", "held", which});
      EXPECT_EQ(LinesLike(found.text, "7 +whole .*"), 1) << found.text;
      EXPECT_EQ(Command(kBob, {"checkpoints", "held", which}).status, 1);
    }
    const std::string row = id.substr(0, 8) + " +7 +whole .*";
    EXPECT_EQ(LinesLike(Command(kAlice, {"checkpoints", "held"}).text, row), 1);
    EXPECT_EQ(LinesLike(Command(0, {"checkpoints", "held", id}).text, "7 +whole .*"), 1);
  });
}

/// Starts a job of two ranks, of which rank 1 stops itself before their first all-reduce, and
/// leaves its process number in a file.
pid_t StartStuckJob(uid_t user, const std::string& path) {
  return StartAs(user, [path] {
    setenv("HARMONAIZE_SOCKET", kSystemSocket, 1);
    setenv("HARMONAIZE_JOB", "alices", 1);
    const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
      ncclComm_t communicator;
      if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
      if (rank == 1) {
        std::ofstream(path) << getpid() << std::flush;
        raise(SIGSTOP);
      }
      float data = 1;
      EXPECT_NCCL(ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, communicator, nullptr));
      EXPECT_NCCL(ncclCommDestroy(communicator));
      return 0;
    });
    return statuses == std::vector<int>{0, 0} ? 0 : 1;
  });
}

TEST_F(CommandsOfUsers, ShowWhatFormsToItsTenantAndTheOperatorAlone) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    const pid_t waiting = StartAs(kAlice, [] {
      setenv("HARMONAIZE_SOCKET", kSystemSocket, 1);
      setenv("HARMONAIZE_JOB", "alices", 1);
      ncclComm_t communicator;
      return JoinNamed("pair", 2, 0, &communicator) == ncclSuccess ? 0 : 1;
    });
    Ran stuck;
    for (int i = 0; i < 200 && stuck.text.find("not_called") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      stuck = Command(kAlice, {"status", "--stuck"});
    }
    EXPECT_EQ(LinesLike(stuck.text, "alices +forming +ncclCommInitRank +1 +not_called .*"), 1)
        << stuck.text;
    const std::string forms = " *forms, with 1 of 2 ranks so far: .* for rank 1";
    EXPECT_EQ(LinesLike(Command(kAlice, {"jobs"}).text, forms), 1);
    EXPECT_EQ(LinesLike(Command(0, {"jobs"}).text, forms), 1);
    ExpectHolds(Command(0, {"status", "--stuck"}).text, "ncclCommInitRank");
    EXPECT_EQ(Command(kBob, {"jobs"}).text, "no jobs\n");
    EXPECT_EQ(Command(kBob, {"jobs", "alices"}).status, 1);
    EXPECT_EQ(Command(kBob, {"status", "--stuck"}).text, "nothing hangs\n");
    kill(waiting, SIGKILL);
    EXPECT_NE(StatusOf(waiting), 0);
  });
}

TEST_F(CommandsOfUsers, ShowATenantItsOwnHangsAndNobodyElsesProcesses) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    const pid_t job = StartStuckJob(kAlice, "/tmp/stopped");
    Ran stuck;
    for (int i = 0; i < 200 && stuck.text.find("not_called") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      stuck = Command(kAlice, {"status", "--stuck"});
    }
    EXPECT_EQ(LinesLike(stuck.text, "alices .* 1 +not_called +stopped .*"), 1) << stuck.text;
    EXPECT_EQ(Command(kBob, {"status", "--stuck"}).text, "nothing hangs\n");
    ExpectHolds(Command(0, {"status", "--stuck"}).text, "not_called");
    const json of_alice = ReadJson(Command(kAlice, {"status", "--ras"}).text);
    EXPECT_EQ(of_alice.at("communicators").at(0).at("ranks").at(1).at("pid"), -1);
    EXPECT_EQ(ReadJson(Command(kBob, {"status", "--ras"}).text).at("communicators_count"), 0);
    pid_t stopped = 0;
    std::ifstream("/tmp/stopped") >> stopped;
    const json of_all = ReadJson(Command(0, {"status", "--ras"}).text);
    EXPECT_EQ(of_all.at("communicators").at(0).at("ranks").at(1).at("pid"), stopped);
    ASSERT_GT(stopped, 1);
    kill(stopped, SIGCONT);
    EXPECT_EQ(StatusOf(job), 0);
  });
}

TEST_F(CommandsOfUsers, LeaveTokensToOperators) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    for (const std::vector<std::string>& words : {std::vector<std::string>{"token", "list"},
                                                  {"token", "create", "--scope", "operator"},
                                                  {"token", "revoke", "x"}}) {
      const Ran refused = Command(kAlice, words);
      EXPECT_EQ(refused.status, 1);
      ExpectHolds(refused.text, "this user may not connect");
      ExpectHolds(refused.text, "operators are root, the user who runs the daemon");
    }
  });
}

int RunWithRanksAs(uid_t user, const std::string& job, const std::function<void()>& body) {
  return StatusOf(StartAs(user, [&] {
    setenv("HARMONAIZE_SOCKET", kSystemSocket, 1);
    const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
      setenv("HARMONAIZE_JOB", job.c_str(), 1);
      ncclComm_t communicator;
      if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
      EXPECT_EQ(CountRanks(communicator), 2);
      if (rank == 0) body();
      EXPECT_EQ(CountRanks(communicator), 2);
      EXPECT_NCCL(ncclCommDestroy(communicator));
      return 0;
    });
    return statuses == std::vector<int>{0, 0} ? 0 : 1;
  }));
}

/// The id of the one event of this type that the user may read.
std::string EventIdOf(uid_t user, const std::string& type) {
  const Ran events = Command(user, {"events", "--json", "--types", type});
  EXPECT_EQ(LinesLike(events.text, ".+"), 1) << events.text;
  return ReadJson(events.text).at("id");
}

TEST_F(CommandsOfUsers, AnswerAndReadPromisesOfTheirOwnAlone) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    EXPECT_EQ(Command(0, {"maintenance", "announce", "--new-id", "m1", "--in", "1h"}).status, 0);
    ASSERT_EQ(RunWithRanksAs(kAlice, "alices", [] {}), 0);
    ASSERT_EQ(RunWithRanksAs(kBob, "bobs", [] {}), 0);
    EXPECT_EQ(Command(0, {"events", "--follow", "--from", "start", "--limit", "2"}).status, 0);
    const std::string of_alice = EventIdOf(kAlice, "maintenance.scheduled");
    const Ran foreign = Command(kBob, {"events", "--acknowledge", of_alice});
    std::string unknown = of_alice;
    unknown.back() = unknown.back() == '0' ? '1' : '0';
    const Ran none = Command(kBob, {"events", "--acknowledge", unknown});
    EXPECT_EQ(foreign.status, 1);
    EXPECT_EQ(foreign.text.substr(foreign.text.find("that can be")),
              none.text.substr(none.text.find("that can be")));
    EXPECT_EQ(Command(0, {"events", "--acknowledge", of_alice}).status, 1)
        << "an operator answers for no tenant";
    EXPECT_EQ(Command(kAlice, {"events", "--acknowledge", of_alice}).status, 0);
    const json alices = ReadJson(Command(kAlice, {"promises", "--json"}).text);
    EXPECT_EQ(alices.at("promises").at(0).at("told").size(), 1u);
    EXPECT_EQ(JsonText(alices).find("tenant"), std::string::npos) << alices;
    EXPECT_EQ(JsonText(alices).find("source"), std::string::npos) << alices;
    EXPECT_EQ(ReadJson(Command(kCarol, {"promises", "--json"}).text).at("promises").size(), 0u);
    const json all = ReadJson(Command(0, {"promises", "--json"}).text);
    EXPECT_EQ(all.at("promises").at(0).at("told").size(), 2u);
    for (const std::vector<std::string>& words : {std::vector<std::string>{"drain"},
                                                  {"drain", "--show"},
                                                  {"drain", "--cancel"},
                                                  {"maintenance", "list"},
                                                  {"maintenance", "announce", "--in", "1h"}}) {
      const Ran refused = Command(kAlice, words);
      EXPECT_EQ(refused.status, 1) << words.front();
      ExpectHolds(refused.text, "this user may not connect");
    }
  });
}

/// Returns what a user is told who answers an offer, without the offer's id.
Ran AnswerOffer(uid_t user, const std::string& verb, const std::string& offer) {
  std::vector<std::string> words = {"offer", verb, offer};
  if (verb == "counter") words.insert(words.end(), {"--ranks", "1"});
  Ran ran = Command(user, words);
  const size_t id = ran.text.find(offer);
  if (id != std::string::npos) ran.text.erase(id, offer.size());
  return ran;
}

TEST_F(CommandsOfUsers, ReadAndAnswerOffersToTheirOwnJobsAlone) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    const pid_t job = StartJobOfAlice();
    const Ran made = Command(
        0, {"offer", "make", "alices", "grow", "--ranks", "2", "--within", "10min", "--json"});
    ASSERT_EQ(made.status, 0) << made.text;
    const std::string id = ReadJson(made.text).at("id");
    EXPECT_EQ(Command(kBob, {"offers", "--all"}).text, "no offers\n");
    EXPECT_EQ(Command(kBob, {"offers", "--job", "alices"}).text, "no offers\n");
    for (const char* const verb : {"accept", "decline", "counter"}) {
      const Ran foreign = AnswerOffer(kBob, verb, id);
      EXPECT_EQ(foreign.status, 1);
      EXPECT_EQ(foreign.text, AnswerOffer(kBob, verb, "offer-0123456789abcdef").text);
      EXPECT_EQ(AnswerOffer(0, verb, id).status, 1) << "an operator answers for no tenant";
    }
    for (const uid_t user : {kAlice, kBob}) {
      for (const std::vector<std::string>& words :
           {std::vector<std::string>{"offer", "make", "alices", "grow", "--within", "10min"},
            {"offer", "take", id},
            {"offer", "keep", id},
            {"offer", "propose", id, "--ranks", "1"},
            {"offer", "withdraw", id}}) {
        const Ran refused = Command(user, words);
        EXPECT_EQ(refused.status, 1) << words[1];
        ExpectHolds(refused.text, "this user may not connect");
      }
    }
    const Ran own = Command(kAlice, {"offers"});
    ExpectHolds(own.text, "answer with: harmonaize offer accept " + id);
    EXPECT_EQ(own.text.find("tenant"), std::string::npos) << own.text;
    EXPECT_EQ(LinesLike(Command(0, {"offers"}).text, id + " +(uid )?64001 +alices .*"), 1);
    EXPECT_EQ(Command(kAlice, {"offer", "accept", id}).status, 0);
    ExpectHolds(Command(kAlice, {"promises"}).text, id);
    EXPECT_EQ(Command(kBob, {"promises"}).text, "no promises\n");
    EndJobOfAlice(job);
  });
}

TEST_F(CommandsOfUsers, SeeTheAgentsOfTheirOwnJobsAlone) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    const pid_t launcher = StartAs(kAlice, [] {
      setenv("HARMONAIZE_SOCKET", kSystemSocket, 1);
      execl(kCommandLine, kCommandLine, "run", "--no-preload", "-n", "1", "--elastic", "1:4",
            "--name", "alices", "--", "sleep", "600", nullptr);
      return 127;
    });
    Ran own;
    EXPECT_TRUE(Eventually(30, [&] {
      own = Command(kAlice, {"agents"});
      return own.text.starts_with("agent ");
    })) << own.text;
    EXPECT_EQ(LinesLike(own.text, "agent-[0-9a-f]+ +alices +this host +waiting .* 3 .*"), 1)
        << own.text;
    EXPECT_EQ(own.text.find("tenant"), std::string::npos) << own.text;
    EXPECT_EQ(own.text.find("64001"), std::string::npos) << own.text;
    EXPECT_EQ(Command(kBob, {"agents"}).text, "no agents\n");
    EXPECT_EQ(Command(kBob, {"agents", "--json"}).text.find("alices"), std::string::npos);
    const Ran foreign = Command(kBob, {"agents", "alices"});
    EXPECT_EQ(foreign.status, 1);
    ExpectHolds(foreign.text, "there is no job 'alices'");
    const Ran all = Command(0, {"agents", "alices"});
    EXPECT_EQ(LinesLike(all.text, "agent-[0-9a-f]+ +(uid )?64001 +alices +this host .*"), 1)
        << all.text;
    kill(launcher, SIGTERM);
    StatusOf(launcher);
    EXPECT_EQ(Command(0, {"agents"}).text, "no agents\n");
  });
}

TEST_F(CommandsOfUsers, OfTheSameJobNameAreToldApartForTheOperator) {
  PrivateHost::Run({HARMONAIZED_PROGRAM, HARMONAIZE_PROGRAM}, [] {
    const SystemDaemon daemon;
    ASSERT_EQ(MakeEventsAs(kAlice, "train"), 0);
    ASSERT_EQ(MakeEventsAs(kBob, "train"), 0);
    EXPECT_EQ(Command(kAlice, {"jobs", "train"}).status, 0);
    const Ran which = Command(0, {"jobs", "train"});
    EXPECT_EQ(which.status, 1);
    ExpectHolds(which.text, "several tenants have a job named 'train'");
  });
}

}  // namespace
}  // namespace harmonaize::testing
