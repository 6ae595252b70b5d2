// All that a tenant can do to a daemon, but connect to it: requests, descriptors in its ring, and
// whatever it likes anywhere in the memory that it shares with the daemon. The engine is a real one
// with its thread and a worker; the input is a programme of what some tenants do. In the end
// nothing of them is left, and a neighbour is served as before.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"
#include "tests/fuzz/engine_runner.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tenant_process.h"

namespace harmonaize::fuzz {
namespace {

constexpr size_t kMostActions = 100;

EngineRunner& Runner() {
  static EngineRunner* const kRunner = [] {
    Config config;
    config.workers = 1;
    config.worker_placement = "none";
    config.engine_spin_us = 0;
    // So soon that ranks are late within an input.
    config.late_after_seconds = 0.002;
    config.quota = {.sessions = 8,
                    .communicators = 32,
                    .regions = 32,
                    .region_bytes = 64 * kPageBytes,
                    .outstanding_operations = 200};
    return new EngineRunner(config);
  }();
  return *kRunner;
}

/// A tenant that does nothing wrong, and must not notice what others do.
class Neighbour {
 public:
  Neighbour() : process_(&Runner(), 2000) {
    process_.Join("neighbour", 1, 0);
    process_.RegisterRegion(1);
  }
  void RequireServed() {
    const uint32_t member = process_.MemberAt(0);
    OperationDescriptor descriptor = process_.NextOf(member);
    descriptor.sequence = process_.NextSequence(member);
    descriptor.count = 16;
    descriptor.type = DataType::kFloat32;
    descriptor.send = descriptor.receive = {.offset = 0, .region = 1};
    process_.Post(descriptor);
    const StreamSlot& stream = process_.segment().streams[member];
    while (stream.completed.load() != descriptor.position) std::this_thread::yield();
    Require(stream.error_count.load() == 0, "a neighbour's operations go well");
  }

 private:
  Process process_;
};

/// Whether the engine holds nothing but what the neighbour has.
bool NothingLeft(Engine& engine) {
  bool nothing = engine.sessions().size() == 1 && engine.membership().communicators().size() == 1;
  for (const auto& [user, tenant] : engine.tenants()) {
    const int64_t own = user == 2000 ? 1 : 0;
    nothing = nothing && tenant->sessions == own && tenant->communicators == own &&
              tenant->regions == own && tenant->region_descriptors == own &&
              tenant->region_bytes == own * static_cast<int64_t>(kPageBytes);
  }
  return nothing;
}

// ---------------------------------------------------------------------------------------------
// What an input says

void AskAnything(Input* input, Process* process) {
  MessageHeader header;
  header.type = static_cast<MessageType>(input->TakeUpTo(21));
  header.tail_bytes = static_cast<uint32_t>(input->TakeUpTo(8));
  const std::span<const std::byte> body = input->TakeBytes(input->TakeUpTo(255));
  std::vector<std::byte> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes.insert(bytes.end(), body.begin(), body.end());
  // Its region comes with the message, which RegisterRegion sees to.
  if (header.type != MessageType::kRegisterRegion) process->Ask(std::move(bytes));
}

/// An operation whose fields are what they often are.
void PostOften(Input* input, Process* process) {
  const uint32_t member = process->MemberAt(input->TakeUpTo(3));
  OperationDescriptor descriptor = process->NextOf(member);
  descriptor.collective = static_cast<Collective>(input->TakeUpTo(kCollectiveCount));
  descriptor.type = static_cast<DataType>(input->TakeUpTo(kDataTypeCount));
  descriptor.op = static_cast<ReduceOperator>(input->TakeUpTo(kReduceOperatorCount));
  descriptor.root = static_cast<int32_t>(input->TakeUpTo(3));
  descriptor.count = input->Take<uint16_t>() % 700;
  descriptor.send = {.offset = 16 * input->TakeUpTo(255),
                     .region = static_cast<uint32_t>(input->TakeUpTo(2))};
  descriptor.receive = {.offset = 16 * input->TakeUpTo(255),
                        .region = static_cast<uint32_t>(input->TakeUpTo(2))};
  descriptor.flags = static_cast<uint8_t>(input->TakeUpTo(3));
  if (descriptor.collective < Collective::kSend) {
    descriptor.sequence = process->NextSequence(member);
  }
  process->Post(descriptor);
}

void PostAnything(Input* input, Process* process) {
  OperationDescriptor descriptor = process->NextOf(process->MemberAt(input->TakeUpTo(3)));
  const size_t place = input->TakeUpTo(sizeof descriptor - 1);
  const auto bytes = input->TakeBytes(std::min(input->TakeUpTo(63), sizeof descriptor - place));
  std::memcpy(reinterpret_cast<std::byte*>(&descriptor) + place, bytes.data(), bytes.size());
  process->Post(descriptor);
}

void ScribbleAnything(Input* input, Process* process) {
  const auto offset = input->Take<uint32_t>();
  const std::span<const std::byte> bytes = input->TakeBytes(input->TakeUpTo(63));
  if (bytes.empty()) return;
  process->Scribble(offset, bytes);
  process->ScribbleInline(offset, bytes);
  process->Ring();
}

void Act(Input* input, std::unique_ptr<Process>* process) {
  switch (input->TakeUpTo(7)) {
    case 0: return AskAnything(input, process->get());
    case 1: {
      const std::string name = input->TakeUpTo(1) == 0 ? "one" : "two";
      const auto ranks = static_cast<int>(input->TakeUpTo(4));
      return (*process)->Join(name, ranks, static_cast<int>(input->TakeUpTo(4)) - 1);
    }
    case 2: return (*process)->RegisterRegion(input->TakeUpTo(3) + 1);
    case 3: return PostAnything(input, process->get());
    case 4: return ScribbleAnything(input, process->get());
    case 5: {
      const auto bytes = input->TakeBytes(input->TakeUpTo(255));
      return (*process)->Ask({bytes.begin(), bytes.end()});
    }
    case 6: return process->reset();
    default: return PostOften(input, process->get());
  }
}

void Run(Input input) {
  static Neighbour* const neighbour = new Neighbour;
  {
    // Two of one user, and one of another.
    std::array<std::unique_ptr<Process>, 3> processes;
    for (size_t actions = 0; actions < kMostActions && !input.empty(); ++actions) {
      const size_t place = input.TakeUpTo(processes.size() - 1);
      if (processes[place] == nullptr) {
        processes[place] = std::make_unique<Process>(&Runner(), place == 2 ? 1001 : 1000);
      }
      Act(&input, &processes[place]);
    }
  }
  bool nothing_left = false;
  while (!nothing_left) {
    Runner().Do([&](Engine& engine) { nothing_left = NothingLeft(engine); });
  }
  neighbour->RequireServed();
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
