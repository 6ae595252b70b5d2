// Programs of two hosts over a real transport, on loopback.

#include "src/executor/network/transport_port.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "src/executor/network/network_execution.h"
#include "src/schedule/algorithms/algorithms.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

class Host final : public transport::TransportEvents {
 public:
  Host() {
    transport::TransportOptions options;
    options.allow_unauthenticated = true;
    auto made = transport::Transport::Create(std::move(options), this);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    transport = std::move(*made);
    address = *transport->Listen(*transport::NetworkAddress::Parse("127.0.0.1:0"));
  }

  void OnPeerUp(transport::PeerId id, const transport::PeerInfo&) override { peer = id; }
  void OnPeerLost(transport::PeerId, const std::string&) override { peer = 0; }
  void OnControl(transport::PeerId, std::span<const std::byte>) override {}

  /// As host `number` of two, the other being the peer.
  void MakeExecution(int number) {
    std::vector<transport::PeerId> peers(2, peer);
    peers[static_cast<size_t>(number)] = 0;
    port = std::make_unique<TransportPort>(
        transport.get(), peers, [](const MessageName&, size_t) { return transport::RailChoice{}; });
    execution = std::make_unique<NetworkExecution>(&*executor, port.get());
    execution->done_list = &ended;
  }

  void Turn() {
    transport->Progress();
    executor->Help();
    while (Execution* const done = executor->TakeFinished()) NetworkExecution::OnExecuted(done);
  }

  std::unique_ptr<transport::Transport> transport;
  transport::NetworkAddress address;
  transport::PeerId peer = 0;
  TestExecutor executor{1};
  std::unique_ptr<TransportPort> port;
  IntrusiveList<FedExecution> ended;
  std::unique_ptr<NetworkExecution> execution;
};

class TwoHosts : public testing::Test {
 protected:
  static constexpr uint64_t kCount = 100'000;

  void SetUp() override {
    hosts_[0].transport->Connect(hosts_[1].address, [](const auto&) {});
    while (hosts_[0].peer == 0 || hosts_[1].peer == 0) Turn();
    for (int number = 0; number < 2; ++number) At(number).MakeExecution(number);
    Problem problem;
    problem.host_of_rank = {0, 1};
    AlgorithmOptions options;
    options.pieces = 2;
    OutlineResult outline = FindAlgorithm("ring")->make(problem, options);
    ASSERT_TRUE(outline.ok());
    outline_ = std::move(*outline);
    for (int number = 0; number < 2; ++number) {
      programs_.push_back(
          std::make_unique<NetworkProgram>(outline_->Program(number), outline_->pieces()));
    }
  }

  Host& At(int number) { return hosts_[static_cast<size_t>(number)]; }

  void Turn() {
    for (Host& host : hosts_) host.Turn();
  }

  void Start(int number) {
    std::vector<MemoryView> inputs(2);
    std::vector<MemoryView> outputs(2);
    const auto rank = static_cast<size_t>(number);
    input_[rank].assign(kCount, static_cast<float>(number + 1));
    output_[rank].assign(kCount, 0);
    inputs[rank].address = reinterpret_cast<std::byte*>(input_[rank].data());
    outputs[rank].address = reinterpret_cast<std::byte*>(output_[rank].data());
    NetworkBinding binding;
    binding.program = programs_[rank].get();
    binding.count = kCount;
    binding.inputs = inputs;
    binding.outputs = outputs;
    binding.operation = operation_;
    binding.slice_elements = 1000;
    ASSERT_TRUE(At(number).execution->Start(binding).ok());
  }

  std::array<Host, 2> hosts_;
  std::unique_ptr<Outline> outline_;
  std::vector<std::unique_ptr<NetworkProgram>> programs_;
  std::array<std::vector<float>, 2> input_;
  std::array<std::vector<float>, 2> output_;
  uint64_t operation_ = 1;
};

TEST_F(TwoHosts, ReduceOverTheWire) {
  for (; operation_ <= 5; ++operation_) {
    Start(0);
    Start(1);
    while (!At(0).execution->done() || !At(1).execution->done()) Turn();
    for (int number = 0; number < 2; ++number) {
      NetworkExecution* const execution = At(number).execution.get();
      ASSERT_TRUE(execution->status().ok()) << execution->status().ToString();
      EXPECT_EQ(At(number).ended.PopFront(), execution);
      EXPECT_TRUE(At(number).ended.empty());
      EXPECT_GT(execution->memory_bytes(), 1000 * sizeof(float));  // a slice, at least
      ASSERT_EQ(output_[static_cast<size_t>(number)], std::vector<float>(kCount, 3.0F));
    }
  }
}

TEST_F(TwoHosts, EndWhenThePeerIsLost) {
  Start(0);  // the other never comes
  for (int i = 0; i < 1000; ++i) Turn();
  EXPECT_FALSE(At(0).execution->done());
  EXPECT_TRUE(At(0).ended.empty());
  At(1).transport->Disconnect(At(1).peer, "the test is over");
  while (!At(0).execution->done()) Turn();
  EXPECT_EQ(At(0).execution->status().code(), Code::kRemoteError);
  EXPECT_EQ(At(0).ended.PopFront(), At(0).execution.get());
  // Nor does anything begin on a link that is gone.
  ++operation_;
  Start(0);
  EXPECT_TRUE(At(0).execution->done());
  EXPECT_EQ(At(0).ended.PopFront(), At(0).execution.get());
  EXPECT_EQ(At(0).execution->status().code(), Code::kRemoteError);
}

TEST_F(TwoHosts, EndWhenCanceled) {
  Start(0);
  Start(1);
  for (int i = 0; i < 3; ++i) Turn();
  for (int number = 0; number < 2; ++number) {
    At(number).execution->Cancel(RemoteError("canceled by the test"));
  }
  while (!At(0).execution->done() || !At(1).execution->done()) Turn();
  ++operation_;
  Start(0);
  Start(1);
  while (!At(0).execution->done() || !At(1).execution->done()) Turn();
  EXPECT_EQ(output_[0], std::vector<float>(kCount, 3.0F));
  EXPECT_EQ(output_[1], std::vector<float>(kCount, 3.0F));
}

}  // namespace
}  // namespace harmonaize
