#include "cli/jobs/job_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cli/jobs/short_job_id.h"
#include "cli/json_view.h"
#include "cli/status/stock_nccl_note.h"
#include "cli/status/waiting_notes.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Most processes that are listed: a screen or two. --json has all.
constexpr size_t kMostProcesses = 64;
/// Most communicators that form and are shown: a few say what a job waits for.
constexpr size_t kMostForming = 4;
/// Most ranges of ranks in one line.
constexpr size_t kMostRanges = 16;

/// Returns whether the document tells this of any job. Tenants are told of no tenants, and older
/// daemons tell of no operations.
bool Tells(const Json& jobs, const char* key) {
  return std::any_of(jobs.begin(), jobs.end(),
                     [&](const Json& job) { return !At(job, key).is_null(); });
}

std::string NameOf(const Json& named) {
  const std::string name = TextAt(named, "name");
  return name.empty() ? kMissing : name;
}

bool HasEnded(const Json& job) {
  return At(job, "ended").is_string();
}

/// Returns how many communicators a job has, or had if it has ended.
std::string CommunicatorsOf(const Json& job) {
  if (!HasEnded(job)) return std::to_string(ListAt(job, "communicators").size());
  return TextAt(At(job, "ended_communicators"), "count");
}

/// Returns the number of ranks of the largest communicator, of those that there are or form, or
/// else of those that there were.
std::string RanksOf(const Json& job) {
  const Json& ended = At(job, "ended_communicators");
  uint64_t most = ListAt(job, "communicators").empty() ? CountAt(ended, "ranks") : 0;
  for (const Json& communicator : ListAt(job, "communicators")) {
    most = std::max(most, CountAt(communicator, "size"));
  }
  for (const Json& forming : ListAt(job, "forming")) {
    most = std::max(most, CountAt(forming, "size"));
  }
  return most == 0 ? kMissing : std::to_string(most);
}

/// Returns a line for each of a job's communicators that form, of which the first are shown.
std::vector<std::string> FormingNotes(const Json& job) {
  std::vector<std::string> notes;
  const Json& all = ListAt(job, "forming");
  for (const Json& forming : all) {
    if (notes.size() == kMostForming) {
      notes.push_back(fmt::format("{} more form; --json has them", all.size() - kMostForming));
      break;
    }
    const std::string name = TextAt(forming, "name");
    const uint64_t size = CountAt(forming, "size");
    notes.push_back(fmt::format(
        "forms{}, with {} of {} ranks so far: {}", name.empty() ? "" : " '" + name + "'",
        size - std::min(size, CountAt(forming, "missing")), size, TextAt(forming, "text")));
  }
  return notes;
}

/// Returns "0-3, 7" for the ranks of a communicator for which `holds` does; "" for none.
template <typename Predicate>
std::string RangesOf(const Json& communicator, const Predicate& holds) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Json& one : ListAt(communicator, "ranks")) {
    if (!holds(one)) continue;
    const uint64_t rank = CountAt(one, "rank");
    if (!ranges.empty() && ranges.back().second + 1 == rank) {
      ranges.back().second = rank;
    } else {
      ranges.emplace_back(rank, rank);
    }
  }
  std::string text;
  for (size_t i = 0; i < std::min(ranges.size(), kMostRanges); ++i) {
    const auto& [first, last] = ranges[i];
    text += (i > 0 ? ", " : "") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
  }
  return text + (ranges.size() > kMostRanges ? ", ..." : "");
}

void AddCommunicator(const Json& communicator, TextTable* table) {
  const std::string here =
      RangesOf(communicator, [](const Json& rank) { return YesAt(rank, "here"); });
  const std::string left =
      RangesOf(communicator, [](const Json& rank) { return YesAt(rank, "left"); });
  table->Add({TextAt(communicator, "id"), NameOf(communicator), TextAt(communicator, "state"),
              here.empty() ? kMissing : here, TextAt(communicator, "size"),
              TextAt(communicator, "operations"), BytesAt(communicator, "bytes"),
              TextAt(communicator, "congestion")});
  for (std::string& note : StockNcclNote(communicator)) table->AddNote(std::move(note));
  for (std::string& note : WaitingNotes(communicator)) table->AddNote(std::move(note));
  if (At(communicator, "failure").is_string()) table->AddNote(TextAt(communicator, "failure"));
  if (!left.empty()) table->AddNote("ranks that have left: " + left);
}

/// Appends the processes of the ranks, if the document tells them.
void PrintProcesses(const Json& job, std::string* text) {
  TextTable table({"communicator", "program", "rank", "process"}, 2);
  size_t untold = 0;
  size_t told = 0;
  for (const Json& communicator : ListAt(job, "communicators")) {
    for (const Json& rank : ListAt(communicator, "ranks")) {
      if (At(rank, "process").is_null()) continue;
      if (told == kMostProcesses) {
        ++untold;
        continue;
      }
      ++told;
      table.Add({TextAt(communicator, "id"), TextAt(rank, "program"), TextAt(rank, "rank"),
                 TextAt(rank, "process")});
    }
  }
  if (untold > 0) table.AddNote(fmt::format("{} more; --json has all", untold));
  if (table.empty()) return;
  *text += "\n";
  table.Print(text);
}

}  // namespace

Result<std::string> JobTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  const Json& jobs = ListAt(json, "jobs");
  if (jobs.empty()) return std::string("no jobs\n");
  const bool tenants = Tells(jobs, "tenant");
  const bool operations = Tells(jobs, "operations");
  std::vector<std::string> head = {"job", "name", "kind", "since"};
  if (tenants) head.insert(head.begin() + 1, "tenant");
  const size_t left_columns = head.size();
  head.insert(head.end(), {"communicators", "ranks", "waiting"});
  if (operations) head.insert(head.end() - 1, "operations");
  TextTable table(head, left_columns);
  for (const Json& job : jobs) {
    std::vector<std::string> row = {ShortJobId(TextAt(job, "id")),
                                    NameOf(job),
                                    TextAt(job, "kind"),
                                    MomentAt(job, "began"),
                                    CommunicatorsOf(job),
                                    RanksOf(job),
                                    HasEnded(job) ? kMissing : TextAt(job, "waiting")};
    if (operations) row.insert(row.end() - 1, TextAt(job, "operations"));
    if (tenants) row.insert(row.begin() + 1, TextAt(job, "tenant"));
    table.Add(std::move(row));
    for (std::string& note : FormingNotes(job)) table.AddNote(std::move(note));
    if (HasEnded(job)) table.AddNote("ended " + MomentAt(job, "ended"));
  }
  std::string text;
  table.Print(&text);
  return text;
}

Result<std::string> JobDetails(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json job, ParseDocument(document));
  std::string text = fmt::format("job {}, named {}, of kind {}, since {}", TextAt(job, "id"),
                                 NameOf(job), TextAt(job, "kind"), MomentAt(job, "began"));
  if (HasEnded(job)) text += ", ended " + MomentAt(job, "ended");
  if (At(job, "tenant").is_string()) text += ", of tenant " + TextAt(job, "tenant");
  text += "\n";
  TextTable communicators(
      {"communicator", "name", "state", "ranks here", "of", "operations", "bytes", "congestion"},
      3);
  for (const Json& communicator : ListAt(job, "communicators")) {
    AddCommunicator(communicator, &communicators);
  }
  text += "\n";
  if (communicators.empty()) {
    text += "no communicators\n";
  } else {
    communicators.Print(&text);
  }
  for (const std::string& note : FormingNotes(job)) text += note + "\n";
  const Json& ended = At(job, "ended_communicators");
  if (CountAt(ended, "count") > 0) {
    text += fmt::format("{} ended before, after {} operations and {}\n", TextAt(ended, "count"),
                        TextAt(ended, "operations"), BytesAt(ended, "bytes"));
  }
  PrintProcesses(job, &text);
  return text;
}

}  // namespace harmonaize
