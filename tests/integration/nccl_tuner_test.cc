// NCCL's tuner plugin, called as NCCL calls it, beside daemons. How answers follow links is in
// tuner_follows_test.py, and how ranks change tables at once in tuning_threads_test.cc.

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/nccl-profiler/v4.h"
#include "plugins/nccl-tuner/tuner_abi.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "src/ipc/tuning_reader.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/free_port.h"
#include "tests/support/hostile_session.h"
#include "tests/support/other_users.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;
using namespace nccl_abi;

constexpr size_t kBytes = 1 << 20;
constexpr uint64_t kWorld = 0xabc;
/// Longest wait for something that takes milliseconds, in seconds.
constexpr double kLongestWait = 20;

/// A cost table as NCCL has it, with costs that are all different and -1 for NVLS.
using CostTable = std::array<std::array<float, kTunedProtocols>, kTunedAlgorithms>;
CostTable SomeCosts() {
  CostTable costs;
  float next = 10;
  for (auto& row : costs) {
    for (float& cost : row) cost = next++;
  }
  costs[kNcclNvls] = {-1, -1, -1};
  return costs;
}
TunerCosts AsNccl(CostTable* costs) {
  return reinterpret_cast<TunerCosts>(costs->data());
}

/// The plugin's library, opened as NCCL opens it.
class TunerLibrary {
 public:
  TunerLibrary() : library_(dlopen(TUNER_PLUGIN, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
  }
  ~TunerLibrary() { dlclose(library_); }
  TunerLibrary(const TunerLibrary&) = delete;
  TunerLibrary& operator=(const TunerLibrary&) = delete;

  template <typename Table>
  Table& Find(const char* symbol) const {
    void* const table = dlsym(library_, symbol);
    EXPECT_NE(table, nullptr) << symbol;
    return *static_cast<Table*>(table);
  }
  TunerV2& v2() const { return Find<TunerV2>("ncclTunerPlugin_v2"); }
  TunerV3& v3() const { return Find<TunerV3>("ncclTunerPlugin_v3"); }
  TunerV4& v4() const { return Find<TunerV4>("ncclTunerPlugin_v4"); }
  TunerV5& v5() const { return Find<TunerV5>("ncclTunerPlugin_v5"); }
  TunerV6& v6() const { return Find<TunerV6>("ncclTunerPlugin_v6"); }

 private:
  void* library_;
};

/// Asks each version with a context, and expects NCCL's own choices.
void ExpectNothingChanges(const TunerLibrary& library, void* context) {
  int algorithm = -7;
  int protocol = -7;
  int channels = 0;
  EXPECT_EQ(library.v2().get_choice(context, kNcclAllReduce, kBytes, 0, 0, 1, &algorithm, &protocol,
                                    &channels),
            ncclSuccess);
  EXPECT_EQ(algorithm, -7);
  EXPECT_EQ(protocol, -7);
  CostTable costs = SomeCosts();
  EXPECT_EQ(
      library.v3().get_costs(context, kNcclAllReduce, kBytes, 1, AsNccl(&costs), 7, 3, &channels),
      ncclSuccess);
  for (const auto& get : {library.v4().get_costs, library.v5().get_costs, library.v6().get_costs}) {
    EXPECT_EQ(get(context, kNcclAllReduce, kBytes, 1, AsNccl(&costs), 7, 3, 0, &channels),
              ncclSuccess);
  }
  EXPECT_EQ(costs, SomeCosts());
  EXPECT_EQ(channels, 0);
}

/// Calls that no NCCL makes.
void MisuseAll(const TunerLibrary& library, void* context) {
  CostTable costs = SomeCosts();
  int channels = 0;
  const auto get = library.v6().get_costs;
  for (const int function : {-1, 5, 11, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(get(context, function, kBytes, 1, AsNccl(&costs), 7, 3, 0, &channels), ncclSuccess);
  }
  EXPECT_EQ(get(context, 4, SIZE_MAX, 1, AsNccl(&costs), 0, 0, 0, &channels), ncclSuccess);
  EXPECT_EQ(get(context, 4, 0, 1, AsNccl(&costs), -5, -5, 0, &channels), ncclSuccess);
  EXPECT_EQ(get(context, 4, kBytes, 1, nullptr, 7, 3, 0, nullptr), ncclSuccess);
  EXPECT_EQ(library.v2().get_choice(context, 4, kBytes, 1, 1, 1, nullptr, nullptr, nullptr),
            ncclSuccess);
  EXPECT_EQ(costs, SomeCosts());
}

TEST(NcclTuner, SaysWhatItIs) {
  const TunerLibrary library;
  for (const char* name : {library.v2().name, library.v3().name, library.v4().name,
                           library.v5().name, library.v6().name}) {
    EXPECT_STREQ(name, "Harmonaize");
  }
  EXPECT_EQ(library.v6().get_chunk_size, nullptr);
}

TEST(NcclTuner, IsSilentAndSaneWithoutADaemon) {
  setenv("HARMONAIZE_SOCKET", "/nonexistent/harmonaized.sock", 1);
  const TunerLibrary library;
  void* context = &context;
  EXPECT_EQ(library.v6().init(&context, kWorld, 4, 2, nullptr, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(library.v5().init(nullptr, kWorld, 4, 2, nullptr, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(library.v4().init(4, 2, nullptr, &context), ncclSuccess);
  EXPECT_EQ(library.v3().init(4, 2, nullptr, &context), ncclSuccess);
  EXPECT_EQ(library.v2().init(4, 2, nullptr, &context), ncclSuccess);
  EXPECT_EQ(context, nullptr);
  ExpectNothingChanges(library, nullptr);
  MisuseAll(library, nullptr);
  int somewhere = 0;
  MisuseAll(library, &somewhere);
  EXPECT_EQ(library.v6().finalize(&somewhere), ncclSuccess);
  EXPECT_EQ(library.v2().destroy(nullptr), ncclSuccess);
}

TEST(NcclTuner, ADaemonThatKnowsNoLinksHasNoAdvice) {
  const DaemonProcess daemon;
  setenv("HARMONAIZE_SOCKET", daemon.socket_path().c_str(), 1);
  const TunerLibrary library;
  void* context = nullptr;
  EXPECT_EQ(library.v6().init(&context, kWorld, 4, 2, nullptr, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(context, nullptr);
}

/// What a daemon says of tuning at one of its sockets.
json StatusOfTuning(const std::string& socket_path) {
  Result<ControlSocket> socket = ControlSocket::Connect(socket_path);
  if (!socket.ok() || !socket->Send(Encode(StatusRequest::kType, StatusRequest{})).ok()) return {};
  const Result<ControlMessage> reply = socket->Receive(HostileSession::kAnswerWithinMs);
  if (!reply.ok()) return {};
  // The document is the message's tail.
  const size_t bytes = DecodeHeader(reply->bytes)->tail_bytes;
  const auto* const text = reinterpret_cast<const char*>(reply->bytes.data());
  const json status = ReadJson({text + reply->bytes.size() - bytes, bytes});
  return status.is_object() ? status.value("nccl_tuning", json::object()) : json::object();
}

/// Two hosts at one switch, with their fabric file.
class TunedHostsTest : public ::testing::Test {
 protected:
  TunedHostsTest()
      : fabric_(WriteFabric()),
        // A daemon finds another one by the address in the fabric file and its own port.
        cluster_(2, "[quota]\nregions = 300\n", "fabric = \"" + fabric_ + "\"\n", "", false,
                 FreePort()) {}
  ~TunedHostsTest() override { unlink(fabric_.c_str()); }

  /// Becomes a process of a host.
  void At(int host) { setenv("HARMONAIZE_SOCKET", cluster_.daemon(host).socket_path().c_str(), 1); }

  /// Runs `body` in a process of its own at a host.
  pid_t StartAt(int host, const std::function<void()>& body) {
    const pid_t child = fork();
    if (child != 0) return child;
    At(host);
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  static void ExpectEndsWell(pid_t child) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  /// What the operators of a host read of tuning.
  json TuningAt(int host) { return StatusOfTuning(OperatorSocketPath(Socket(host))); }
  /// Returns the communicators of which some host is the home.
  std::vector<json> Homes() {
    std::vector<json> all;
    for (int host = 0; host < cluster_.hosts(); ++host) {
      for (const json& one : TuningAt(host).value("home", json::array())) all.push_back(one);
    }
    return all;
  }
  bool OneIsKnownWhole() {
    const std::vector<json> homes = Homes();
    return homes.size() == 1 && homes[0].at("known_ranks") == homes[0].at("ranks");
  }
  std::string Socket(int host) { return cluster_.daemon(host).socket_path(); }

  const std::string fabric_;
  TestCluster cluster_;

 private:
  static std::string WriteFabric() {
    char path[] = "/tmp/harmonaize-tuner-XXXXXX.toml";
    close(mkstemps(path, 5));
    std::ofstream(path) << R"(
[routing]
explicit_paths = 0
[[host]]
name = "host0"
[[host.nic]]
device = "lo"
address = "127.0.0.1"
[[host]]
name = "host1"
[[host.nic]]
device = "lo"
address = "127.0.0.2"
[[switch]]
name = "leaf"
[[link]]
from = ["host0", "host1"]
to = "leaf"
rate = "10Gbit"
)";
    return path;
  }
};

TEST_F(TunedHostsTest, EachVersionIsAdvised) {
  const TunerLibrary library;
  // A process of the other host, with as many communicators.
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t other = StartAt(1, [&] {
    void* five = nullptr;
    void* six = nullptr;
    library.v5().init(&five, 5, 2, 2, nullptr, nullptr, nullptr);
    library.v6().init(&six, 6, 2, 2, nullptr, nullptr, nullptr);
    EXPECT_NE(five, nullptr);
    EXPECT_NE(six, nullptr);
    close(done[1]);
    char end = 0;
    static_cast<void>(!read(done[0], &end, 1));
    library.v5().finalize(five);
    library.v6().finalize(six);
  });
  At(0);
  void* five = nullptr;
  void* six = nullptr;
  EXPECT_EQ(library.v5().init(&five, 5, 2, 2, nullptr, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(library.v6().init(&six, 6, 2, 2, nullptr, nullptr, nullptr), ncclSuccess);
  ASSERT_NE(five, nullptr);
  ASSERT_NE(six, nullptr);
  EXPECT_NE(five, six);
  EXPECT_TRUE(Eventually(kLongestWait, [&] {
    const std::vector<json> homes = Homes();
    return homes.size() == 2 && homes[0].at("known_ranks") == 2 && homes[1].at("known_ranks") == 2;
  })) << JsonText(json(Homes()));
  EXPECT_EQ(TuningAt(0).at("here").size(), 2u);
  EXPECT_EQ(Homes()[0].at("stays_as_it_is"), "");
  // Links carry what the file says.
  for (void* context : {five, six}) {
    ExpectNothingChanges(library, context);
    MisuseAll(library, context);
  }
  EXPECT_EQ(library.v5().finalize(five), ncclSuccess);
  ExpectNothingChanges(library, five);
  EXPECT_EQ(library.v5().finalize(five), ncclSuccess);
  ExpectNothingChanges(library, six);
  EXPECT_EQ(library.v6().finalize(six), ncclSuccess);
  close(done[0]);
  close(done[1]);
  ExpectEndsWell(other);
  EXPECT_TRUE(Eventually(kLongestWait, [&] { return Homes().empty(); }));
  EXPECT_TRUE(TuningAt(0).at("here").empty());
}

TEST_F(TunedHostsTest, TheProfilerTellsTheTunersOfNccl227WhichCommunicatorItIs) {
  At(0);
  const TunerLibrary library;
  void* context = nullptr;
  library.v4().init(2, 2, nullptr, &context);
  EXPECT_EQ(context, nullptr);
  auto& profiler = library.Find<ProfilerV4>("ncclProfiler_v4");
  void* profiled = nullptr;
  int mask = 0;
  EXPECT_EQ(profiler.init(&profiled, &mask, "world", kWorld, 2, 2, 0, nullptr), ncclSuccess);
  for (const auto& init : {library.v2().init, library.v3().init}) {
    init(4, 2, nullptr, &context);  // another communicator
    EXPECT_EQ(context, nullptr);
    profiler.init(&profiled, &mask, "world", kWorld, 2, 2, 0, nullptr);
  }
  EXPECT_EQ(library.v4().init(2, 2, nullptr, &context), ncclSuccess);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(TuningAt(0).at("here").at(0).at("communicator"), "0xabc");
  ExpectNothingChanges(library, context);
  library.v4().destroy(context);
}

TEST_F(TunedHostsTest, LoadsAgainAndForks) {
  At(0);
  for (int i = 0; i < 3; ++i) {
    const TunerLibrary library;
    void* context = nullptr;
    library.v6().init(&context, kWorld, 2, 2, nullptr, nullptr, nullptr);
    ASSERT_NE(context, nullptr);
    const pid_t child = StartAt(0, [&] {
      ExpectNothingChanges(library, context);
      library.v6().finalize(context);
      void* own = nullptr;
      library.v6().init(&own, kWorld + 1, 2, 2, nullptr, nullptr, nullptr);
      EXPECT_NE(own, nullptr);
      ExpectNothingChanges(library, own);
    });
    ExpectEndsWell(child);
    ExpectNothingChanges(library, context);
    EXPECT_EQ(TuningAt(0).at("here").at(0).at("ranks_here"), 1);
    library.v6().finalize(context);
  }
}

TEST_F(TunedHostsTest, AnswersGoOnWithoutTheDaemon) {
  At(0);
  const TunerLibrary library;
  void* context = nullptr;
  library.v6().init(&context, kWorld, 2, 2, nullptr, nullptr, nullptr);
  ASSERT_NE(context, nullptr);
  cluster_.daemon(0).Kill();
  ExpectNothingChanges(library, context);
  EXPECT_EQ(library.v6().finalize(context), ncclSuccess);
  cluster_.Restart(0);
  library.v6().init(&context, kWorld, 2, 2, nullptr, nullptr, nullptr);
  EXPECT_NE(context, nullptr);
  library.v6().finalize(context);
}

TEST_F(TunedHostsTest, ARestartedHomeHearsOfTheRanksAgain) {
  const TunerLibrary library;
  // The number leads to host 1.
  constexpr uint64_t kOfHost1 = 3;
  At(0);
  void* context = nullptr;
  library.v6().init(&context, kOfHost1, 2, 2, nullptr, nullptr, nullptr);
  ASSERT_NE(context, nullptr);
  EXPECT_TRUE(Eventually(kLongestWait, [&] { return Homes().size() == 1; }));
  cluster_.daemon(1).Kill();
  cluster_.Restart(1);
  EXPECT_TRUE(Eventually(kLongestWait, [&] {
    const json homes = TuningAt(1).value("home", json::array());
    return homes.size() == 1 && homes[0].at("known_ranks") == 1;
  }));
  library.v6().finalize(context);
}

// ---------------------------------------------------------------------------------------------
// Processes that ask by themselves

/// A rank's position as the plugin makes it.
SharedMemory Position(size_t bytes = kTuningPositionBytes) {
  Result<SharedMemory> memory = CreateSharedMemory("position", bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  memset(memory->mapping.data(), 0, bytes);
  return std::move(*memory);
}

Status Open(HostileSession& session, const OpenTuningRequest& request, int descriptor) {
  return session.Ask(request, std::span(&descriptor, descriptor < 0 ? 0 : 1));
}

TEST_F(TunedHostsTest, WhatNoPluginAsksIsRefused) {
  HostileSession session(Socket(0));
  EXPECT_FALSE(Open(session, {kWorld, 2, 2}, -1).ok());
  EXPECT_FALSE(Open(session, {kWorld, 2, 2}, Position(64).descriptor.get()).ok());
  const FileDescriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), kTuningPositionBytes), 0);
  EXPECT_FALSE(Open(session, {kWorld, 2, 2}, unsealed.get()).ok());
  for (const OpenTuningRequest& request :
       {OpenTuningRequest{kWorld, 0, 2}, OpenTuningRequest{kWorld, -1, 2},
        OpenTuningRequest{kWorld, INT32_MAX, 2}, OpenTuningRequest{kWorld, 2, 0},
        OpenTuningRequest{kWorld, 2, 3}}) {
    EXPECT_FALSE(Open(session, request, Position().descriptor.get()).ok());
  }
  EXPECT_TRUE(Open(session, {kWorld, 2, 2}, Position().descriptor.get()).ok());
  const auto number = session.LastReply<OpenTuningReply>().number;
  EXPECT_NE(number, 0u);
  EXPECT_FALSE(Open(session, {kWorld, 3, 2}, Position().descriptor.get()).ok());
  EXPECT_TRUE(Open(session, {kWorld, 2, 2}, Position().descriptor.get()).ok());
  EXPECT_FALSE(Open(session, {kWorld, 2, 2}, Position().descriptor.get()).ok());
  HostileSession other(Socket(0));
  EXPECT_FALSE(other.Ask(CloseTuningRequest{.number = number}).ok());
  EXPECT_FALSE(other.Ask(CloseTuningRequest{.number = number + 100}).ok());
  EXPECT_TRUE(session.Ask(CloseTuningRequest{.number = number}).ok());
  EXPECT_FALSE(session.Ask(CloseTuningRequest{.number = number}).ok());
}

TEST_F(TunedHostsTest, NobodyCanWriteTheTable) {
  HostileSession session(Socket(0));
  ASSERT_TRUE(Open(session, {kWorld, 2, 2}, Position().descriptor.get()).ok());
  ASSERT_EQ(session.last_descriptors().size(), 1u);
  const int table = session.last_descriptors()[0].get();
  const auto map = [](int descriptor, int protection) {
    return mmap(nullptr, sizeof(TuningSegment), protection, MAP_SHARED, descriptor, 0);
  };
  EXPECT_EQ(map(table, PROT_READ | PROT_WRITE), MAP_FAILED);
  void* const mapped = map(table, PROT_READ);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_NE(mprotect(mapped, sizeof(TuningSegment), PROT_READ | PROT_WRITE), 0);
  const FileDescriptor again(
      open(("/proc/self/fd/" + std::to_string(table)).c_str(), O_RDWR | O_CLOEXEC));
  if (again.valid()) {
    EXPECT_EQ(map(again.get(), PROT_READ | PROT_WRITE), MAP_FAILED);
    EXPECT_LT(pwrite(again.get(), "x", 1, 0), 0);
    EXPECT_NE(fallocate(again.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    EXPECT_NE(ftruncate(again.get(), 0), 0);
  }
  munmap(mapped, sizeof(TuningSegment));
}

TEST_F(TunedHostsTest, APositionThatNoRankCanBeAtChangesNothing) {
  HostileSession session(Socket(0));
  const SharedMemory position = Position();
  auto& words = *reinterpret_cast<TuningPosition*>(position.mapping.data());
  ASSERT_TRUE(Open(session, {kWorld, 2, 2}, position.descriptor.get()).ok());
  ASSERT_TRUE(Open(session, {kWorld, 2, 2}, Position().descriptor.get()).ok());
  for (const uint64_t calls : {UINT64_MAX, uint64_t{0}, uint64_t{1} << 63}) {
    words.calls = calls;
    words.checkpoints[0] = calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // a look of the daemon's
  }
  EXPECT_TRUE(OneIsKnownWhole());
}

TEST_F(TunedHostsTest, AUserHasItsQuotaOfCommunicators) {
  HostileSession session(Socket(0));
  Status status;
  int opened = 0;
  for (; opened < 1000; ++opened) {
    const SharedMemory own = Position();
    status = Open(session, {static_cast<uint64_t>(opened), 2, 2}, own.descriptor.get());
    if (!status.ok()) break;
  }
  EXPECT_EQ(status.code(), Code::kInvalidUsage) << status.message();
  EXPECT_LE(opened, 300);
  if (geteuid() != 0) GTEST_SKIP() << "only root can become other users";
  // Others still find something.
  std::filesystem::permissions(cluster_.daemon(0).folder(), std::filesystem::perms(0755));
  const TunerLibrary library;
  At(0);
  const pid_t other = StartAs(kBob, [&] {
    void* context = nullptr;
    library.v6().init(&context, kWorld, 2, 2, nullptr, nullptr, nullptr);
    EXPECT_NE(context, nullptr);
    return 0;
  });
  EXPECT_EQ(StatusOf(other), 0);
}

TEST_F(TunedHostsTest, UsersWithTheSameNumberHaveNothingInCommon) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become other users";
  std::filesystem::permissions(cluster_.daemon(0).folder(), std::filesystem::perms(0755));
  const TunerLibrary library;
  At(0);
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  // Each has as many ranks as it says, whatever the others do.
  const auto open_both_ranks = [&] {
    std::array<void*, 2> contexts{};
    for (void*& context : contexts) {
      library.v6().init(&context, kWorld, 2, 2, nullptr, nullptr, nullptr);
      EXPECT_NE(context, nullptr);
    }
    close(done[1]);
    char end = 0;
    static_cast<void>(!read(done[0], &end, 1));
    return 0;
  };
  HostileSession root(Socket(0));
  EXPECT_TRUE(Open(root, {kWorld, 2, 2}, Position().descriptor.get()).ok());
  const pid_t alice = StartAs(kAlice, open_both_ranks);
  const pid_t bob = StartAs(kBob, open_both_ranks);
  EXPECT_TRUE(Eventually(kLongestWait, [&] {
    const json tuning = TuningAt(0);
    std::map<uint32_t, int> ranks;
    for (const json& one : tuning.at("here")) ranks[one.at("user")] += one.value("ranks_here", 0);
    return ranks == std::map<uint32_t, int>{{0, 1}, {kAlice, 2}, {kBob, 2}};
  })) << JsonText(TuningAt(0));
  const pid_t reader = StartAs(kAlice, [&] {
    const json tuning = StatusOfTuning(Socket(0));
    EXPECT_EQ(tuning.at("here").size(), 1u);
    EXPECT_EQ(tuning.at("here").at(0).at("user"), kAlice);
    EXPECT_FALSE(tuning.contains("home"));
    return 0;
  });
  EXPECT_EQ(StatusOf(reader), 0);
  close(done[0]);
  close(done[1]);
  EXPECT_EQ(StatusOf(alice), 0);
  EXPECT_EQ(StatusOf(bob), 0);
}

}  // namespace
}  // namespace harmonaize::testing
