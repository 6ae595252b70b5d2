// The profiler plugin in programs that call it as NCCL does, and what a real daemon makes of it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "src/ipc/profile_ring.h"
#include "tests/support/daemon_http.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/hostile_session.h"
#include "tests/support/other_users.h"
#include "tests/support/profiled_job.h"
#include "tests/support/profiler_host.h"
#include "tests/support/stranger.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

/// Returns the row of a communicator, by its name, and a kind; null if there is none.
json RowOf(const json& profile, const std::string& communicator, const std::string& kind,
           const json& function = nullptr) {
  for (const json& one : profile.at("communicators")) {
    if (one.at("name") != communicator) continue;
    for (const json& row : one.at("rows")) {
      if (row.at("kind") == kind && (function.is_null() || row.at("function") == function)) {
        return row;
      }
    }
  }
  return nullptr;
}

template <typename Version>
class NcclProfiler : public ::testing::Test {};

template <int kVersion>
using Version = std::integral_constant<int, kVersion>;
using Versions =
    ::testing::Types<Version<1>, Version<2>, Version<3>, Version<4>, Version<5>, Version<6>>;
TYPED_TEST_SUITE(NcclProfiler, Versions);

TYPED_TEST(NcclProfiler, AsksForNoEventsWithoutADaemon) {
  using Host = ProfiledHost<TypeParam::value>;
  EXPECT_EQ(RunInJob("none",
                     [] {
                       setenv("HARMONAIZE_SOCKET", "/nonexistent/harmonaized.sock", 1);
                       Host host(Library(), 1, "world");
                       EXPECT_EQ(host.mask, 0);
                       EXPECT_EQ(host.context, nullptr);
                       EXPECT_STREQ(host.table->name, "Harmonaize");
                       // NCCL may call all the same.
                       EXPECT_EQ(host.Start(Host::Of(kProfileGroups)), nullptr);
                       EXPECT_EQ(host.Start(host.AllReduce(1, 1)), nullptr);
                       host.Stop(nullptr);
                       host.Record(nullptr, 22, nullptr);
                       host.Finalize();
                     }),
            0);
}

TYPED_TEST(NcclProfiler, TellsOfTwoCommunicatorsAtOnce) {
  using Host = ProfiledHost<TypeParam::value>;
  const DaemonProcess daemon;
  ASSERT_EQ(RunInJob("llama",
                     [] {
                       Host world(Library(), 0xabc, "world", 8, 3);
                       Host pair(Library(), 0xdef, "pair", 2, 0);
                       EXPECT_TRUE(world.Wants(kProfileGroups | kProfileCollectives |
                                               kProfilePointToPoint | kProfileProxyOperations));
                       EXPECT_FALSE(world.Wants(kProfileProxySteps));
                       EXPECT_EQ(world.Wants(kProfileKernels), Host::kHasKernels);
                       for (int i = 0; i < 10; ++i) {
                         world.RunAllReduce(1000, 2, 50'000);
                         pair.RunAllReduce(10, 1, 7'000);
                       }
                       void* const send = pair.Start(pair.Send(123, 1));
                       pair.Stop(send);
                       pair.Kernel(send, 5, 1'005);
                       world.Finalize();
                       pair.Finalize();
                     }),
            0);
  constexpr uint64_t expected = 20 * 3 + 1;
  const json profile = ProfileWith(daemon.socket_path(), "llama", expected);
  EXPECT_EQ(profile.at("lost"), 0) << JsonText(profile, 1);
  EXPECT_EQ(profile.at("malformed"), 0);
  EXPECT_EQ(profile.at("events"), expected);

  const json all_reduce = RowOf(profile, "world", "collective");
  ASSERT_TRUE(all_reduce.is_object()) << JsonText(profile, 1);
  EXPECT_EQ(all_reduce.at("function"), "AllReduce");
  EXPECT_EQ(all_reduce.at("algorithm"), "RING");
  EXPECT_EQ(all_reduce.at("protocol"), "SIMPLE");
  EXPECT_EQ(all_reduce.at("events"), 10);
  EXPECT_EQ(all_reduce.at("bytes"), 40'000);
  EXPECT_EQ(all_reduce.at("timed"), Host::kHasKernels ? "gpu" : "host");
  const json proxy = RowOf(profile, "world", "proxy_send");
  EXPECT_EQ(proxy.at("function"), "AllReduce") << "a proxy's work is that of its operation";
  EXPECT_EQ(proxy.at("bytes"), 40'000);
  EXPECT_EQ(RowOf(profile, "pair", "p2p", "Send").at("bytes"), 123);
  EXPECT_EQ(RowOf(profile, "pair", "group").at("events"), 10);
  if (Host::kHasKernels) {
    EXPECT_DOUBLE_EQ(all_reduce.at("largest_seconds").template get<double>(), 50e-6);
    EXPECT_EQ(RowOf(profile, "world", "kernel").at("events"), 20);
    EXPECT_DOUBLE_EQ(RowOf(profile, "pair", "p2p").at("seconds").template get<double>(), 1e-6);
  }
  const auto& first = profile.at("communicators").at(0);
  EXPECT_EQ(first.at("id"), "0000000000000abc");
  EXPECT_EQ(first.at("ranks"), Host::kTellsCommunicators ? json() : json(8));
  EXPECT_EQ(first.at("hosts"), Host::kTellsCommunicators ? json() : json(2));
}

// Whatever NCCL, or a program in its place, calls in any order: no error, no crash, and what was
// right in between is told.
TYPED_TEST(NcclProfiler, TakesCallsInAnyOrder) {
  using Host = ProfiledHost<TypeParam::value>;
  const DaemonProcess daemon(
      "[profiler]\nevents = [\"group\", \"collective\", \"p2p\", \"proxy\", \"proxy_step\", "
      "\"proxy_control\", \"kernel\", \"group_call\", \"collective_call\", \"p2p_call\", "
      "\"kernel_launch\", \"copy_collective\", \"copy_sync\", \"copy_batch\"]\n");
  ASSERT_EQ(
      RunInJob("misuse",
               [] {
                 Host host(Library(), 7, nullptr);
                 void* handle = nullptr;
                 // Arguments that are missing.
                 EXPECT_EQ(host.table->start_event(host.context, nullptr, nullptr), ncclSuccess);
                 EXPECT_EQ(host.table->start_event(host.context, &handle, nullptr), ncclSuccess);
                 EXPECT_EQ(handle, nullptr);
                 EXPECT_EQ(host.table->start_event(nullptr, &handle, nullptr), ncclSuccess);
                 // Contexts and handles that are none.
                 int somewhere = 0;
                 auto event = Host::Of(kProfileGroups);
                 EXPECT_EQ(host.table->start_event(&somewhere, &handle, &event), ncclSuccess);
                 EXPECT_EQ(handle, nullptr);
                 for (const uint64_t garbage : {uint64_t{1}, uint64_t{4095}, uint64_t{1} << 23,
                                                UINT64_MAX, uint64_t{1} << 62}) {
                   auto* const none = reinterpret_cast<void*>(garbage);
                   host.Stop(none);
                   typename Host::State state{};
                   for (int number = -1; number < 40; ++number) {
                     host.Record(none, number, &state);
                     host.Record(none, number, nullptr);
                   }
                   host.Stop(host.Start(Host::Proxy(none, false, -1, -1)));
                   host.Kernel(none, 9, 3);
                 }
                 // Types that are none, or several.
                 for (uint32_t bit = 0; bit < 32; ++bit) {
                   host.Stop(host.Start(Host::Of(uint32_t{1} << bit)));
                 }
                 host.Stop(host.Start(Host::Of(0)));
                 host.Stop(host.Start(Host::Of(UINT32_MAX)));
                 // Stops that come twice, and children that come late or stay.
                 void* const collective = host.Start(host.AllReduce(1, 2));
                 host.Kernel(collective, 1, 2);
                 host.Stop(collective);
                 host.Stop(collective);
                 host.Kernel(collective, 1, 2);
                 host.Kernel(collective, 1, 2);
                 host.Stop(collective);
                 host.Start(host.AllReduce(1, 200));
                 host.Start(Host::Proxy(collective, true, 1, 1));
                 host.Finalize();
                 host.Finalize();
                 EXPECT_EQ(host.Start(host.AllReduce(1, 2)), nullptr);
                 EXPECT_EQ(host.table->finalize(nullptr), ncclSuccess);
                 EXPECT_EQ(host.table->finalize(&somewhere), ncclSuccess);
                 // The plugin still works, and so it does without a mask to write to.
                 Host next(Library(), 8, "next");
                 next.RunAllReduce(1, 1, 10);
                 next.Finalize();
               }),
      0);
  json row;
  EXPECT_TRUE(Eventually(kReadWithin, [&] {
    const json profile = ProfileAt(daemon.socket_path(), "misuse");
    if (profile.is_object()) row = RowOf(profile, "next", "collective");
    return row.is_object();
  }));
  EXPECT_EQ(row.at("events"), 1);
  EXPECT_EQ(ProfileAt(daemon.socket_path(), "misuse").at("malformed"), 0);
}

// NCCL closes the library with the last communicator, and opens it anew with the next.
TYPED_TEST(NcclProfiler, IsUnloadedAndLoadedAgain) {
  using Host = ProfiledHost<TypeParam::value>;
  const DaemonProcess daemon;
  ASSERT_EQ(RunInJob("again",
                     [] {
                       for (int i = 0; i < 3; ++i) {
                         const ProfilerLibrary library(PROFILER_PLUGIN);
                         Host host(library, 7, "world");
                         host.RunAllReduce(1, 1, 10);
                         host.Finalize();
                       }
                     }),
            0);
  const json profile = ProfileWith(daemon.socket_path(), "again", 9);
  EXPECT_EQ(profile.at("events"), 9);
  EXPECT_EQ(profile.at("communicators").size(), 1u);
}

// A child has none of the parent's communicators, and its own ones count apart.
TYPED_TEST(NcclProfiler, AForkedChildTellsOfItsOwnEventsAlone) {
  using Host = ProfiledHost<TypeParam::value>;
  const DaemonProcess daemon;
  ASSERT_EQ(RunInJob("forking",
                     [] {
                       Host host(Library(), 7, "parent");
                       void* const begun = host.Start(host.AllReduce(1, 0));
                       const pid_t child = fork();
                       if (child == 0) {
                         host.Stop(begun);
                         EXPECT_EQ(host.Start(host.AllReduce(1, 0)), nullptr);
                         host.Finalize();
                         Host own(Library(), 8, "child");
                         own.RunAllReduce(1, 1, 10);
                         own.Finalize();
                         _exit(::testing::Test::HasFailure() ? 1 : 0);
                       }
                       EXPECT_EQ(StatusOf(child), 0);
                       host.Stop(begun);
                       host.RunAllReduce(1, 1, 10);
                       host.Finalize();
                     }),
            0);
  const json profile = ProfileWith(daemon.socket_path(), "forking", 7);
  EXPECT_EQ(profile.at("events"), 7) << JsonText(profile, 1);
  EXPECT_EQ(RowOf(profile, "child", "group").at("events"), 1);
  EXPECT_EQ(RowOf(profile, "parent", "group").at("events"), 1);
}

// Threads of NCCL write at once. Each event is told or counted as lost.
TEST(NcclProfilerThreads, LoseNothingUntold) {
  using Host = ProfiledHost<6>;
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEach = 20'000;
  const DaemonProcess daemon;
  ASSERT_EQ(RunInJob("threads",
                     [] {
                       Host host(Library(), 7, "world");
                       std::vector<std::thread> threads;
                       for (uint64_t i = 0; i < kThreads; ++i) {
                         threads.emplace_back([&host] {
                           for (uint64_t n = 0; n < kEach; ++n) host.RunAllReduce(1, 2, 10);
                         });
                       }
                       for (std::thread& thread : threads) thread.join();
                       host.Finalize();
                     }),
            0);
  constexpr uint64_t kExpected = 3 * kThreads * kEach;
  const json profile = ProfileWith(daemon.socket_path(), "threads", kExpected);
  EXPECT_EQ(profile.at("events").get<uint64_t>() + profile.at("lost").get<uint64_t>(), kExpected);
  EXPECT_EQ(profile.at("malformed"), 0);
}

// Kernels of one operation end on another thread than the one that launches operations.
TEST(NcclProfilerThreads, KernelsEndElsewhere) {
  using Host = ProfiledHost<6>;
  constexpr int kOperations = 2000;
  const DaemonProcess daemon;
  ASSERT_EQ(RunInJob("elsewhere",
                     [] {
                       Host host(Library(), 7, "world");
                       std::vector<std::atomic<void*>> launched(kOperations);
                       std::thread proxy([&] {
                         for (std::atomic<void*>& one : launched) {
                           void* handle = nullptr;
                           while ((handle = one.load(std::memory_order_acquire)) == nullptr) {
                             std::this_thread::yield();
                           }
                           host.Kernel(handle, 100, 300);
                           host.Kernel(handle, 100, 300);
                         }
                       });
                       for (std::atomic<void*>& one : launched) {
                         void* const handle = host.Start(host.AllReduce(1, 2));
                         ASSERT_NE(handle, nullptr);
                         one.store(handle, std::memory_order_release);
                         host.Stop(handle);
                       }
                       proxy.join();
                       host.Finalize();
                     }),
            0);
  const json profile = ProfileWith(daemon.socket_path(), "elsewhere", kOperations);
  EXPECT_EQ(profile.at("events"), kOperations);
  const json row = RowOf(profile, "world", "collective");
  EXPECT_EQ(row.at("timed"), "gpu") << JsonText(profile, 1);
  EXPECT_EQ(row.at("events"), kOperations);
  EXPECT_EQ(RowOf(profile, "world", "kernel").at("events"), 2 * kOperations);
}

// A daemon that stands still loses events, and the losses are told to the last one.
TEST(NcclProfilerLosses, AreCounted) {
  using Host = ProfiledHost<6>;
  constexpr uint64_t kGroups = 3 * kProfileSlots;
  const DaemonProcess daemon;
  ASSERT_EQ(RunInJob("losing",
                     [&daemon] {
                       Host host(Library(), 7, "world");
                       kill(daemon.pid(), SIGSTOP);
                       for (uint64_t i = 0; i < kGroups; ++i) {
                         host.Stop(host.Start(Host::Of(kProfileGroups)));
                       }
                       kill(daemon.pid(), SIGCONT);
                       host.Finalize();
                     }),
            0);
  const json profile = ProfileWith(daemon.socket_path(), "losing", kGroups);
  EXPECT_GE(profile.at("lost").get<uint64_t>(), kGroups - 2 * kProfileSlots);
  EXPECT_EQ(profile.at("events").get<uint64_t>() + profile.at("lost").get<uint64_t>(), kGroups);
}

// A process that has all places of open events taken is told of, too, and recovers.
TEST(NcclProfilerLosses, OfEventsThatNeverEndAreCounted) {
  using Host = ProfiledHost<6>;
  constexpr uint64_t kBegun = 5000;  // More than there are places.
  const DaemonProcess daemon;
  ASSERT_EQ(RunInJob("leaking",
                     [] {
                       Host leaking(Library(), 7, "leaking");
                       uint64_t refused = 0;
                       for (uint64_t i = 0; i < kBegun; ++i) {
                         const void* const handle = leaking.Start(Host::Of(kProfileGroups));
                         refused += handle == nullptr ? 1 : 0;
                       }
                       EXPECT_EQ(refused, kBegun - 4096);
                       leaking.Finalize();
                       Host next(Library(), 8, "next");
                       next.RunAllReduce(1, 1, 10);
                       next.Finalize();
                     }),
            0);
  const json profile = ProfileWith(daemon.socket_path(), "leaking", kBegun - 4096 + 3);
  EXPECT_EQ(profile.at("lost"), kBegun - 4096);
  EXPECT_EQ(RowOf(profile, "next", "collective").at("events"), 1);
}

TEST(NcclProfilerConfig, AProviderMayWantNoEvents) {
  const DaemonProcess daemon("[profiler]\nevents = []\n");
  EXPECT_EQ(RunInJob("unwanted",
                     [] {
                       ProfiledHost<6> host(Library(), 7, "world");
                       EXPECT_EQ(host.mask, 0);
                       EXPECT_EQ(host.context, nullptr);
                     }),
            0);
  EXPECT_EQ(Ask(daemon.socket_path(), {.target = "/v1/profiles"}).second.at("jobs").size(), 0u);
}

TEST(NcclProfilerConfig, AProviderMayWantSteps) {
  using Host = ProfiledHost<6>;
  const DaemonProcess daemon("[profiler]\nevents = [\"proxy_step\"]\n");
  ASSERT_EQ(RunInJob("steps",
                     [] {
                       Host host(Library(), 7, "world");
                       EXPECT_FALSE(host.Wants(kProfileCollectives));
                       EXPECT_TRUE(host.Wants(kProfileProxyOperations)) << "steps belong to these";
                       void* const proxy = host.Start(Host::Proxy(nullptr, true, 2, 100));
                       void* const step = host.Start(Host::Of(kProfileProxySteps, proxy));
                       typename Host::State state{};
                       state.proxy_step.transferred = 77;
                       host.Record(step, 9, &state);
                       host.Stop(step);
                       host.Stop(proxy);
                       host.Finalize();
                     }),
            0);
  EXPECT_EQ(RowOf(ProfileWith(daemon.socket_path(), "steps", 2), "world", "proxy_step").at("bytes"),
            77);
}

// Processes that claim no job are one by their first communicator.
TEST(NcclProfilerJobs, ProcessesWithoutAJobAreOfTheirFirstCommunicator) {
  const DaemonProcess daemon;
  for (int rank = 0; rank < 2; ++rank) {
    Library();
    EXPECT_EQ(StatusOf(StartAs(getuid(),
                               [rank] {
                                 unsetenv("HARMONAIZE_JOB");
                                 ProfiledHost<6> host(Library(), 0x77, "world", 2, rank);
                                 host.RunAllReduce(1, 1, 10);
                                 host.Finalize();
                                 return 0;
                               })),
              0);
  }
  json jobs;
  EXPECT_TRUE(Eventually(kReadWithin, [&] {
    jobs = Ask(daemon.socket_path(), {.target = "/v1/profiles"}).second.at("jobs");
    return jobs.size() == 1 && jobs.at(0).at("events") == 6;
  })) << JsonText(jobs, 1);
}

/// A process of a user's that has told of an all-reduce and goes on.
class ProfiledUser {
 public:
  ProfiledUser(uid_t user, const std::string& job) {
    Library();
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    process_ = StartAs(user, [&] {
      setenv("HARMONAIZE_JOB", job.c_str(), 1);
      ProfiledHost<6> host(Library(), user, "world");
      host.RunAllReduce(user, 1, 10);
      EXPECT_EQ(write(ready[1], "!", 1), 1);
      while (true) pause();
      return 0;
    });
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~ProfiledUser() { End(); }
  void End() {
    if (process_ < 0) return;
    kill(process_, SIGKILL);
    StatusOf(std::exchange(process_, -1));
  }

 private:
  pid_t process_ = -1;
};

/// What a user is answered.
Answer AskAs(uid_t user, const std::string& socket, const std::string& target) {
  int result[2];
  EXPECT_EQ(pipe(result), 0);
  const pid_t child = StartAs(user, [&] {
    const Answer answer = Ask(socket, {.target = target});
    const std::string text = std::to_string(answer.first) + JsonText(answer.second);
    EXPECT_EQ(write(result[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return 0;
  });
  close(result[1]);
  std::string text;
  char some[4096];
  for (ssize_t got = 0; (got = read(result[0], some, sizeof some)) > 0;) {
    text.append(some, static_cast<size_t>(got));
  }
  close(result[0]);
  EXPECT_EQ(StatusOf(child), 0);
  if (text.size() < 3) return {0, nullptr};
  return {std::stoi(text.substr(0, 3)), ReadJson(text.substr(3))};
}

TEST(NcclProfilerUsers, SeeTheirOwnJobsAndOperatorsAll) {
  if (getuid() != 0) GTEST_SKIP() << "only root can be two users";
  const DaemonProcess daemon;
  std::filesystem::permissions(daemon.folder(), std::filesystem::perms(0755));
  ProfiledUser alice(kAlice, "llama");
  const ProfiledUser bob(kBob, "llama");
  json alices;
  ASSERT_TRUE(Eventually(kReadWithin, [&] {
    const json jobs = AskAs(kAlice, daemon.socket_path(), "/v1/profiles").second.at("jobs");
    const json bobs = AskAs(kBob, daemon.socket_path(), "/v1/profiles").second.at("jobs");
    if (jobs.size() != 1 || bobs.size() != 1) return false;
    alices = jobs.at(0);
    return alices.at("events") == 3 && bobs.at(0).at("events") == 3;
  }));
  EXPECT_FALSE(alices.contains("tenant"));
  EXPECT_EQ(alices.at("processes"), 1);
  const std::string id = alices.at("job").get<std::string>();
  const std::string path = "/v1/jobs/" + id + "/profile";
  const auto [status, profile] = AskAs(kAlice, daemon.socket_path(), path);
  EXPECT_EQ(status, 200);
  EXPECT_EQ(RowOf(profile, "world", "collective").at("bytes"), 4 * kAlice);
  EXPECT_EQ(AskAs(kBob, daemon.socket_path(), path).first, 404) << "another's job is none";
  EXPECT_EQ(AskAs(kCarol, daemon.socket_path(), "/v1/profiles").second.at("jobs").size(), 0u);
  // The job of a process whose NCCL tells of events is one of its user's jobs.
  EXPECT_EQ(AskAs(kAlice, daemon.socket_path(), "/v1/jobs/" + id).second.at("ended"), nullptr);
  EXPECT_EQ(AskAs(kBob, daemon.socket_path(), "/v1/jobs/" + id).first, 404);

  const json all = Ask(OperatorSocketPath(daemon.socket_path()), {.target = "/v1/profiles"}).second;
  EXPECT_EQ(all.at("jobs").size(), 2u);
  EXPECT_TRUE(all.at("jobs").at(0).at("tenant").is_string());
  EXPECT_EQ(
      Ask(OperatorSocketPath(daemon.socket_path()), {.target = "/v1/jobs/llama/profile"}).first,
      409)
      << "two tenants have a job of this name";

  alice.End();
  EXPECT_TRUE(Eventually(kReadWithin, [&] {
    return AskAs(kAlice, daemon.socket_path(), path).second.at("processes") == 0;
  }));
}

TEST(ProfileMetrics, CountEventsByKind) {
  const DaemonProcess daemon;
  ASSERT_EQ(RunInJob("llama",
                     [] {
                       ProfiledHost<6> host(Library(), 0xabc, "world");
                       for (int i = 0; i < 5; ++i) host.RunAllReduce(1024, 2, 50'000);
                       host.Finalize();
                     }),
            0);
  ProfileWith(daemon.socket_path(), "llama", 15);
  std::string page;
  EXPECT_TRUE(Eventually(kReadWithin, [&] {
    const FileDescriptor socket =
        ConnectTo(HttpSocketPath(OperatorSocketPath(daemon.socket_path())));
    page = CallHttp(socket, {.target = "/metrics"}, kAnsweredWithinMs)->body;
    return page.find("harmonaize_profiled_processes 0") != std::string::npos;
  })) << page;
  for (const char* line :
       {"harmonaize_profile_events_total{kind=\"collective\"} 5",
        "harmonaize_profile_events_total{kind=\"kernel\"} 10",
        "harmonaize_profile_lost_events_total 0", "harmonaize_profile_malformed_records_total 0"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
}

// ---------------------------------------------------------------------------------------------
// Processes that write by themselves

Status OpenRing(HostileSession& session, int descriptor) {
  return session.Ask(OpenProfileRequest{}, std::span(&descriptor, descriptor < 0 ? 0 : 1));
}

/// A ring as the plugin makes it.
struct RingMemory {
  RingMemory() {
    Result<SharedMemory> made = CreateSharedMemory("ring", sizeof(ProfileRing));
    EXPECT_TRUE(made.ok());
    memory = std::move(*made);
    memset(memory.mapping.data(), 0, memory.mapping.size());
  }
  ProfileRing* ring() { return reinterpret_cast<ProfileRing*>(memory.mapping.data()); }
  int descriptor() const { return memory.descriptor.get(); }

  SharedMemory memory;
};

TEST(HostileProfiler, MemoryThatIsNoRingIsRefused) {
  const DaemonProcess daemon;
  const int before = daemon.OpenDescriptors();
  {
    HostileSession session(daemon.socket_path());
    EXPECT_FALSE(OpenRing(session, -1).ok());
    const FileDescriptor small(memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(small.get(), 4096), 0);
    EXPECT_FALSE(OpenRing(session, small.get()).ok());
    const FileDescriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(unsealed.get(), sizeof(ProfileRing)), 0);
    EXPECT_FALSE(OpenRing(session, unsealed.get()).ok());
    const FileDescriptor file(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    EXPECT_FALSE(OpenRing(session, file.get()).ok());
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    EXPECT_FALSE(OpenRing(session, pipes[0]).ok());
    close(pipes[0]);
    close(pipes[1]);
    RingMemory good;
    EXPECT_TRUE(OpenRing(session, good.descriptor()).ok());
    RingMemory second;
    const Status again = OpenRing(session, second.descriptor());
    EXPECT_EQ(again.code(), Code::kInvalidUsage) << again.message();
    HostileSession other(daemon.socket_path());
    EXPECT_FALSE(OpenRing(other, good.descriptor()).ok()) << "a ring is of one session";
  }
  EXPECT_TRUE(daemon.SettlesTo(before));
}

// An honest job tells on while others write whatever they like.
TEST(HostileProfiler, GarbageIsCountedAndHurtsNobodyElse) {
  const DaemonProcess daemon;
  HelloRequest hello;
  SetFieldText(hello.job_name, "garbage");
  HostileSession session(daemon.socket_path(), hello);
  RingMemory memory;
  ASSERT_TRUE(OpenRing(session, memory.descriptor()).ok());
  std::atomic<bool> ending{false};
  std::thread writer([&] {
    std::mt19937_64 random(7);
    ProfileRing* const ring = memory.ring();
    for (uint64_t round = 0; !ending.load(); ++round) {
      const uint64_t head = ring->head.load();
      for (uint64_t i = 0; i < kProfileSlots; ++i) {
        ProfileSlot& slot = ring->slots[(head + i) % kProfileSlots];
        for (auto& word : slot.words) word.store(random());
        // Records whose head is right, so that they get further.
        if (i % 3 == 0) slot.words[0].store(random() & 0x0000'03ff'0004'080f);
        slot.turn.store(i % 1000 == 999 ? random() : head + i + 1);
      }
      ring->tail.store(random());
      ring->lost.store(random());
    }
  });
  ASSERT_EQ(RunInJob("honest",
                     [] {
                       ProfiledHost<6> host(Library(), 7, "world");
                       for (int i = 0; i < 1000; ++i) host.RunAllReduce(1, 1, 10);
                       host.Finalize();
                     }),
            0);
  const json honest = ProfileWith(daemon.socket_path(), "honest", 3000);
  EXPECT_EQ(honest.at("events"), 3000);
  EXPECT_EQ(honest.at("lost"), 0);
  EXPECT_EQ(honest.at("malformed"), 0);
  json garbage;
  EXPECT_TRUE(Eventually(kReadWithin, [&] {
    garbage = ProfileAt(daemon.socket_path(), "garbage");
    return garbage.is_object() && garbage.at("malformed") > 0 && garbage.at("events") > 0;
  }));
  ending.store(true);
  writer.join();
  EXPECT_LE(garbage.at("communicators").size(), 256u);
  for (const json& one : garbage.at("communicators")) EXPECT_LE(one.at("rows").size(), 64u);
}

// One user opens as many rings as it gets, and another one still has its own.
TEST(HostileProfiler, AUserTakesRingsAsFarAsItsQuotaGoes) {
  if (getuid() != 0) GTEST_SKIP() << "only root can be two users";
  constexpr int kMost = 8;
  const DaemonProcess daemon(
      "[quota]\nregion_bytes = " + std::to_string(kMost * sizeof(ProfileRing)) + "\n");
  std::filesystem::permissions(daemon.folder(), std::filesystem::perms(0755));
  const Stranger stranger([&] {
    static std::vector<HostileSession> sessions;
    int opened = 0;
    for (int i = 0; i < 2 * kMost; ++i) {
      HostileSession& session = sessions.emplace_back(daemon.socket_path());
      RingMemory memory;
      const Status status = OpenRing(session, memory.descriptor());
      opened += status.ok() ? 1 : 0;
      EXPECT_TRUE(status.ok() || status.code() == Code::kInvalidUsage) << status.message();
    }
    EXPECT_EQ(opened, kMost);
  });
  ProfiledUser alice(kAlice, "llama");
  EXPECT_TRUE(Eventually(kReadWithin, [&] {
    const json jobs = AskAs(kAlice, daemon.socket_path(), "/v1/profiles").second.at("jobs");
    return jobs.size() == 1 && jobs.at(0).at("events") == 3;
  }));
}

// A process that takes pages out of its ring loses the ring, and the daemon goes on.
TEST(HostileProfiler, ARingWithoutPagesIsReadNoMore) {
  const DaemonProcess daemon;
  HelloRequest hello;
  SetFieldText(hello.job_name, "holes");
  HostileSession session(daemon.socket_path(), hello);
  // None of its pages was ever touched.
  Result<SharedMemory> memory = CreateSharedMemory("untouched", sizeof(ProfileRing));
  ASSERT_TRUE(memory.ok());
  const int descriptor = memory->descriptor.get();
  static_cast<void>(OpenRing(session, descriptor));
  ASSERT_EQ(RunInJob("honest",
                     [] {
                       ProfiledHost<6> host(Library(), 7, "world");
                       host.RunAllReduce(1, 1, 10);
                       host.Finalize();
                     }),
            0);
  EXPECT_EQ(ProfileWith(daemon.socket_path(), "honest", 3).at("events"), 3);
}

}  // namespace
}  // namespace harmonaize::testing
