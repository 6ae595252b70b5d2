// A tenant that writes whatever it likes, wherever it can: the daemon ends that tenant's session
// and goes on serving the others.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"
#include "src/memory/shared_memory.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hostile_names.h"
#include "tests/support/hostile_session.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

void ExpectCleanTexts(const nlohmann::json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    EXPECT_EQ(CleanText(text, text.size()), text);
  } else if (value.is_structured()) {
    for (const nlohmann::json& one : value) ExpectCleanTexts(one);
  }
}

/// Says hello as this program and has a rank join, split and shrink communicators of this name.
void UseName(HostileSession& session, const std::string& name, int round) {
  JoinRequest join;
  join.id = MakeNamedId("name-" + std::to_string(round));
  join.ranks = 1;
  FillField(join.name, name);
  ASSERT_TRUE(session.Ask(join).ok());
  const uint32_t member = session.LastReply<MemberReply>().member;
  SplitRequest split;
  split.member = member;
  FillField(split.name, name);
  EXPECT_TRUE(session.Ask(split).ok());
  ShrinkRequest shrink;
  shrink.member = member;
  FillField(shrink.name, name);
  EXPECT_TRUE(session.Ask(shrink).ok());
}

/// Looks at all memory files that a process has mapped shared: how many are sealed so that nobody
/// can make holes in them. All are to be, but those that the process keeps to itself.
int SealedMappings(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  std::ifstream maps(folder + "/maps");
  int sealed = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" rw-s ") == std::string::npos || line.find("/memfd:") == std::string::npos) {
      continue;
    }
    const std::string file = folder + "/map_files/" + line.substr(0, line.find(' '));
    const FileDescriptor descriptor(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!descriptor.valid()) continue;  // unmapped meanwhile
    const bool is_sealed = IsSealedAgainstWriters(descriptor.get());
    EXPECT_TRUE(is_sealed) << line;
    sealed += is_sealed ? 1 : 0;
  }
  return sealed;
}

class HostileClientTest : public ::testing::Test {
 protected:
  DaemonProcess daemon_;
};

TEST_F(HostileClientTest, NonsenseTail) {
  HostileSession session(daemon_.socket_path());
  session.segment().ring.tail.store(123456);
  session.Ring();
  EXPECT_TRUE(session.WaitUntilCutOff());
  EXPECT_NE(session.segment().header.goodbye.Get(), "");
  ExpectServing(5000);
}

TEST_F(HostileClientTest, DescriptorsFromNowhere) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    HostileSession session(daemon_.socket_path());
    const uint32_t member = session.JoinAlone("hostile-" + std::to_string(round));
    const uint32_t region = session.RegisterRegion(1 << 20);
    for (int i = 0; i < 30; ++i) {
      OperationDescriptor descriptor;
      auto* words = reinterpret_cast<uint64_t*>(&descriptor);
      for (size_t w = 0; w < sizeof descriptor / 8; ++w) words[w] = random();
      // Deeper and deeper into the checks: more and more of the descriptor is right.
      if (round % 6 >= 1) descriptor.member = descriptor.stream = member;
      if (round % 6 >= 2) descriptor.position = static_cast<uint64_t>(i + 1);
      if (round % 6 >= 3) descriptor.sequence = static_cast<uint64_t>(i);
      if (round % 6 >= 4) {
        descriptor.collective = static_cast<Collective>(random() % 8);
        descriptor.type = static_cast<DataType>(random() % kDataTypeCount);
        descriptor.op = static_cast<ReduceOperator>(random() % kReduceOperatorCount);
        descriptor.flags = static_cast<uint8_t>(kLastOfPosition | random() % 16);
      }
      if (round % 6 == 5) {
        descriptor.send = descriptor.receive = {0, region, 0};
        descriptor.count = random() % 100000;
        descriptor.root = 0;
      }
      session.Post(descriptor);
    }
  }
  ExpectServing(5000);
}

TEST_F(HostileClientTest, BuffersOutsideOfTheirRegion) {
  HostileSession session(daemon_.socket_path());
  const uint32_t member = session.JoinAlone("outside");
  const uint32_t region = session.RegisterRegion(4096);
  const uint64_t offsets[] = {4096 - 3, 4096, 1 << 20, UINT64_MAX - 2, UINT64_MAX};
  for (uint64_t i = 0; i < std::size(offsets); ++i) {
    session.Post(HostileSession::AllReduceOf(member, i, {0, region}, {offsets[i], region}));
  }
  EXPECT_TRUE(session.AllFail(member, std::size(offsets)));
  ExpectServing(5000);
}

// A process number does not say for long whose memory it is: who says hello may exec a program of
// another user, or end and leave its number to one.
TEST_F(HostileClientTest, AddressesOfTheProcessAreNoBuffers) {
  HostileSession session(daemon_.socket_path());
  const uint32_t member = session.JoinAlone("private");
  const uint32_t source = 41;
  uint32_t target = 1;
  // The first of these once meant: an address in the process that said hello.
  const uint32_t regions[] = {~0u, ~0u - 1, 0};
  for (uint64_t i = 0; i < std::size(regions); ++i) {
    session.Post(HostileSession::AllReduceOf(member, i,
                                             {reinterpret_cast<uint64_t>(&source), regions[i]},
                                             {reinterpret_cast<uint64_t>(&target), regions[i]}));
  }
  EXPECT_TRUE(session.AllFail(member, std::size(regions)));
  EXPECT_EQ(target, 1u);
  ExpectServing(5000);
}

// Everybody's descriptors and memory are at stake, so who is cut off must leave all of its own.
TEST(HostileQuotaTest, TooManyOperationsLeaveNothingBehind) {
  const DaemonProcess daemon("[quota]\noutstanding_operations = 100\n");
  const int before = daemon.OpenDescriptors();
  {
    HostileSession greedy(daemon.socket_path());
    HostileSession peer(daemon.socket_path());
    const uint32_t region = greedy.RegisterRegion(1 << 20);
    const uint32_t member = greedy.Join("greedy", 2, 0);
    peer.Join("greedy", 2, 1);
    ASSERT_TRUE(greedy.WaitUntilReady(member));
    for (uint64_t i = 0; i <= 100; ++i) {
      greedy.Post(HostileSession::AllReduceOf(member, i, {0, region}, {0, region}));
    }
    EXPECT_TRUE(greedy.WaitUntilCutOff());
  }
  EXPECT_TRUE(daemon.SettlesTo(before)) << daemon.OpenDescriptors() << ", were " << before;
}

// A window is a place that the tenant names while the operation is under way.
TEST_F(HostileClientTest, WindowsThatAreNone) {
  HostileSession session(daemon_.socket_path());
  const uint32_t member = session.JoinAlone("windows");
  const Result<SharedMemory> memory = CreateSharedMemory("windows", 4096);
  ASSERT_TRUE(memory.ok());
  std::memset(memory->mapping.data(), 1, 4096);  // the daemon makes no pages
  const Result<uint32_t> registered = session.TryRegister(memory->descriptor.get(), 4096);
  ASSERT_TRUE(registered.ok());
  const uint32_t region = *registered;
  const BufferReference places[] = {{0, kNoBuffer}, {0, region + 1},           {4096, region},
                                    {8, region},    {UINT64_MAX - 63, region}, {UINT64_MAX, region},
                                    {0, 0xbad4bad4}};
  SliceProgress& progress = session.segment().members[member].lanes[kCollectiveLane];
  const StreamSlot& stream = session.segment().streams[member];
  uint64_t posted = 0;
  const auto post = [&](const BufferReference& place) {
    // More than is announced is filled from the beginning.
    progress.filled.store(SliceCount(posted, kAllSlices));
    progress.window_region.store(place.region);
    progress.window_offset.store(place.offset);
    OperationDescriptor descriptor = HostileSession::AllReduceOf(member, posted, {}, {});
    descriptor.flags |= kSendWindow | kReceiveWindow;
    session.Post(descriptor);
    ++posted;
    for (int i = 0; i < 3000 && stream.completed.load() < posted; ++i) usleep(10000);
    EXPECT_EQ(stream.completed.load(), posted);
    EXPECT_EQ(progress.carried.completed.load(), SliceCount(posted - 1, kAllSlices))
        << "it would wait on";
  };
  for (const BufferReference& place : places) post(place);
  EXPECT_EQ(stream.error_count.load(), std::size(places));
  post({0, region});
  EXPECT_EQ(stream.error_count.load(), std::size(places))
      << session.segment().members[member].error.Get();
  ExpectServing(5000);
}

// A rank writes into its window while the daemon reads and writes there. It spoils its own results.
TEST_F(HostileClientTest, WindowsThatAreScribbledIn) {
  constexpr uint64_t kBytes = uint64_t{4} << 20;
  HostileSession session(daemon_.socket_path());
  const uint32_t members[2] = {session.Join("scribbles", 2, 0), session.Join("scribbles", 2, 1)};
  ASSERT_TRUE(session.WaitUntilReady(members[0]) && session.WaitUntilReady(members[1]));
  const Result<SharedMemory> memory = CreateSharedMemory("scribbles", kBytes);
  ASSERT_TRUE(memory.ok());
  std::byte* const window = memory->mapping.data();
  std::memset(window, 1, kBytes);
  const Result<uint32_t> region = session.TryRegister(memory->descriptor.get(), kBytes);
  ASSERT_TRUE(region.ok());
  std::atomic<bool> ended{false};
  std::thread scribbler([&] {
    auto* const bytes = reinterpret_cast<uint8_t*>(window);
    for (uint64_t round = 0; !ended; ++round) {
      for (uint64_t at = round % 64; at < kBytes; at += 64) {
        // Like hardware, it takes no care.
        __atomic_store_n(bytes + at, static_cast<uint8_t>(round * 37), __ATOMIC_RELAXED);
      }
    }
  });
  // Of floats that change between two looks, and of all ways to reduce them.
  constexpr ReduceOperator kOperators[] = {ReduceOperator::kSum, ReduceOperator::kProd,
                                           ReduceOperator::kMin, ReduceOperator::kMax,
                                           ReduceOperator::kAvg};
  for (uint64_t posted = 0; posted < 200; ++posted) {
    for (int rank = 0; rank < 2; ++rank) {
      SliceProgress& progress = session.segment().members[members[rank]].lanes[kCollectiveLane];
      progress.window_region.store(*region);
      progress.window_offset.store(rank == 0 ? 0 : kBytes / 2);
      progress.filled.store(SliceCount(posted, kAllSlices));
      OperationDescriptor descriptor = HostileSession::AllReduceOf(members[rank], posted, {}, {});
      descriptor.flags |= kSendWindow | kReceiveWindow | kOneWindow;
      descriptor.count = 400'000;
      descriptor.type = posted % 2 == 0 ? DataType::kFloat32 : DataType::kBfloat16;
      descriptor.op = kOperators[posted % std::size(kOperators)];
      session.Post(descriptor);
    }
    const StreamSlot& stream = session.segment().streams[members[1]];
    for (int i = 0; i < 30'000 && stream.completed.load() <= posted; ++i) usleep(1000);
    ASSERT_EQ(stream.completed.load(), posted + 1);
    if (posted % 50 == 0) ExpectServing(50'000);
  }
  ended = true;
  scribbler.join();
  EXPECT_EQ(session.segment().streams[members[0]].error_count.load(), 0u)
      << session.segment().members[members[0]].error.Get();
}

TEST_F(HostileClientTest, RegionsThatAreNone) {
  HostileSession session(daemon_.socket_path());
  RegisterRegionRequest request;
  request.bytes = 1 << 20;
  EXPECT_EQ(session.Ask(request).code(), Code::kInvalidArgument);  // no descriptor
  const FileDescriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), 1 << 20), 0);
  int descriptors[] = {unsealed.get()};
  EXPECT_EQ(session.Ask(request, descriptors).code(), Code::kInvalidArgument);
  Result<SharedMemory> small = CreateSharedMemory("small", 4096);
  ASSERT_TRUE(small.ok());
  descriptors[0] = small->descriptor.get();
  EXPECT_EQ(session.Ask(request, descriptors).code(), Code::kInvalidArgument);
  UnregisterRegionRequest unregister;
  unregister.region = 77;
  EXPECT_EQ(session.Ask(unregister).code(), Code::kInvalidArgument);
  ExpectServing(5000);
}

// Of a process that has ranks in two communicators, the other ranks of one may map what it offered
// to that one.
TEST_F(HostileClientTest, RegionsOfOtherCommunicatorsCannotBeMapped) {
  HostileSession owner(daemon_.socket_path());
  HostileSession peer(daemon_.socket_path());
  const auto join_both = [&](const std::string& name) {
    const uint32_t member = owner.Join(name, 2, 0);
    const uint32_t peers = peer.Join(name, 2, 1);
    EXPECT_TRUE(owner.WaitUntilReady(member) && peer.WaitUntilReady(peers));
    return std::pair(member, peers);
  };
  const auto [shared, peers_shared] = join_both("shared");
  const uint32_t alone = owner.JoinAlone("alone");
  ASSERT_TRUE(owner.WaitUntilReady(alone));
  const uint32_t region = owner.RegisterRegion(4096);
  const uint32_t other = owner.RegisterRegion(4096);
  const MapPeerRegionRequest map{.member = peers_shared, .rank = 0, .region = region};
  EXPECT_EQ(peer.Ask(map).code(), Code::kRemoteError) << "nobody has offered it";
  EXPECT_TRUE(owner.Ask(OfferRegionRequest{alone, region}).ok());
  EXPECT_TRUE(owner.Ask(OfferRegionRequest{shared, other}).ok());
  EXPECT_EQ(peer.Ask(map).code(), Code::kRemoteError) << "it was offered to others";
  EXPECT_TRUE(owner.Ask(OfferRegionRequest{shared, region}).ok());
  EXPECT_TRUE(owner.Ask(OfferRegionRequest{shared, region}).ok());
  EXPECT_TRUE(peer.Ask(map).ok());
  EXPECT_TRUE(owner.Ask(UnregisterRegionRequest{region}).ok());
  EXPECT_EQ(peer.Ask(map).code(), Code::kRemoteError) << "it is gone";
  // What is not one's own cannot be offered.
  EXPECT_FALSE(owner.Ask(OfferRegionRequest{shared, region}).ok());
  EXPECT_FALSE(owner.Ask(OfferRegionRequest{kMaxMembers - 1, other}).ok());
  EXPECT_FALSE(owner.Ask(OfferRegionRequest{kNoMember, other}).ok());
}

TEST_F(HostileClientTest, ControlMessagesFromNowhere) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    HostileSession session(daemon_.socket_path());
    for (int i = 0; i < 10; ++i) {
      std::vector<std::byte> bytes(random() % 400);
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
      if (bytes.size() >= sizeof(MessageHeader) && round % 2 == 1) {
        MessageHeader header;
        header.type = static_cast<MessageType>(random() % 20);
        header.tail_bytes = static_cast<uint32_t>(random() % 64);
        std::memcpy(bytes.data(), &header, sizeof header);
      }
      if (!bytes.empty()) session.Send(bytes);
    }
  }
  ExpectServing(5000);
}

TEST_F(HostileClientTest, SessionsOnNoMemory) {
  const Result<SharedMemory> memory = CreateSharedMemory("session", sizeof(SessionSegment));
  const Result<SharedMemory> small = CreateSharedMemory("small", sizeof(SessionSegment) - 1);
  const FileDescriptor unsealed(memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_TRUE(memory.ok() && small.ok());
  ASSERT_EQ(ftruncate(unsealed.get(), sizeof(SessionSegment)), 0);
  const int whole = memory->descriptor.get();
  const auto greet = [&](const std::vector<int>& descriptors) {
    Result<ControlSocket> socket = ControlSocket::Connect(daemon_.socket_path());
    EXPECT_TRUE(socket.ok());
    EXPECT_TRUE(socket->Send(Encode(HelloRequest::kType, HelloRequest{}), descriptors).ok());
    const Result<ControlMessage> answer = socket->Receive(HostileSession::kAnswerWithinMs);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return DecodeFailure(*DecodeHeader(answer->bytes), answer->bytes).message();
  };
  EXPECT_NE(greet({}).find("one descriptor"), std::string::npos);
  EXPECT_NE(greet({whole, whole}).find("one descriptor"), std::string::npos);
  EXPECT_NE(greet({unsealed.get()}).find("F_SEAL_SHRINK"), std::string::npos);
  EXPECT_NE(greet({small->descriptor.get()}).find("were announced"), std::string::npos);
  EXPECT_EQ(greet({whole}), "");
  EXPECT_NE(greet({whole}).find("sealed against writing"), std::string::npos) << "it is another's";
  ExpectServing(5000);
}

// While the kernel makes a hole in a file, whoever touches it waits, the daemon's threads, too.
TEST_F(HostileClientTest, NoTenantCanMakeHolesInWhatTheDaemonHasMapped) {
  if (geteuid() != 0) GTEST_SKIP() << "only root sees the files that a process has mapped";
  RunAsThreads(2, [&](int rank, ncclComm_t communicator) {
    constexpr size_t kElements = 1 << 20;
    void* buffer = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&buffer, 2 * kElements * sizeof(float)));
    float* const result = static_cast<float*>(buffer) + kElements;
    // Some go inline, from rank to rank, and some by the daemon.
    for (const size_t elements : {size_t{2}, size_t{4096}, kElements}) {
      EXPECT_NCCL(
          ncclAllReduce(buffer, result, elements, ncclFloat, ncclSum, communicator, nullptr));
    }
    if (rank == 0) {
      EXPECT_GE(SealedMappings(daemon_.pid()), 2) << "of a session, and of this rank's buffer";
    }
    EXPECT_NCCL(ncclMemFree(buffer));
  });
}

TEST_F(HostileClientTest, NamesThatAreNoText) {
  int round = 0;
  for (const std::string& name : HostileNames()) {
    HelloRequest hello;
    FillField(hello.program, name);
    HostileSession session(daemon_.socket_path(), hello);
    UseName(session, name, ++round);
    const Result<std::string> status = FetchDaemonStatus(daemon_.socket_path());
    ASSERT_TRUE(status.ok()) << status.status().message();
    const nlohmann::json report = ReadJson(*status);
    ASSERT_FALSE(report.is_discarded()) << *status;
    ExpectCleanTexts(report);
    EXPECT_GE(report["tenants"][0]["communicators"].size(), 3u);
    // It is found by its name, as it was given or as the status shows it.
    for (const std::string& asked : {name.substr(0, 63), CleanText(name, 63)}) {
      const Result<std::string> explained =
          FetchCommunicatorExplanation(daemon_.socket_path(), asked);
      ASSERT_TRUE(explained.ok()) << explained.status().message();
      const nlohmann::json explanation = ReadJson(*explained);
      ASSERT_FALSE(explanation.is_discarded()) << *explained;
      ExpectCleanTexts(explanation);
    }
  }
  ExplainRequest unknown;
  FillField(unknown.communicator, "\x1b[2J\xff\n");
  HostileSession session(daemon_.socket_path());
  const Status refused = session.Ask(unknown);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(CleanText(refused.message(), kMaxControlMessageBytes), refused.message());
  ExpectServing(5000);
}

TEST(HostileNameTest, LeavesTheLogInOneLine) {
  const DaemonProcess daemon("", /*keep_log=*/true);
  {
    int round = 0;
    for (const std::string& name : HostileNames()) {
      HelloRequest hello;
      FillField(hello.program, name);
      HostileSession session(daemon.socket_path(), hello);
      UseName(session, name, ++round);
      session.segment().ring.tail.store(123456);  // the log tells who was cut off
      session.Ring();
      EXPECT_TRUE(session.WaitUntilCutOff());
    }
  }
  EXPECT_TRUE(daemon.WaitForLog("is cut off"));
  std::string log = daemon.Log();
  EXPECT_EQ(log.find("\nharmonaized 2"), std::string::npos);
  std::erase(log, '\n');
  EXPECT_EQ(CleanText(log, log.size()), log);
}

TEST_F(HostileClientTest, SomebodyWhoNeverSaysHello) {
  std::vector<ControlSocket> silent;
  for (int i = 0; i < 50; ++i) {
    Result<ControlSocket> socket = ControlSocket::Connect(daemon_.socket_path());
    ASSERT_TRUE(socket.ok());
    silent.push_back(std::move(*socket));
  }
  ExpectServing(5000);
}

}  // namespace
}  // namespace harmonaize::testing
