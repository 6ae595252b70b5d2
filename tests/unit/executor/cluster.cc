#include "tests/unit/executor/cluster.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/numerics/types.h"
#include "tests/unit/schedule/fabrics.h"

namespace harmonaize {

// ---------------------------------------------------------------------------------------------
// TestNetwork

Status TestNetwork::Port::Send(const MessageName& name, std::span<const std::byte> data,
                               uint64_t /*left*/, MessageListener* listener, uint64_t token) {
  network_->Match(host_, name.host, name).send = {
      {const_cast<std::byte*>(data.data()), data.size()}, listener, token, true};
  return Status::Ok();
}

Status TestNetwork::Port::Receive(const MessageName& name, std::span<std::byte> data,
                                  MessageListener* listener, uint64_t token) {
  network_->Match(name.host, host_, name).receive = {data, listener, token, true};
  return Status::Ok();
}

void TestNetwork::Progress() {
  Deliver();
  if (news_.empty() || random_() % 3 == 0) return;
  std::swap(news_[random_() % news_.size()], news_.back());
  const News one = news_.back();
  news_.pop_back();
  one.listener->OnMessage(one.token, one.status);
}

TestNetwork::Message& TestNetwork::Match(int from, int to, const MessageName& name) {
  return messages_[Key(from, to, name.operation, name.path, name.number, name.slice)];
}

void TestNetwork::Deliver() {
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

void TestNetwork::CancelAt(int host, uint64_t operation) {
  for (auto entry = messages_.begin(); entry != messages_.end();) {
    auto& [key, message] = *entry;
    if (std::get<2>(key) == operation) {
      if (std::get<0>(key) == host) EndWithError(&message.send);
      if (std::get<1>(key) == host) EndWithError(&message.receive);
    }
    entry = message.send.there || message.receive.there ? std::next(entry) : messages_.erase(entry);
  }
}

void TestNetwork::EndWithError(End* end) {
  if (end->there) news_.push_back({end->listener, end->token, RemoteError("canceled")});
  end->there = false;
}

// ---------------------------------------------------------------------------------------------
// CopyingRanks

void CopyingRanks::Begin(const SliceShape& shape) {
  shape_ = shape;
  const uint64_t element = sizeof(uint32_t);
  for (Rank& rank : ranks_) {
    if (!rank.windowed()) continue;
    rank.layout = LayoutOf(rank.units, rank.number, shape.pieces,
                           kSendWindow | kReceiveWindow | (rank.in_place ? kOneWindow : 0));
    rank.cut = {.unit_bytes = count_ * element,
                .piece_bytes = shape.piece_elements * element,
                .pieces = shape.pieces,
                .slice_bytes = shape.slice_elements * element,
                .slots = shape.slots,
                .slot_bytes = rank.layout.SlotBytes(shape.slice_elements, element)};
    rank.window.assign(shape.slots * rank.cut.slot_bytes / element, 0xabad1dea);
  }
}

Status CopyingRanks::PlaceWindows(std::vector<SlicedBuffer>* inputs,
                                  std::vector<SlicedBuffer>* outputs) {
  for (Rank& rank : ranks_) {
    if (rank.layout.blocks == 0) continue;
    const MemoryView first{reinterpret_cast<std::byte*>(rank.window.data())};
    const auto place = [&](uint64_t block) {
      return SlicedBuffer{first.At(block * rank.cut.slice_bytes), rank.cut.slot_bytes};
    };
    const auto number = static_cast<size_t>(rank.number);
    if (rank.units.send > 0) (*inputs)[number] = place(rank.layout.send);
    if (rank.units.receive > 0) (*outputs)[number] = place(rank.layout.receive);
  }
  return Status::Ok();
}

uint64_t CopyingRanks::Filled() const {
  uint64_t filled = shape_.slices;
  for (const Rank& rank : ranks_) filled = std::min(filled, rank.filled);
  return filled;
}

void CopyingRanks::Carried(uint32_t slices) {
  ASSERT_LE(taken_, slices) << "what was carried is not any more";
  ASSERT_LE(slices, Filled()) << "what was never filled is carried";
  Take(slices);
}

void CopyingRanks::FillSome() {
  if (ranks_.empty() || random_() % 4 == 0) return;
  Rank& rank = ranks_[random_() % ranks_.size()];
  uint64_t last = std::min<uint64_t>(shape_.slices, rank.filled + random_() % 4);
  if (!rank.windowed()) {
    CopySlices(rank.source, rank.input, rank.filled, last);
    rank.filled = last;
    return;
  }
  last = std::min<uint64_t>(last, taken_ + shape_.slots);
  while (rank.filled < last) FillWindow(&rank, rank.filled++);
}

void CopyingRanks::FillWindow(Rank* rank, uint64_t slice) {
  auto* const window = reinterpret_cast<std::byte*>(rank->window.data());
  const auto* const own = reinterpret_cast<const std::byte*>(rank->source.data());
  rank->cut.ForEachBlock(slice, rank->units.send, rank->layout.send,
                         [&](uint64_t from, uint64_t to, uint64_t bytes) {
                           std::memcpy(window + to, own + from, bytes);
                         });
}

void CopyingRanks::DrainWindow(Rank* rank, uint64_t slice) {
  const auto* const window = reinterpret_cast<const std::byte*>(rank->window.data());
  auto* const own = reinterpret_cast<std::byte*>(rank->taken.data());
  rank->cut.ForEachBlock(slice, rank->units.receive, rank->layout.receive,
                         [&](uint64_t to, uint64_t from, uint64_t bytes) {
                           std::memcpy(own + to, window + from, bytes);
                         });
}

void CopyingRanks::CopySlices(std::span<const uint32_t> from, std::span<uint32_t> to,
                              uint64_t first, uint64_t last) const {
  for (size_t i = 0; i < from.size(); ++i) {
    const uint64_t slice = i % count_ % shape_.piece_elements / shape_.slice_elements;
    if (slice >= first && slice < last) to[i] = from[i];
  }
}

void CopyingRanks::TakeRest() {
  Take(shape_.slices);
  for (const Rank& rank : ranks_) {
    std::copy(rank.taken.begin(), rank.taken.end(), rank.output.begin());
  }
}

void CopyingRanks::Take(uint64_t slices) {
  for (Rank& rank : ranks_) {
    if (!rank.windowed()) {
      CopySlices(rank.output, rank.taken, taken_, slices);
      continue;
    }
    for (uint64_t slice = taken_; slice < slices; ++slice) DrainWindow(&rank, slice);
  }
  taken_ = slices;
}

// ---------------------------------------------------------------------------------------------
// Cases

std::vector<const Algorithm*> AlgorithmsBetweenHosts() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& algorithm : Algorithms()) {
    if (algorithm.name != "one-host") all.push_back(&algorithm);
  }
  return all;
}

NetworkCase MakeNetworkCase(const Algorithm& algorithm, Collective collective) {
  NetworkCase made;
  made.algorithm = &algorithm;
  made.problem.collective = collective;
  made.problem.host_of_rank = {0, 1, 2, 0, 2};
  made.problem.root = HasRoot(collective) ? 3 : -1;
  made.options.pieces = 2;
  if (algorithm.needs_groups) made.options.groups = {{0, 2}, {1}};
  static const CapacityGraph fabric = OneSwitch({10, 20, 30});
  made.options.fabric = &fabric;
  return made;
}

// ---------------------------------------------------------------------------------------------
// ExecutorCluster

ExecutorCluster::ExecutorCluster(int hosts, uint32_t seed) : seed_(seed), network_(seed) {
  for (int i = 0; i < hosts; ++i) hosts_.push_back(std::make_unique<Host>(&network_, i));
}

std::string ExecutorCluster::Run(const NetworkCase& test_case) {
  const std::string error = RunUnchecked(test_case);
  return error.empty() ? Check() : error;
}

std::string ExecutorCluster::RunUnchecked(const NetworkCase& test_case) {
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
  TakeCopies();
  return network_.Empty() ? "" : "messages were left over";
}

void ExecutorCluster::RunIntoCut(const NetworkCase& test_case, int host) {
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

void ExecutorCluster::FillBuffers() {
  for (const std::unique_ptr<Host>& host : hosts_) host->copying.reset();
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
    if (case_->fill) {
      const std::vector<uint32_t> words = case_->fill(static_cast<int>(r), inputs_[r].size());
      std::copy(words.begin(), words.end(), inputs_[r].begin());
    }
    input_buffers_[r] = MemoryView{reinterpret_cast<std::byte*>(inputs_[r].data())};
    output_buffers_[r] = MemoryView{reinterpret_cast<std::byte*>(outputs_[r].data())};
  }
}

// One behind the other or, in place, one inside the other.
void ExecutorCluster::Allocate(int rank) {
  const auto r = static_cast<size_t>(rank);
  const Problem& problem = case_->problem;
  const BufferBlocks blocks =
      BlocksOf(problem.collective, static_cast<int>(memory_.size()), rank, problem.root);
  const uint64_t unit = case_->count * (DataTypeSize(case_->type) / sizeof(uint32_t));
  const uint64_t send = blocks.send * unit;
  const uint64_t receive = blocks.receive * unit;
  memory_[r].resize(send + receive);
  inputs_[r] = {memory_[r].data(), send};
  outputs_[r] = {memory_[r].data() + send, receive};
  if (!problem.in_place || send == 0 || receive == 0) return;
  const uint64_t shift = std::min(send, receive) < std::max(send, receive) ? r * unit : 0;
  inputs_[r] = {memory_[r].data() + (send < receive ? shift : 0), send};
  outputs_[r] = {memory_[r].data() + (receive < send ? shift : 0), receive};
}

void ExecutorCluster::Start(const HostProgram& program) {
  Host& host = At(program.host);
  const bool reduces = Reduces(case_->problem.collective);
  host.program = std::make_unique<NetworkProgram>(
      program, schedule_.pieces,
      reduces ? NetworkProgram::Messages::kPlainOrEncoded : NetworkProgram::Messages::kPlain);
  scalars_.assign(input_buffers_.size(), 0);
  for (size_t r = 0; r < scalars_.size(); ++r) {
    scalars_[r] = case_->type == DataType::kUint32 ? r + 2 : OneBits(case_->type);
  }
  NetworkBinding binding;
  binding.program = host.program.get();
  binding.type = case_->type;
  binding.wire = case_->wire;
  binding.op = case_->op;
  binding.count = case_->count;
  binding.inputs = input_buffers_;
  binding.outputs = output_buffers_;
  binding.scalars = scalars_;
  binding.divisor = input_buffers_.size();
  binding.operation = operation_;
  binding.slice_elements = case_->slice_elements;
  binding.slices_at_once = 3;
  if (case_->copies_along) {
    MakeCopyingRanks(program.host);
    binding.feed = host.copying.get();
  }
  ASSERT_TRUE(host.execution->Start(binding).ok());
}

void ExecutorCluster::MakeCopyingRanks(int host) {
  std::vector<CopyingRanks::Rank> ranks;
  for (size_t r = 0; r < inputs_.size(); ++r) {
    if (case_->problem.host_of_rank[r] != host) continue;
    CopyingRanks::Rank& rank = ranks.emplace_back();
    rank.source.assign(inputs_[r].begin(), inputs_[r].end());
    rank.number = static_cast<int>(r);
    rank.units = BlocksOf(case_->problem.collective, static_cast<int>(inputs_.size()), rank.number,
                          case_->problem.root);
    rank.in_place = case_->problem.in_place;
    rank.input = inputs_[r];
    rank.output = outputs_[r];
    rank.taken.assign(outputs_[r].size(), 0xdeadbeef);
    std::fill(inputs_[r].begin(), inputs_[r].end(), 0xbadf00d);
  }
  At(host).copying = std::make_unique<CopyingRanks>(std::move(ranks), case_->count,
                                                    seed_ + static_cast<uint32_t>(host));
}

void ExecutorCluster::Turn() {
  network_.Progress();
  for (const auto& host : hosts_) {
    if (host->copying != nullptr) host->copying->FillSome();
    host->execution->Feed();
    host->executor->Help();
    while (Execution* const done = host->executor->TakeFinished()) {
      NetworkExecution::OnExecuted(done);
    }
  }
}

void ExecutorCluster::Finish() {
  const auto busy = [](const auto& host) { return !host->execution->done(); };
  while (std::any_of(hosts_.begin(), hosts_.end(), busy) || !network_.Empty()) {
    Turn();
    if (testing::Test::HasFatalFailure()) return;
    if (std::none_of(hosts_.begin(), hosts_.end(), busy) && stuck_++ > 1000) return;
  }
  stuck_ = 0;
}

uint32_t ExecutorCluster::Value(int rank, uint64_t i) {
  return static_cast<uint32_t>(i * 2654435761u + static_cast<uint32_t>(rank) * 40503u);
}

// Of all ranks' element i.
uint32_t ExecutorCluster::Reduced(uint64_t i) const {
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

// Element `i` of a rank's output, by the collective's definition.
uint32_t ExecutorCluster::Expected(int rank, uint64_t i) const {
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

// What ranks took is what counts.
void ExecutorCluster::TakeCopies() {
  for (const std::unique_ptr<Host>& host : hosts_) {
    if (host->copying != nullptr) host->copying->TakeRest();
  }
}

std::string ExecutorCluster::Check() {
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

}  // namespace harmonaize
