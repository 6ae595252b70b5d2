// Documents that the command line shows, which come from a daemon, perhaps one of another version.

#include <algorithm>
#include <cstdint>
#include <string>

#include "cli/explain/explain_table.h"
#include "cli/json_view.h"
#include "cli/profile/profile_table.h"
#include "cli/status/communicator_table.h"
#include "cli/status/flight_recorder.h"
#include "cli/status/link_table.h"
#include "cli/status/pickle.h"
#include "cli/status/ras_document.h"
#include "cli/status/status_table.h"
#include "cli/status/stuck_table.h"
#include "cli/top/top_view.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

/// Requires that a table steers no terminal.
void RequireShowable(const Result<std::string>& table) {
  if (!table.ok()) return;
  std::string line = *table;
  std::replace(line.begin(), line.end(), '\n', ' ');
  RequireClean(line, "a table without control characters");
}

/// Makes of a document what PyTorch's and NCCL's tools read.
void WriteForTools(const Json& flight) {
  Require(ParseDocument(RasDocument({flight}, 1, 1)).ok(), "what is printed as JSON is JSON");
  for (const Json& communicator : ListAt(flight, "communicators")) {
    for (const Json& rank : ListAt(communicator, "ranks")) {
      const std::string pickle = Pickle(FlightRecorderDump(communicator, rank));
      Require(pickle.back() == '.', "a pickle ends");
    }
  }
}

void Run(std::string_view text) {
  // Two documents, for what is shown between two looks; the first alone for the rest.
  const size_t cut = std::min(text.find('\n'), text.size());
  const std::string_view before = text.substr(0, cut);
  const std::string_view after = text.substr(std::min(cut + 1, text.size()));
  const bool readable = ParseDocument(before).ok();
  for (const Result<std::string>& table :
       {StatusTable(before), ExplainTable(before), CommunicatorTable(before),
        PlanHistoryTable(before), StuckTable(before), ProfileList(before), ProfileTable(before)}) {
    Require(table.ok() == readable, "whatever is a document is shown");
    RequireShowable(table);
  }
  if (readable) WriteForTools(*ParseDocument(before));
  RequireShowable(LinkTable(before, after, 2));
  RequireShowable(TopView(before, after, 2, 4));
  static_cast<void>(SelectCollective(before, "AllReduce"));
  const Result<std::string> indented = IndentJson(before);
  Require(indented.ok() == readable, "whatever is a document is indented");
  if (readable) RequireOk(ParseDocument(*indented).status(), "and stays one");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
