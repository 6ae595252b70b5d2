// Programs that send and receive, on several hosts: each host an executor of its own, between them
// a port that delivers messages in a random order, after random delays.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "src/executor/network_execution.h"
#include "src/numerics/types.h"
#include "src/schedule/algorithms.h"
#include "src/schedule/check.h"
#include "tests/unit/executor_testing.h"
#include "tests/unit/schedule_fabrics.h"

namespace harmonaize {
namespace {

/// Carries messages between hosts of this process. A message is copied when both ends are there,
/// and each end hears of it at a moment of its own.
class TestNetwork {
 public:
  explicit TestNetwork(uint32_t seed) : random_(seed) {}

  class Port final : public MessagePort {
   public:
    Port(TestNetwork* network, int host) : network_(network), host_(host) {}
    void Send(const MessageName& name, std::span<const std::byte> data, uint64_t /*left*/,
              MessageListener* listener, uint64_t token) override {
      network_->Match(host_, name.host, name).send = {
          {const_cast<std::byte*>(data.data()), data.size()}, listener, token, true};
    }
    void Receive(const MessageName& name, std::span<std::byte> data, MessageListener* listener,
                 uint64_t token) override {
      network_->Match(name.host, host_, name).receive = {data, listener, token, true};
    }
    void Cancel(uint64_t operation) override { network_->CancelAt(host_, operation); }

   private:
    TestNetwork* network_;
    int host_;
  };

  /// Something happens, if there is anything to happen.
  void Progress() {
    Deliver();
    if (news_.empty() || random_() % 3 == 0) return;
    std::swap(news_[random_() % news_.size()], news_.back());
    const News one = news_.back();
    news_.pop_back();
    one.listener->OnMessage(one.token, one.status);
  }

  /// Nobody sent what nobody received, or the other way round.
  bool Empty() const { return messages_.empty() && news_.empty(); }
  /// No message of this host is delivered any more.
  void CutOff(int host) { cut_off_ = host; }

 private:
  struct End {
    std::span<std::byte> data;
    MessageListener* listener = nullptr;
    uint64_t token = 0;
    bool there = false;
  };
  struct Message {
    End send;
    End receive;
  };
  struct News {
    MessageListener* listener;
    uint64_t token;
    Status status;
  };
  using Key = std::tuple<int, int, uint64_t, int, uint32_t, uint32_t>;

  Message& Match(int from, int to, const MessageName& name) {
    return messages_[Key(from, to, name.operation, name.path, name.number, name.slice)];
  }

  void Deliver() {
    for (auto entry = messages_.begin(); entry != messages_.end();) {
      auto& [key, message] = *entry;
      const bool cut = std::get<0>(key) == cut_off_ || std::get<1>(key) == cut_off_;
      if (cut || !message.send.there || !message.receive.there || random_() % 2 == 0) {
        ++entry;
        continue;
      }
      ASSERT_EQ(message.send.data.size(), message.receive.data.size());
      std::memcpy(message.receive.data.data(), message.send.data.data(), message.send.data.size());
      for (const End& end : {message.send, message.receive}) {
        news_.push_back({end.listener, end.token, Status::Ok()});
      }
      entry = messages_.erase(entry);
    }
  }

  void CancelAt(int host, uint64_t operation) {
    for (auto entry = messages_.begin(); entry != messages_.end();) {
      auto& [key, message] = *entry;
      if (std::get<2>(key) == operation) {
        if (std::get<0>(key) == host) EndWithError(&message.send);
        if (std::get<1>(key) == host) EndWithError(&message.receive);
      }
      entry =
          message.send.there || message.receive.there ? std::next(entry) : messages_.erase(entry);
    }
  }
  void EndWithError(End* end) {
    if (end->there) news_.push_back({end->listener, end->token, RemoteError("canceled")});
    end->there = false;
  }

  std::mt19937 random_;
  std::map<Key, Message> messages_;
  std::vector<News> news_;
  int cut_off_ = -1;
};

/// A collective over int32, uint64 or float32 values, by any algorithm.
struct Case {
  const Algorithm* algorithm = nullptr;
  Problem problem;
  AlgorithmOptions options;
  ReduceOperator op = ReduceOperator::kSum;
  uint64_t count = 0;
  uint64_t slice_elements = 0;
  bool is_private = false;  ///< Buffers that only process_vm_readv and its sibling reach.
};

class Cluster {
 public:
  Cluster(int hosts, uint32_t seed) : network_(seed) {
    for (int i = 0; i < hosts; ++i) {
      hosts_.push_back(std::make_unique<Host>(&network_, i));
    }
  }

  /// Runs a case; "" or what is wrong first.
  std::string Run(const Case& test_case) {
    case_ = &test_case;
    const OutlineResult outline = test_case.algorithm->make(test_case.problem, test_case.options);
    if (!outline.ok()) return outline.status().ToString();
    schedule_ = (*outline)->Write();
    FillBuffers();
    ++operation_;
    for (const HostProgram& program : schedule_.programs) Start(program);
    Finish();
    for (const HostProgram& program : schedule_.programs) {
      const Status& status = At(program.host).execution->status();
      if (!status.ok()) return status.ToString();
    }
    return network_.Empty() ? Check() : "messages were left over";
  }

  /// Starts as Run does, cuts a host off, and cancels on the others after a while.
  void RunIntoCut(const Case& test_case, int host) {
    case_ = &test_case;
    schedule_ = (*test_case.algorithm->make(test_case.problem, test_case.options))->Write();
    FillBuffers();
    ++operation_;
    network_.CutOff(host);
    for (const HostProgram& program : schedule_.programs) Start(program);
    for (int i = 0; i < 300; ++i) Turn();
    for (const HostProgram& program : schedule_.programs) {
      At(program.host).execution->Cancel(RemoteError("host {} is lost", host));
    }
    Finish();
    for (const HostProgram& program : schedule_.programs) {
      EXPECT_EQ(At(program.host).execution->status().code(), Code::kRemoteError);
    }
    network_.CutOff(-1);
  }

 private:
  struct Host {
    Host(TestNetwork* network, int number) : executor(2, size_t{64} << 10), port(network, number) {
      execution = std::make_unique<NetworkExecution>(&*executor, &port);
    }
    TestExecutor executor;
    TestNetwork::Port port;
    std::unique_ptr<NetworkProgram> program;
    std::unique_ptr<NetworkExecution> execution;
  };

  Host& At(int host) { return *hosts_[static_cast<size_t>(host)]; }

  void FillBuffers() {
    const size_t ranks = case_->problem.host_of_rank.size();
    memory_.assign(ranks, {});
    inputs_.assign(ranks, {});
    outputs_.assign(ranks, {});
    input_buffers_.assign(ranks, {});
    output_buffers_.assign(ranks, {});
    for (size_t r = 0; r < ranks; ++r) {
      Allocate(static_cast<int>(r));
      std::fill(outputs_[r].begin(), outputs_[r].end(), 0xdeadbeef);
      for (size_t i = 0; i < inputs_[r].size(); ++i) {
        inputs_[r][i] = Value(static_cast<int>(r), i);
      }
      input_buffers_[r] = BufferAt(inputs_[r].data());
      output_buffers_[r] = BufferAt(outputs_[r].data());
    }
  }

  /// One behind the other or, in place, one inside the other.
  void Allocate(int rank) {
    const auto r = static_cast<size_t>(rank);
    const Problem& problem = case_->problem;
    const BufferBlocks blocks =
        BlocksOf(problem.collective, static_cast<int>(memory_.size()), rank, problem.root);
    const uint64_t send = blocks.send * case_->count;
    const uint64_t receive = blocks.receive * case_->count;
    memory_[r].resize(send + receive);
    inputs_[r] = {memory_[r].data(), send};
    outputs_[r] = {memory_[r].data() + send, receive};
    if (!problem.in_place || send == 0 || receive == 0) return;
    const uint64_t shift = std::min(send, receive) < std::max(send, receive) ? r * case_->count : 0;
    inputs_[r] = {memory_[r].data() + (send < receive ? shift : 0), send};
    outputs_[r] = {memory_[r].data() + (receive < send ? shift : 0), receive};
  }

  Buffer BufferAt(uint32_t* memory) const {
    Buffer buffer;
    if (case_->is_private) {
      buffer.process = getpid();
      buffer.address = reinterpret_cast<uint64_t>(memory);
    } else {
      buffer.mapped = reinterpret_cast<std::byte*>(memory);
    }
    return buffer;
  }

  void Start(const HostProgram& program) {
    Host& host = At(program.host);
    host.program = std::make_unique<NetworkProgram>(program, schedule_.pieces);
    scalars_.assign(input_buffers_.size(), 0);
    for (size_t r = 0; r < scalars_.size(); ++r) scalars_[r] = r + 2;
    NetworkBinding binding;
    binding.program = host.program.get();
    binding.type = DataType::kUint32;
    binding.op = case_->op;
    binding.count = case_->count;
    binding.inputs = input_buffers_;
    binding.outputs = output_buffers_;
    binding.scalars = scalars_;
    binding.divisor = input_buffers_.size();
    binding.operation = operation_;
    binding.slice_elements = case_->slice_elements;
    binding.slices_at_once = 3;
    ASSERT_TRUE(host.execution->Start(binding).ok());
  }

  void Turn() {
    network_.Progress();
    for (const auto& host : hosts_) {
      host->executor->Help();
      while (Execution* const done = host->executor->TakeFinished()) {
        NetworkExecution::OnExecuted(done);
      }
    }
  }

  void Finish() {
    const auto busy = [](const auto& host) { return !host->execution->done(); };
    while (std::any_of(hosts_.begin(), hosts_.end(), busy) || !network_.Empty()) {
      Turn();
      if (testing::Test::HasFatalFailure()) return;
      if (std::none_of(hosts_.begin(), hosts_.end(), busy) && stuck_++ > 1000) return;
    }
    stuck_ = 0;
  }

  static uint32_t Value(int rank, uint64_t i) {
    return static_cast<uint32_t>(i * 2654435761u + static_cast<uint32_t>(rank) * 40503u);
  }

  /// Of all ranks' element i.
  uint32_t Reduced(uint64_t i) const {
    uint32_t value = 0;
    const auto ranks = static_cast<int>(inputs_.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const uint32_t mine = Value(rank, i);
      switch (case_->op) {
        case ReduceOperator::kMax: value = std::max(value, mine); break;
        case ReduceOperator::kPreMulSum: value += mine * (static_cast<uint32_t>(rank) + 2); break;
        default: value += mine;
      }
    }
    return case_->op == ReduceOperator::kAvg ? value / static_cast<uint32_t>(ranks) : value;
  }

  /// Element `i` of a rank's output, by the collective's definition.
  uint32_t Expected(int rank, uint64_t i) const {
    const uint64_t count = case_->count;
    const auto block = static_cast<int>(i / count);
    const uint64_t within = i % count;
    switch (case_->problem.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce: return Reduced(i);
      case Collective::kBroadcast: return Value(case_->problem.root, i);
      case Collective::kAllGather:
      case Collective::kGather: return Value(block, within);
      case Collective::kReduceScatter: return Reduced(static_cast<uint64_t>(rank) * count + within);
      case Collective::kAllToAll: return Value(block, static_cast<uint64_t>(rank) * count + within);
      case Collective::kScatter:
        return Value(case_->problem.root, static_cast<uint64_t>(rank) * count + within);
      case Collective::kSend:
      case Collective::kReceive: break;
    }
    return 0;
  }

  std::string Check() const {
    for (size_t r = 0; r < outputs_.size(); ++r) {
      for (size_t i = 0; i < outputs_[r].size(); ++i) {
        const uint32_t expected = Expected(static_cast<int>(r), i);
        if (outputs_[r][i] != expected) {
          return fmt::format("rank {} element {} is {}, not {}", r, i, outputs_[r][i], expected);
        }
      }
    }
    return "";
  }

  TestNetwork network_;
  std::vector<std::unique_ptr<Host>> hosts_;
  const Case* case_ = nullptr;
  Schedule schedule_;
  uint64_t operation_ = 0;
  int stuck_ = 0;
  std::vector<std::vector<uint32_t>> memory_;  // by rank
  std::vector<std::span<uint32_t>> inputs_;
  std::vector<std::span<uint32_t>> outputs_;
  std::vector<Buffer> input_buffers_;
  std::vector<Buffer> output_buffers_;
  std::vector<uint64_t> scalars_;
};

/// Three hosts with two, one and two ranks, dealt out across them.
const std::vector<int> kHostOfRank = {0, 1, 2, 0, 2};

/// The algorithms for several hosts.
std::vector<const Algorithm*> AlgorithmsToRun() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& algorithm : Algorithms()) {
    if (algorithm.name != "one-host") all.push_back(&algorithm);
  }
  return all;
}

Case MakeCase(const Algorithm& algorithm, Collective collective) {
  Case made;
  made.algorithm = &algorithm;
  made.problem.collective = collective;
  made.problem.host_of_rank = kHostOfRank;
  made.problem.root = HasRoot(collective) ? 3 : -1;
  made.options.pieces = 2;
  if (algorithm.needs_groups) made.options.groups = {{0, 2}, {1}};
  static const CapacityGraph fabric = OneSwitch({10, 20, 30});
  made.options.fabric = &fabric;
  return made;
}

TEST(NetworkExecution, AllAlgorithmsGiveWhatTheCollectiveSays) {
  Cluster cluster(3, 1);
  for (const Algorithm* algorithm : AlgorithmsToRun()) {
    for (const Collective collective : algorithm->collectives) {
      for (const uint64_t count : {1, 7, 1000}) {
        for (const uint64_t slice : {3, 250, 100000}) {
          if (count / slice > 100) continue;
          Case test_case = MakeCase(*algorithm, collective);
          test_case.count = count;
          test_case.slice_elements = slice;
          ASSERT_EQ(cluster.Run(test_case), "")
              << algorithm->name << " " << CollectiveName(collective) << " count " << count
              << " slices of " << slice;
        }
      }
    }
  }
}

TEST(NetworkExecution, BuffersMayBePrivateAndInPlace) {
  Cluster cluster(3, 4);
  for (const Algorithm* algorithm : AlgorithmsToRun()) {
    for (const Collective collective : algorithm->collectives) {
      for (const bool in_place : {false, true}) {
        if (in_place && !algorithm->in_place) continue;
        for (const bool is_private : {false, true}) {
          Case test_case = MakeCase(*algorithm, collective);
          test_case.problem.in_place = in_place;
          test_case.is_private = is_private;
          test_case.count = 500;
          test_case.slice_elements = 120;
          ASSERT_EQ(cluster.Run(test_case), "")
              << algorithm->name << " " << CollectiveName(collective)
              << (in_place ? " in place" : "") << (is_private ? " private" : "");
        }
      }
    }
  }
}

TEST(NetworkExecution, OperatorsThatTouchTheEndsAreAppliedOnce) {
  Cluster cluster(3, 2);
  for (const Algorithm* algorithm : AlgorithmsToRun()) {
    for (const Collective collective : algorithm->collectives) {
      if (!Reduces(collective)) continue;
      for (const ReduceOperator op :
           {ReduceOperator::kAvg, ReduceOperator::kPreMulSum, ReduceOperator::kMax}) {
        Case test_case = MakeCase(*algorithm, collective);
        test_case.op = op;
        test_case.count = 333;
        test_case.slice_elements = 100;
        ASSERT_EQ(cluster.Run(test_case), "")
            << algorithm->name << " " << CollectiveName(collective) << " "
            << ReduceOperatorName(op);
      }
    }
  }
}

/// Keeps what is asked of it; nothing ever comes.
class RecordingPort final : public MessagePort {
 public:
  void Send(const MessageName& name, std::span<const std::byte>, uint64_t left,
            MessageListener* listener, uint64_t token) override {
    left_of_slice[name.slice].push_back(left);
    asked_.emplace_back(listener, token);
  }
  void Receive(const MessageName& name, std::span<std::byte> data, MessageListener* listener,
               uint64_t token) override {
    received.push_back(name);
    bytes += data.size();
    asked_.emplace_back(listener, token);
  }
  void Cancel(uint64_t) override { canceled_ = true; }
  /// Ends all after Cancel.
  void Deliver() {
    const auto asked = std::exchange(asked_, {});
    for (const auto& [listener, token] : asked) listener->OnMessage(token, RemoteError("canceled"));
  }

  std::map<uint32_t, std::vector<uint64_t>> left_of_slice;
  std::vector<MessageName> received;
  size_t bytes = 0;

 private:
  std::vector<std::pair<MessageListener*, uint64_t>> asked_;
  bool canceled_ = false;
};

class RootOfAStar : public testing::Test {
 protected:
  /// Starts a collective of 8 hosts at its root, with so many slices of so many bytes.
  void Start(uint64_t slice_bytes, uint64_t slices, int at_once,
             Collective collective = Collective::kReduce) {
    Problem problem{.collective = collective, .host_of_rank = {0, 1, 2, 3, 4, 5, 6, 7}};
    problem.root = 0;
    const OutlineResult outline = FindAlgorithm("star")->make(problem, {});
    ASSERT_TRUE(outline.ok());
    program_ = std::make_unique<NetworkProgram>((*outline)->Program(0), (*outline)->pieces());
    const uint64_t count = slice_bytes * slices / sizeof(uint32_t);
    memory_.assign(2 * count, 0);
    std::vector<Buffer> inputs(8);
    std::vector<Buffer> outputs(8);
    inputs[0].mapped = reinterpret_cast<std::byte*>(memory_.data());
    outputs[0].mapped = reinterpret_cast<std::byte*>(memory_.data() + count);
    NetworkBinding binding;
    binding.program = program_.get();
    binding.type = DataType::kUint32;
    binding.count = count;
    binding.inputs = inputs;
    binding.outputs = outputs;
    binding.slice_elements = slice_bytes / sizeof(uint32_t);
    binding.slices_at_once = at_once;
    ASSERT_TRUE(execution_.Start(binding).ok());
  }

  void TearDown() override {
    execution_.Cancel(RemoteError("over"));
    port_.Deliver();
    while (!execution_.done()) {  // the root's own copy
      executor_->Help();
      while (Execution* ended = executor_->TakeFinished()) NetworkExecution::OnExecuted(ended);
    }
  }

  TestExecutor executor_{1};
  RecordingPort port_;
  NetworkExecution execution_{&*executor_, &port_};
  std::unique_ptr<NetworkProgram> program_;
  std::vector<uint32_t> memory_;
};

// All hosts say the same of the same slice, more or less: they are to agree on who is to go first.
TEST_F(RootOfAStar, SaysHowMuchIsLeftToSend) {
  Start(1024, 4, 4, Collective::kBroadcast);
  ASSERT_EQ(port_.left_of_slice.size(), 4u);
  for (uint64_t slice = 0; slice < 4; ++slice) {
    EXPECT_EQ(port_.left_of_slice[slice], std::vector<uint64_t>(7, (4 - slice) * 1024 * 7));
  }
}

// Which reduces what they send one after the other.
TEST_F(RootOfAStar, ReceivesFromAllAtOnce) {
  Start(1024, 2, 2);
  ASSERT_EQ(port_.received.size(), 14u);
  for (int host = 1; host < 8; ++host) {
    const auto from = [&](const MessageName& name) { return name.host == host; };
    EXPECT_EQ(std::count_if(port_.received.begin(), port_.received.end(), from), 2) << host;
  }
}

// In 16 MiB beside what is due anyway, one message for each slice.
TEST_F(RootOfAStar, HasBoundedMemoryForIt) {
  Start(size_t{4} << 20, 3, 3);
  EXPECT_EQ(port_.received.size(), 3u + 4u);
}

TEST(NetworkExecution, EndsWhereverItIsCanceledAndStartsAnew) {
  Cluster cluster(3, 3);
  const Algorithm* const ring = FindAlgorithm("ring");
  ASSERT_NE(ring, nullptr);
  Case test_case = MakeCase(*ring, Collective::kAllReduce);
  test_case.count = 2000;
  test_case.slice_elements = 64;
  for (int host = 0; host < 3; ++host) {
    cluster.RunIntoCut(test_case, host);
    ASSERT_EQ(cluster.Run(test_case), "") << "after host " << host;
  }
}

}  // namespace
}  // namespace harmonaize
