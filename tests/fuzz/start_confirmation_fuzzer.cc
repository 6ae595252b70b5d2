// What hosts tell the home of a communicator that they have begun: numbers that another daemon
// chooses, kept until all hosts have told the same.

#include <cstdint>
#include <map>
#include <vector>

#include "daemon/multihost/start_confirmation.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

constexpr int kHosts = 3;

/// What each host has told of a collective since it was last forgotten or settled.
using Told = std::map<uint64_t, std::map<int, uint32_t>>;

void Tell(Input* input, uint64_t sequence, StartConfirmations* confirmations, Told* told) {
  const auto host = static_cast<int>(input->TakeUpTo(kHosts - 1));
  const uint32_t digest = input->Take<uint8_t>() % 3;
  (*told)[sequence][host] = digest;
  if (confirmations->Take(host, {sequence, digest}) != StartConfirmations::Outcome::kAll) return;
  const std::map<int, uint32_t>& by_host = (*told)[sequence];
  Require(by_host.size() == kHosts, "all have told when all agree");
  for (const auto& one : by_host) Require(one.second == digest, "all have told the same");
  Require(confirmations->agreed() == sequence || sequence == UINT64_MAX,
          "the last that is agreed on");
  told->erase(sequence);
}

void Run(Input input) {
  StartConfirmations confirmations(kHosts);
  Told told;
  UnconfirmedStarts awaited;
  while (!input.empty()) {
    const size_t what = input.TakeUpTo(6);
    const uint64_t sequence = what == 6 ? input.Take<uint64_t>() : uint64_t{input.Take<uint8_t>()};
    switch (what) {
      case 0:
        confirmations.Forget(sequence);
        told.erase(sequence);
        break;
      case 1:
        confirmations.EndFrom(sequence);
        told.erase(told.lower_bound(sequence), told.end());
        break;
      case 2: confirmations.Ask(static_cast<int>(input.TakeUpTo(kHosts - 1)), sequence); break;
      case 3:
        for (const int host : confirmations.TakeListeners()) {
          Require(host >= 0 && host < kHosts, "a listener is a host");
        }
        break;
      case 4:
        awaited.Begin({sequence, 0});
        static_cast<void>(awaited.due(sequence));
        break;
      case 5:
        awaited.Agree(sequence);
        static_cast<void>(awaited.TakeUntold());
        break;
      default: break;
    }
    Tell(&input, sequence, &confirmations, &told);
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
