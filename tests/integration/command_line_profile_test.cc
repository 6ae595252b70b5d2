// `harmonaize profile` with a real daemon, and a process whose NCCL tells of events.

#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/integration/command_line.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/profiled_job.h"
#include "tests/support/profiler_host.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

TEST(ProfileCommand, ShowsJobsAndTheirCommunicators) {
  const DaemonProcess daemon;
  const std::string socket = daemon.socket_path();
  EXPECT_NE(RunCommand({"profile"}, socket).output.find("no job tells of profiler events"),
            std::string::npos);
  ASSERT_EQ(RunInJob("llama",
                     [] {
                       ProfiledHost<6> host(Library(), 0xabc, "tensor parallel");
                       for (int i = 0; i < 5; ++i) host.RunAllReduce(1024, 2, 50'000);
                       host.Finalize();
                     }),
            0);
  ProfileWith(socket, "llama", 15);
  EXPECT_TRUE(
      Eventually(kReadWithin, [&] { return ProfileAt(socket, "llama").at("processes") == 0; }));
  const Ended list = RunCommand({"profile"}, socket);
  EXPECT_EQ(list.status, 0) << list.error;
  EXPECT_NE(list.output.find("llama"), std::string::npos) << list.output;
  const Ended shown = RunCommand({"profile", "llama"}, socket);
  EXPECT_EQ(shown.status, 0) << shown.error;
  for (const char* part : {"15 events, 0 lost; processes that tell now: 0",
                           "communicator 0000000000000abc 'tensor parallel', 8 ranks on 2 hosts",
                           "AllReduce", "RING", "SIMPLE", "20 KiB", "250 us", "50 us"}) {
    EXPECT_NE(shown.output.find(part), std::string::npos) << part << " in:\n" << shown.output;
  }
  const Ended document = RunCommand({"profile", "llama", "--json"}, socket);
  EXPECT_EQ(ReadJson(document.output).at("events"), 15);
  const Ended unknown = RunCommand({"profile", "nobody"}, socket);
  EXPECT_EQ(unknown.status, 1);
  EXPECT_NE(unknown.error.find("there is no job 'nobody'"), std::string::npos) << unknown.error;
}

}  // namespace
}  // namespace harmonaize::testing
