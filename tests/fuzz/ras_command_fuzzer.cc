// A line of a client of NCCL's RAS, from any user of the host.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "daemon/ras/ras_command.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using daemon::RasCommand;

void Run(std::string_view line) {
  const RasCommand command = daemon::ParseRasCommand(line);
  const bool is_wrong = command.kind == RasCommand::Kind::kWrong;
  Require(is_wrong == command.error.starts_with("ERROR: "), "what is wrong has an error");
  Require(command.error.size() < 256, "errors repeat little of a line");
  Require(std::all_of(command.error.begin(), command.error.end(),
                      [](char one) { return one != '\n' && one != '\r' && one != '\x1b'; }),
          "errors are one clean line");
  Require(command.timeout_seconds >= 0 && command.timeout_seconds <= daemon::kMostRasTimeoutSeconds,
          "times are within bounds");
  Require((command.groups & ~unsigned{daemon::kRasAllEvents}) == 0, "there are no other groups");
  Require((command.kind == RasCommand::Kind::kMonitor) == (command.groups != 0),
          "who watches watches something");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
