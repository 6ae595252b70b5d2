#include "cli/profile/profile_table.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/human_units.h"
#include "cli/jobs/short_job_id.h"
#include "cli/json_view.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Columns of names and words, which are aligned left.
constexpr size_t kLeftColumns = 5;

double NumberAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::string NameOf(const Json& named) {
  const std::string name = TextAt(named, "name");
  return name.empty() ? kMissing : name;
}

bool NamesTenants(const Json& jobs) {
  return !jobs.empty() && At(jobs.front(), "tenant").is_string();
}

void AddRow(const Json& row, TextTable* table) {
  const double events = NumberAt(row, "events");
  const double seconds = NumberAt(row, "seconds");
  const bool moves_bytes = CountAt(row, "bytes") > 0;
  table->Add({TextAt(row, "kind"), TextAt(row, "function"), TextAt(row, "algorithm"),
              TextAt(row, "protocol"), TextAt(row, "timed"), TextAt(row, "events"),
              moves_bytes ? BytesAt(row, "bytes") : kMissing, TimeAt(row, "seconds"),
              events > 0 ? HumanTime(seconds / events) : kMissing, TimeAt(row, "largest_seconds")});
}

/// Appends a heading and the rows below it, if there are any.
void AddRows(const std::string& heading, const Json& rows, std::string* text) {
  if (rows.empty()) return;
  TextTable table({"kind", "function", "algorithm", "protocol", "timed", "events", "bytes", "time",
                   "mean", "largest"},
                  kLeftColumns);
  for (const Json& row : rows) AddRow(row, &table);
  *text += fmt::format("\n{}\n", heading);
  table.Print(text);
}

std::string HeadingOf(const Json& communicator) {
  const std::string name = TextAt(communicator, "name");
  std::string heading = fmt::format("communicator {}", TextAt(communicator, "id"));
  if (!name.empty() && name != kMissing) heading += fmt::format(" '{}'", name);
  if (At(communicator, "ranks").is_number()) {
    heading += fmt::format(", {} ranks", TextAt(communicator, "ranks"));
  }
  if (At(communicator, "hosts").is_number()) {
    heading += fmt::format(" on {} hosts", TextAt(communicator, "hosts"));
  }
  return heading + fmt::format(", {} processes here now", TextAt(communicator, "processes"));
}

}  // namespace

Result<std::string> ProfileList(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  const Json& jobs = ListAt(json, "jobs");
  if (jobs.empty()) {
    return std::string(
        "no job tells of profiler events; `harmonaize profile --help` says how one does\n");
  }
  const bool tenants = NamesTenants(jobs);
  std::vector<std::string> head = {"job", "name", "processes", "communicators", "events", "lost"};
  if (tenants) head.insert(head.begin() + 2, "tenant");
  TextTable table(std::move(head), tenants ? 3 : 2);
  for (const Json& job : jobs) {
    std::vector<std::string> row = {ShortJobId(TextAt(job, "job")), NameOf(job),
                                    TextAt(job, "processes"),       TextAt(job, "communicators"),
                                    TextAt(job, "events"),          TextAt(job, "lost")};
    if (tenants) row.insert(row.begin() + 2, TextAt(job, "tenant"));
    table.Add(std::move(row));
  }
  std::string text;
  table.Print(&text);
  return text;
}

Result<std::string> ProfileTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  std::string text = fmt::format("job {}  {}", ShortJobId(TextAt(json, "job")), NameOf(json));
  if (At(json, "tenant").is_string()) text += fmt::format("  of {}", TextAt(json, "tenant"));
  text += fmt::format("\n{} events, {} lost; processes that tell now: {}\n", TextAt(json, "events"),
                      TextAt(json, "lost"), TextAt(json, "processes"));
  if (CountAt(json, "malformed") > 0) {
    text += fmt::format("{} records that no profiler plugin writes\n", TextAt(json, "malformed"));
  }
  for (const Json& communicator : ListAt(json, "communicators")) {
    AddRows(HeadingOf(communicator), ListAt(communicator, "rows"), &text);
  }
  AddRows("other communicators", ListAt(json, "others"), &text);
  return text;
}

}  // namespace harmonaize
