#include "cli/checkpoints/held_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "cli/human_units.h"
#include "cli/jobs/short_job_id.h"
#include "cli/json_view.h"
#include "cli/text_table.h"
#include "src/base/time_text.h"

namespace harmonaize {
namespace {

/// Latest moment, in seconds since 1970, that is shown as a time: the end of the year 9999.
constexpr double kLatestMoment = 253'402'300'799;
/// Most ranks that are named; of more their number is told.
constexpr size_t kMostRanksNamed = 16;
/// Most ranks of a checkpoint that are looked through for missing parts: as many as a job may have.
constexpr uint64_t kMostRanks = 1 << 20;

/// The cells of a row that name the checkpoint's job; they come before all others.
using JobCells = std::vector<std::string>;

std::string YesText(const Json& object, const char* key) {
  return YesAt(object, key) ? "yes" : kMissing;
}

bool HasMoment(const Json& checkpoint) {
  const Json& saved = At(checkpoint, "saved");
  return saved.is_number() && saved.get<double>() >= 0 && saved.get<double>() <= kLatestMoment;
}

std::string SavedText(const Json& checkpoint) {
  // Up to the seconds.
  constexpr size_t kLength = 19;
  if (!HasMoment(checkpoint)) return kMissing;
  return TimeText(static_cast<int64_t>(At(checkpoint, "saved").get<double>()) * 1'000'000'000)
      .substr(0, kLength);
}

std::string AgeText(const Json& checkpoint, double now) {
  if (!HasMoment(checkpoint)) return kMissing;
  return HumanDuration(std::max(0.0, now - At(checkpoint, "saved").get<double>()));
}

/// Returns the ranks of which no host is known to have a part; none if there are too many to
/// look for.
std::vector<uint64_t> MissingRanks(const Json& checkpoint) {
  const uint64_t ranks = CountAt(checkpoint, "ranks");
  if (ranks > kMostRanks) return {};
  std::set<uint64_t> known;
  for (const char* const key : {"parts_here", "parts_elsewhere"}) {
    for (const Json& rank : ListAt(checkpoint, key)) {
      if (rank.is_number_unsigned()) known.insert(rank.get<uint64_t>());
    }
  }
  std::vector<uint64_t> missing;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    if (!known.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

std::string MissingText(const std::vector<uint64_t>& missing) {
  if (missing.size() > kMostRanksNamed) {
    return fmt::format("of {} ranks no part is known here", missing.size());
  }
  return fmt::format("of {} {} no part is known here", missing.size() == 1 ? "rank" : "ranks",
                     fmt::join(missing, ", "));
}

/// Returns whether a checkpoint can be read, as far as is known here.
const char* StateText(const Json& checkpoint, bool is_lacking) {
  if (YesAt(checkpoint, "stored")) return "whole";
  if (!YesAt(checkpoint, "complete")) return "not whole";
  return is_lacking ? "parts lost" : "whole";
}

/// Adds the checkpoints of one job. `asks_others`: other hosts were asked, too.
void AddCheckpoints(const Json& job, const JobCells& cells, bool asks_others, double now,
                    TextTable* table) {
  for (const Json& one : ListAt(job, "checkpoints")) {
    std::vector<std::string> row = cells;
    const std::vector<uint64_t> missing = MissingRanks(one);
    const bool is_lacking = asks_others && !missing.empty();
    const std::string elsewhere = std::to_string(ListAt(one, "parts_elsewhere").size());
    row.insert(row.end(), {TextAt(one, "step"), StateText(one, is_lacking), SavedText(one),
                           YesText(one, "epoch_end"), YesText(one, "stored"), AgeText(one, now),
                           TextAt(one, "ranks"), std::to_string(ListAt(one, "parts_here").size()),
                           asks_others ? elsewhere : kMissing, BytesAt(one, "bytes_here")});
    table->Add(std::move(row));
    if (is_lacking && !YesAt(one, "stored")) table->AddNote("  " + MissingText(missing));
  }
}

std::vector<std::string> Head(JobCells job_columns) {
  for (const char* const column : {"step", "state", "saved (UTC)", "epoch end", "stored", "age",
                                   "ranks", "here", "elsewhere", "bytes here"}) {
    job_columns.emplace_back(column);
  }
  return job_columns;
}

/// Columns of a checkpoint that hold names.
constexpr size_t kNameColumns = 5;

TextTable TableOfJob(const Json& document, double now) {
  TextTable table(Head({}), kNameColumns);
  AddCheckpoints(document, {}, true, now, &table);
  return table;
}

TextTable TableOfJobs(const Json& document, double now) {
  const Json& jobs = ListAt(document, "jobs");
  const bool for_operators = std::any_of(
      jobs.begin(), jobs.end(), [](const Json& job) { return At(job, "tenant").is_string(); });
  TextTable table(Head(for_operators ? JobCells{"tenant", "job"} : JobCells{"job"}),
                  kNameColumns + (for_operators ? 2 : 1));
  for (const Json& job : jobs) {
    const std::string name = TextAt(job, "name");
    JobCells cells;
    if (for_operators) cells.push_back(TextAt(job, "tenant"));
    cells.push_back(name.empty() || name == kMissing ? ShortJobId(TextAt(job, "job")) : name);
    AddCheckpoints(job, cells, false, now, &table);
  }
  return table;
}

}  // namespace

Result<std::string> HeldCheckpointsTable(std::string_view document, double now) {
  HZ_ASSIGN_OR_RETURN(const Json parsed, ParseDocument(document));
  const TextTable table =
      parsed.contains("jobs") ? TableOfJobs(parsed, now) : TableOfJob(parsed, now);
  if (table.empty()) return std::string("no checkpoints\n");
  std::string text;
  table.Print(&text);
  return text;
}

}  // namespace harmonaize
