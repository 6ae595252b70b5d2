// `harmonaize jobs` with real daemons and ranks.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/integration/command_line.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hosts_case.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

TEST(JobsCommand, SaysThatThereAreNone) {
  const DaemonProcess daemon;
  const Ended none = RunCommand({"jobs"}, daemon.socket_path());
  EXPECT_EQ(none.status, 0) << none.error;
  EXPECT_EQ(none.output, "no jobs\n");
  const Ended unknown = RunCommand({"jobs", "llama"}, daemon.socket_path());
  EXPECT_EQ(unknown.status, 1);
  ExpectHolds(unknown.error, "there is no job 'llama' at this daemon");
}

TEST(JobsCommand, ShowsJobsWithTheirNamesKindsAndRanks) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(3, [&](int rank) {
    setenv("HARMONAIZE_JOB", "my llama", 1);
    setenv("HARMONAIZE_JOB_KIND", "training", 1);
    ncclComm_t communicator;
    if (JoinNamed("all", 3, rank, &communicator) != ncclSuccess) return 2;
    EXPECT_EQ(CountRanks(communicator), 3);
    if (rank == 0) {
      const Ended list = RunCommand({"jobs"}, daemon.socket_path());
      EXPECT_EQ(list.status, 0) << list.error;
      // Whoever runs the daemon is an operator, and sees the tenant.
      EXPECT_EQ(LinesLike(list.output, "[0-9a-f]{8}  [^ ].*  my llama  training  20.*Z +1 +3 .*"),
                1)
          << list.output;
      const Ended document = RunCommand({"jobs", "--json"}, daemon.socket_path());
      const json jobs = ReadJson(document.output).at("jobs");
      EXPECT_EQ(jobs.size(), 1u);
      const std::string id = jobs.at(0).at("id");
      for (const std::string& which : {id, id.substr(0, 8), std::string("my llama")}) {
        const Ended one = RunCommand({"jobs", which}, daemon.socket_path());
        EXPECT_EQ(one.status, 0) << one.error;
        EXPECT_EQ(one.output.find("job " + id + ", named my llama, of kind training, since"), 0u)
            << one.output;
        EXPECT_EQ(LinesLike(one.output, "[0-9a-f]{8} .* ready +0-2 +3 .*"), 1) << one.output;
      }
      const Ended details = RunCommand({"jobs", "my llama", "--json"}, daemon.socket_path());
      const json communicator_here = ReadJson(details.output).at("communicators").at(0);
      EXPECT_EQ(communicator_here.at("size"), 3);
      const std::string short_id = communicator_here.at("id");
      const Ended status = RunCommand({"status"}, daemon.socket_path());
      EXPECT_EQ(LinesLike(status.output, short_id + " +my llama .* ready +3 .*"), 1)
          << status.output;
      const Ended explained = RunCommand({"explain", short_id}, daemon.socket_path());
      EXPECT_EQ(explained.status, 0) << explained.error;
      EXPECT_EQ(explained.output.find("communicator " + short_id), 0u) << explained.output;
      const Ended unknown = RunCommand({"explain", "0123456z"}, daemon.socket_path());
      EXPECT_EQ(unknown.status, 1);
    }
    EXPECT_EQ(CountRanks(communicator), 3) << "all stay until the commands have ended";
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(JobsCommand, KeepsWhatAJobHasDoneThatHasEnded) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    setenv("HARMONAIZE_JOB", "done", 1);
    // Some operations are carried out by the ranks themselves.
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(CountRanks(communicator), 2);
    std::vector<float> data(4 << 20, 1);
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum,
                              communicator, nullptr));
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
  Ended shown;
  const auto has_ended = [&] { return shown.output.find("ended 20") != std::string::npos; };
  for (int i = 0; i < 100 && !has_ended(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    shown = RunCommand({"jobs"}, daemon.socket_path());
  }
  EXPECT_EQ(LinesLike(shown.output, "[0-9a-f]{8}  .*  done  .*Z +1 +2 +6 +-"), 1) << shown.output;
  const Ended details = RunCommand({"jobs", "done"}, daemon.socket_path());
  ExpectHolds(details.output, "\nno communicators\n1 ended before, after 6 operations and ");
}

TEST(RunCommand, SaysThatAJobOfThisNameRunsAlready) {
  const DaemonProcess daemon;
  const auto run = [&](const std::string& name) {
    return RunCommand({"run", "--no-preload", "--name", name, "true"}, daemon.socket_path());
  };
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    setenv("HARMONAIZE_JOB", "llama", 1);
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    EXPECT_EQ(CountRanks(communicator), 2);
    if (rank == 0) {
      const Ended same = run("llama");
      EXPECT_EQ(same.status, 0);
      ExpectHolds(same.error, "harmonaize: a job named llama runs since 20");
      EXPECT_EQ(run("another").error, "");
    }
    EXPECT_EQ(CountRanks(communicator), 2);
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(JobsCommand, ShowsWhatWaitsAndForWhom) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    setenv("HARMONAIZE_JOB", "late", 1);
    // The daemon sees what ranks give to it.
    setenv("HARMONAIZE_INLINE", "0", 1);
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    if (rank == 1) {
      Ended shown;
      const auto waits = [&] { return shown.output.find("has waited") != std::string::npos; };
      for (int i = 0; i < 100 && !waits(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        shown = RunCommand({"jobs", "late"}, daemon.socket_path());
      }
      EXPECT_EQ(LinesLike(shown.output, "    AllReduce #0 has waited [0-9]+ s for rank 1"), 1)
          << shown.output << shown.error;
    }
    EXPECT_EQ(CountRanks(communicator), 2);
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace harmonaize::testing
