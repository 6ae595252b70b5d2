// One rank of a job whose ranks are all connected with each other by NCCL's net plugin:
//
//     nccl_net_exchange FOLDER
//
// Messages of random sizes go in all connections, some at a time in each, and each is looked at
// when it has come. The rank prints a line of JSON with the device's speed in Mbit/s, and one after
// every kMessagesPerLine messages of a connection. It goes on until FOLDER/enough is there, and
// ends with 0 if all messages were right. Needs RANK and WORLD_SIZE; handles go through FOLDER.

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/net_connections.h"
#include "tests/support/net_plugin.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;

/// Messages of one connection under way at once: as many as NCCL has.
constexpr size_t kWindow = 8;
/// Largest message, in bytes. It has a piece that tells its length, and one after that.
constexpr size_t kMostBytes = size_t{700} << 10;
constexpr int kTags = 3;
/// Messages received between two lines of output.
constexpr int kMessagesPerLine = 4;
/// Longest time that ranks take to connect.
constexpr std::chrono::minutes kLongestStart(1);

/// The `number`-th message from one rank to another, which both of them know.
struct Expected {
  Expected(int from, int to, uint32_t number) {
    std::mt19937 random(static_cast<uint32_t>(from) << 24 | static_cast<uint32_t>(to) << 16 |
                        number);
    tag = static_cast<int>(random() % kTags);
    // Half of the messages are small.
    const size_t bytes = 1 + random() % (random() % 2 == 0 ? 2000 : kMostBytes);
    data = NetBytes(bytes, random());
  }
  int tag = 0;
  std::vector<uint8_t> data;
};

/// A connection to or from another rank, and the messages under way in it. The last message of a
/// connection is empty.
class Lane {
 public:
  Lane(NetPlugin* plugin, void* comm, bool sends, int from, int to)
      : net_(plugin), comm_(comm), sends_(sends), from_(from), to_(to) {}

  /// Takes in what has ended, and posts more. `enough` makes this message the last one.
  void Advance(bool enough) {
    if (done()) return;  // the other rank may have closed its end
    while (!done() && !under_way_.empty() && net_.Test(&under_way_.front().request)) {
      if (!sends_) Check(under_way_.front());
      under_way_.pop_front();
    }
    while (!last_ && under_way_.size() < kWindow) Post(enough);
  }
  bool done() const { return last_ && (!sends_ || under_way_.empty()); }
  bool sends() const { return sends_; }
  void* comm() const { return comm_; }
  int checked() const { return checked_; }

 private:
  struct Message {
    Expected expected;
    std::vector<uint8_t> data;
    NetRequest request;
  };

  void Post(bool enough) {
    under_way_.push_back({Expected(from_, to_, number_++), {}, {}});
    Message& message = under_way_.back();
    const int tag = message.expected.tag;
    if (!sends_) {
      message.data.resize(kMostBytes);
      message.request = net_.Receive(comm_, message.data.data(), message.data.size(), tag);
      return;
    }
    last_ = enough;
    const std::vector<uint8_t>& data = message.expected.data;
    message.request = net_.Send(comm_, data.data(), enough ? 0 : data.size(), tag);
  }

  void Check(const Message& message) {
    const std::vector<uint8_t>& expected = message.expected.data;
    const int bytes = message.request.sizes[0];
    last_ = bytes == 0;
    if (last_) return;
    ++checked_;
    ASSERT_EQ(bytes, static_cast<int>(expected.size())) << "from rank " << from_;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), message.data.begin()))
        << "from rank " << from_;
  }

  NetConnections net_;
  void* const comm_;
  const bool sends_;
  const int from_;
  const int to_;
  uint32_t number_ = 0;
  int checked_ = 0;
  bool last_ = false;  // has been posted, or received
  std::deque<Message> under_way_;
};

/// The connections of a rank with all others.
class Rank {
 public:
  Rank(std::string folder, int rank, int ranks)
      : folder_(std::move(folder)), rank_(rank), ranks_(ranks), plugin_(NetPlugin::Load(12)) {}

  void Run() {
    ASSERT_EQ(plugin_.init(), ncclSuccess) << NetLog();
    NetProperties properties;
    ASSERT_EQ(plugin_.properties(0, &properties), ncclSuccess) << NetLog();
    std::printf("{\"rank\": %d, \"messages\": 0, \"speed\": %d}\n", rank_, properties.speed);
    Connect();
    while (!::testing::Test::HasFailure() && !AllDone()) {
      const bool enough = fs::exists(folder_ + "/enough");
      for (Lane& lane : lanes_) lane.Advance(enough);
      PrintProgress();
      sched_yield();
    }
    for (const Lane& lane : lanes_) {
      const ncclResult_t closed =
          lane.sends() ? plugin_.close_send(lane.comm()) : plugin_.close_recv(lane.comm());
      EXPECT_EQ(closed, ncclSuccess) << NetLog();
    }
  }

 private:
  std::string HandleFile(int from, int to) const {
    return folder_ + "/handle-" + std::to_string(from) + "-" + std::to_string(to);
  }

  // The connections come about side by side: none waits for another.
  void Connect() {
    struct Open {
      int peer = 0;
      NetHandle handle;
      bool has_handle = false;
      void* listen = nullptr;
      void* send = nullptr;
      void* receive = nullptr;
    };
    std::vector<Open> opens;
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      Open& open = opens.emplace_back();
      open.peer = peer;
      NetHandle own;
      ASSERT_EQ(plugin_.listen(0, &own, &open.listen), ncclSuccess) << NetLog();
      Publish(HandleFile(peer, rank_), own);
    }
    const auto until = std::chrono::steady_clock::now() + kLongestStart;
    const auto all = [&] {
      return std::all_of(opens.begin(), opens.end(), [](const Open& open) {
        return open.send != nullptr && open.receive != nullptr;
      });
    };
    while (!all()) {
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "not all ranks have come";
      for (Open& open : opens) {
        if (!open.has_handle) open.has_handle = Read(HandleFile(rank_, open.peer), &open.handle);
        if (open.has_handle && open.send == nullptr) {
          ASSERT_EQ(plugin_.connect(0, &open.handle, &open.send), ncclSuccess) << NetLog();
        }
        if (open.receive == nullptr) {
          ASSERT_EQ(plugin_.accept(open.listen, &open.receive), ncclSuccess) << NetLog();
        }
      }
    }
    for (const Open& open : opens) {
      EXPECT_EQ(plugin_.close_listen(open.listen), ncclSuccess);
      lanes_.emplace_back(&plugin_, open.send, true, rank_, open.peer);
      lanes_.emplace_back(&plugin_, open.receive, false, open.peer, rank_);
    }
  }

  static void Publish(const std::string& file, const NetHandle& handle) {
    std::ofstream(file + ".part", std::ios::binary).write(handle.bytes, sizeof handle.bytes);
    fs::rename(file + ".part", file);
  }
  static bool Read(const std::string& file, NetHandle* handle) {
    std::ifstream stream(file, std::ios::binary);
    return static_cast<bool>(stream.read(handle->bytes, sizeof handle->bytes));
  }

  bool AllDone() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.done(); });
  }
  // Tells of the connection in which the fewest messages have come: it shows that all go on.
  void PrintProgress() {
    int fewest = INT_MAX;
    for (const Lane& lane : lanes_) {
      if (!lane.sends()) fewest = std::min(fewest, lane.checked());
    }
    if (fewest < printed_ + kMessagesPerLine) return;
    printed_ = fewest;
    std::printf("{\"rank\": %d, \"messages\": %d}\n", rank_, fewest);
    std::fflush(stdout);
  }

  const std::string folder_;
  const int rank_;
  const int ranks_;
  NetPlugin plugin_;
  std::deque<Lane> lanes_;
  int printed_ = 0;
};

}  // namespace
}  // namespace harmonaize::testing

int main(int count, char** words) {
  const char* const rank = std::getenv("RANK");
  const char* const ranks = std::getenv("WORLD_SIZE");
  if (count != 2 || rank == nullptr || ranks == nullptr) {
    std::fputs("usage: nccl_net_exchange FOLDER, with RANK and WORLD_SIZE set\n", stderr);
    return 2;
  }
  harmonaize::testing::Rank(words[1], std::atoi(rank), std::atoi(ranks)).Run();
  return ::testing::Test::HasFailure() ? 1 : 0;
}
