#include "daemon/ras/ras_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Ranks that are listed one by one unless more was asked for.
constexpr size_t kMostNamed = 10;

/// The collectives that NCCL counts, in its order, and then those that only we have.
constexpr std::array<const char*, 8> kCounted = {"Broadcast",     "Reduce",    "AllGather",
                                                 "ReduceScatter", "AllReduce", "AlltoAll",
                                                 "Gather",        "Scatter"};
constexpr size_t kCountedByNccl = 5;

// What NCCL's RAS says of communicators and ranks. Several may hold at once; a table shows the
// highest status.
enum RankStatus : unsigned { kNoCommunicator, kInit, kRunning, kFinalize, kAbort };
constexpr std::array<const char*, 5> kStatusNames = {"NOCOMM", "INIT", "RUNNING", "FINALIZE",
                                                     "ABORT"};
enum RankErrors : unsigned { kMismatch = 1, kError = 2, kIncomplete = 4 };

std::string ErrorsText(unsigned errors) {
  std::vector<const char*> names;
  if (errors & kIncomplete) names.push_back("INCOMPLETE");
  if (errors & kError) names.push_back("ERROR");
  if (errors & kMismatch) names.push_back("MISMATCH");
  return names.empty() ? "OK" : fmt::format("{}", fmt::join(names, ","));
}

const char* ResultText(int result) {
  switch (result) {
    case 1: return "Unhandled CUDA error";
    case 2: return "System error";
    case 3: return "Internal error";
    case 4: return "Invalid argument";
    case 5: return "Invalid usage";
    case 6: return "Remote process error";
    case 7: return "NCCL operation in progress";
    default: return "Unexpected error";
  }
}

const char* Plural(size_t count) {
  return count == 1 ? "" : "s";
}

uint64_t CountOf(const json& rank, const char* collective) {
  const json& counts = rank["counts"];
  const auto found = counts.find(collective);
  return found == counts.end() ? 0 : found->get<uint64_t>();
}

std::string PlaceOf(const json& rank) {
  return fmt::format("GPU {} managed by process {} on node localhost", rank["device"].get<int>(),
                     rank["pid"].get<int>());
}

/// A communicator as the tables need it.
struct View {
  explicit View(const json& described);

  RankStatus StatusOf(const json& rank) const;
  bool is_broken() const { return communicator["result"].get<int>() != 0; }
  std::string hash() const {
    return fmt::format("{:0>16}", communicator["hash"].get<std::string>());
  }

  const json& communicator;
  std::map<unsigned, std::vector<const json*>> by_status;  ///< Ranks of this host.
  unsigned status = kNoCommunicator;                       ///< The highest.
  unsigned errors = 0;
  int size = 0;
  int hosts = 1;
};

View::View(const json& described)
    : communicator(described), size(described["size"]), hosts(described["hosts"]) {
  const json& ranks = communicator["ranks"];
  for (const json& rank : ranks) by_status[StatusOf(rank)].push_back(&rank);
  for (const auto& [one, list] : by_status) status = std::max(status, one);
  size_t statuses = by_status.size();
  if (is_broken()) errors |= kError;
  if (!communicator["missing"].empty()) errors |= kIncomplete;
  if (!communicator["gone"].empty()) {
    // Ranks leave in peace, or are lost; those of a broken communicator are.
    is_broken() ? errors |= kIncomplete : ++statuses;
  }
  if (statuses > 1) errors |= kMismatch;
  for (const char* const collective : kCounted) {
    for (const json& rank : ranks) {
      if (CountOf(rank, collective) != CountOf(ranks.front(), collective)) errors |= kMismatch;
    }
  }
}

RankStatus View::StatusOf(const json& rank) const {
  const std::string& state = communicator["state"].get_ref<const std::string&>();
  if (state == "init") return kInit;
  if (state == "abort" || rank["aborted"].get<bool>()) return kAbort;
  return rank["leaving"].get<bool>() ? kFinalize : kRunning;
}

/// Communicators that a table shows in one line.
struct ViewGroup {
  std::vector<View> views;
};

std::vector<ViewGroup> Groups(const json& report) {
  // The largest come first, and of these the worst.
  using Key = std::tuple<int, int, int, int>;
  std::map<Key, ViewGroup> groups;
  for (const json& communicator : report["communicators"]) {
    View view(communicator);
    const Key key{-view.size, -view.hosts, -static_cast<int>(view.status),
                  -static_cast<int>(view.errors)};
    groups[key].views.push_back(std::move(view));
  }
  std::vector<ViewGroup> list;
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return list;
}

/// Writes the answer, section by section.
class TextAnswer {
 public:
  TextAnswer(const json& report, const RasAnswerFacts& facts)
      : report_(report), facts_(facts), groups_(Groups(report)) {}

  std::string Write();

 private:
  template <typename... Arguments>
  void Put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }
  template <typename Do>
  void ForEach(Do what);
  /// Returns whether so many of `all` are listed one by one.
  bool AreNamed(size_t count, size_t all) const {
    if (count == 1) return true;
    if (facts_.verbose) return count * 2 < all;
    return count <= kMostNamed && count * 4 <= all;
  }

  void Summary();
  void Table();
  void TableLine(size_t number, const ViewGroup& group);
  void Missing(const std::string& title, const View& view);
  void Failure(const std::string& title, const View& view);
  void Mismatch(const std::string& title, const View& view);
  void MismatchOfStatus(const View& view);
  void MismatchOfCounts(const View& view, const char* collective);
  void Waiting(const std::string& title, const View& view);
  void Elsewhere();

  const json& report_;
  const RasAnswerFacts& facts_;
  const std::vector<ViewGroup> groups_;
  std::string text_;
};

template <typename Do>
void TextAnswer::ForEach(Do what) {
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (size_t i = 0; i < groups_[group].views.size(); ++i) {
      const View& view = groups_[group].views[i];
      what(fmt::format("#{}-{} ({})", group, i, view.hash()), view);
    }
  }
}

std::string TextAnswer::Write() {
  Put("NCCL version Harmonaize {}\nCUDA runtime version 0, driver version 0\n\n", facts_.version);
  Summary();
  Put("\nCommunicators... ({:.3f}s)\n=============\n\n", facts_.seconds);
  Table();
  Put("\nErrors\n======\n\n");
  ForEach([this](const std::string& title, const View& view) { Missing(title, view); });
  ForEach([this](const std::string& title, const View& view) { Failure(title, view); });
  Put("Warnings\n========\n\n");
  ForEach([this](const std::string& title, const View& view) { Mismatch(title, view); });
  ForEach([this](const std::string& title, const View& view) { Waiting(title, view); });
  Elsewhere();
  return std::move(text_);
}

// All processes that the daemon knows are on its host.
void TextAnswer::Summary() {
  const json& processes = report_["processes"];
  std::map<int, int> with_ranks;
  int total = 0;
  for (const json& process : processes) {
    const int ranks = process["ranks"];
    ++with_ranks[ranks];
    total += ranks;
  }
  const int nodes = processes.empty() ? 0 : 1;
  Put("Job summary\n===========\n\n");
  if (with_ranks.size() <= 1) {
    Put("  Nodes  Processes         GPUs  Processes     GPUs\n"
        "(total)   per node  per process    (total)  (total)\n"
        "{:7}  {:9}  {:11}  {:9}  {:7}\n",
        nodes, processes.size(), with_ranks.empty() ? 0 : with_ranks.begin()->first,
        processes.size(), total);
    return;
  }
  Put("  Nodes  Processes\n          per node\n{:7}  {:9}\n", nodes, processes.size());
  Put("\n         Processes         GPUs\n                    per process\n");
  std::vector<std::pair<int, int>> common(with_ranks.begin(), with_ranks.end());
  std::stable_sort(common.begin(), common.end(),
                   [](const auto& one, const auto& other) { return one.second > other.second; });
  for (const auto& [ranks, count] : common) Put("         {:9}  {:11}\n", count, ranks);
  Put("\n  Nodes  Processes         GPUs\n(total)    (total)      (total)\n{:7}  {:9}  {:11}\n",
      nodes, processes.size(), total);
}

void TextAnswer::Table() {
  if (groups_.empty()) return Put("No communicator data collected!\n");
  Put("Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
      "    #  in group  per comm  per node  per comm  in group\n");
  for (size_t i = 0; i < groups_.size(); ++i) TableLine(i, groups_[i]);
}

void TextAnswer::TableLine(size_t number, const ViewGroup& group) {
  const View& first = group.views.front();
  int least = INT32_MAX;
  int most = 0;
  std::map<int, int> ranks;  // of processes, in the communicator with most of them
  for (const View& view : group.views) {
    least = std::min(least, view.communicator["ranks_per_host"][0].get<int>());
    most = std::max(most, view.communicator["ranks_per_host"][1].get<int>());
    std::map<int, int> here;
    for (const json& rank : view.communicator["ranks"]) ++here[rank["pid"].get<int>()];
    for (const auto& [process, count] : here) {
      ranks[process] = std::max(ranks[process], count);
    }
  }
  int total = 0;
  for (const auto& [process, count] : ranks) total += count;
  Put("{:5}  {:8}  {:8}  {:>8}  {:8}  {:8}  {:>8}  {:>6}\n", number, group.views.size(),
      first.hosts, least == most ? fmt::format("{}", most) : fmt::format("{}-{}", least, most),
      first.size, total, kStatusNames[first.status], ErrorsText(first.errors));
}

void TextAnswer::Missing(const std::string& title, const View& view) {
  if (!(view.errors & kIncomplete)) return;
  std::vector<int> ranks = view.communicator["missing"];
  if (view.is_broken()) {
    for (const json& rank : view.communicator["gone"]) ranks.push_back(rank);
  }
  Put("{} INCOMPLETE\n  Missing communicator data from {} rank{}\n", title, ranks.size(),
      Plural(ranks.size()));
  if (ranks.size() == 1 || ranks.size() <= kMostNamed || facts_.verbose) {
    Put("  The missing rank{}: {}\n", Plural(ranks.size()), fmt::join(ranks, ", "));
  }
  Put("\n");
}

void TextAnswer::Failure(const std::string& title, const View& view) {
  if (!view.is_broken()) return;
  const json& ranks = view.communicator["ranks"];
  Put("{} ERROR\n  Asynchronous error{} on {} rank{}\n", title, Plural(ranks.size()), ranks.size(),
      Plural(ranks.size()));
  const char* const result = ResultText(view.communicator["result"]);
  if (ranks.size() > 1) Put("  {} ranks reported {}\n", ranks.size(), result);
  if (ranks.size() == 1) {
    Put("  Rank {} reported {} -- {}\n", ranks[0]["rank"].get<int>(), result, PlaceOf(ranks[0]));
  } else if (facts_.verbose || ranks.size() <= kMostNamed) {
    for (const json& rank : ranks) {
      Put("  Rank {} -- {}\n", rank["rank"].get<int>(), PlaceOf(rank));
    }
  }
  Put("  {}\n\n", view.communicator["failure"].get_ref<const std::string&>());
}

void TextAnswer::Mismatch(const std::string& title, const View& view) {
  if (!(view.errors & kMismatch)) return;
  Put("{} MISMATCH\n", title);
  MismatchOfStatus(view);
  for (const char* const collective : kCounted) MismatchOfCounts(view, collective);
}

void TextAnswer::MismatchOfStatus(const View& view) {
  const json& gone = view.communicator["gone"];
  const bool some_left = !gone.empty() && !view.is_broken();
  if (view.by_status.size() + (some_left ? 1 : 0) < 2) return;
  const auto all = static_cast<size_t>(view.size);
  Put("  Communicator ranks have different status\n");
  for (const auto& [status, ranks] : view.by_status) {
    const char* const name = kStatusNames[status];
    if (ranks.size() > 1) Put("  {} ranks have status {}\n", ranks.size(), name);
    if (!AreNamed(ranks.size(), all)) continue;
    for (const json* const rank : ranks) {
      Put("  Rank {}{} -- {}\n", (*rank)["rank"].get<int>(),
          ranks.size() > 1 ? "" : fmt::format(" has status {}", name), PlaceOf(*rank));
    }
  }
  if (some_left && gone.size() > 1) Put("  {} ranks have status NOCOMM\n", gone.size());
  if (some_left && gone.size() == 1) Put("  Rank {} has status NOCOMM\n", gone[0].get<int>());
  Put("\n");
}

void TextAnswer::MismatchOfCounts(const View& view, const char* collective) {
  std::map<uint64_t, std::vector<const json*>> by_count;
  for (const json& rank : view.communicator["ranks"]) {
    by_count[CountOf(rank, collective)].push_back(&rank);
  }
  if (by_count.size() < 2) return;
  std::vector<std::pair<uint64_t, std::vector<const json*>>> common(by_count.rbegin(),
                                                                    by_count.rend());
  std::stable_sort(common.begin(), common.end(), [](const auto& one, const auto& other) {
    return one.second.size() > other.second.size();
  });
  Put("  Communicator ranks have different {} operation counts\n", collective);
  for (const auto& [count, ranks] : common) {
    const std::string done = count == 0 ? "not launched any operations"
                                        : fmt::format("launched up to operation {}", count);
    if (ranks.size() > 1) Put("  {} ranks have {}\n", ranks.size(), done);
    if (!AreNamed(ranks.size(), static_cast<size_t>(view.size))) continue;
    for (const json* const rank : ranks) {
      Put("  Rank {}{} -- {}\n", (*rank)["rank"].get<int>(),
          ranks.size() > 1 ? "" : fmt::format(" has {}", done), PlaceOf(*rank));
    }
  }
  Put("\n");
}

// NCCL's RAS has no word for this: what waits for whom, and why.
void TextAnswer::Waiting(const std::string& title, const View& view) {
  const std::string& stuck = view.communicator["stuck"].get_ref<const std::string&>();
  std::string lines;
  for (const json& operation : view.communicator["waiting"]) {
    const double seconds = operation["for_seconds"];
    if (seconds < 1 && !facts_.verbose) continue;
    const std::vector<int> ranks = operation["missing_ranks"];
    lines += fmt::format("  {} waits since {:.1f} s{}\n",
                         operation["operation"].get_ref<const std::string&>(), seconds,
                         ranks.empty() ? ""
                                       : fmt::format(" for rank{} {}", Plural(ranks.size()),
                                                     fmt::join(ranks, ", ")));
  }
  if (!stuck.empty()) lines += fmt::format("  {}\n", stuck);
  if (!lines.empty()) Put("{} WAITING\n{}\n", title, lines);
}

void TextAnswer::Elsewhere() {
  size_t ranks = 0;
  for (const json& communicator : report_["communicators"])
    ranks += communicator["elsewhere"].size();
  if (ranks > 0) {
    Put("OTHER NODES\n  {} rank{} of these communicators {} on other nodes, whose daemons know "
        "what "
        "they have launched\n\n",
        ranks, Plural(ranks), ranks == 1 ? "is" : "are");
  }
  const size_t not_listed = report_["not_listed"];
  if (not_listed > 0) {
    Put("NOT LISTED\n  {} more communicator{}\n\n", not_listed, Plural(not_listed));
  }
}

// ---------------------------------------------------------------------------------------------
// JSON

/// As NCCL writes it: the order of the fields is that of NCCL's.
using Ordered = nlohmann::ordered_json;

Ordered RankInJson(const View& view, const json& rank) {
  Ordered counts = Ordered::object();
  for (size_t i = 0; i < kCounted.size(); ++i) {
    const uint64_t count = CountOf(rank, kCounted[i]);
    if (i < kCountedByNccl || count > 0) counts[kCounted[i]] = count;
  }
  const bool leaving = rank["leaving"];
  const bool initializes = view.StatusOf(rank) == kInit;
  Ordered status = {{"init_state", initializes ? 7 : 0},
                    {"async_error", view.communicator["result"].get<int>()},
                    {"finalize_called", leaving},
                    {"destroy_flag", leaving},
                    {"abort_flag", rank["aborted"].get<bool>()}};
  return {{"rank", rank["rank"].get<int>()},       {"host", "localhost"},
          {"pid", rank["pid"].get<int>()},         {"cuda_dev", rank["device"].get<int>()},
          {"nvml_dev", rank["device"].get<int>()}, {"status", std::move(status)},
          {"collective_counts", std::move(counts)}};
}

Ordered MissingInJson(int rank, const std::string& host, bool unresponsive, bool dead) {
  return {
      {"rank", rank},   {"host", host},
      {"pid", -1},      {"cuda_dev", -1},
      {"nvml_dev", -1}, {"status", {{"unresponsive", unresponsive}, {"considered_dead", dead}}}};
}

Ordered CommunicatorInJson(const View& view) {
  const json& communicator = view.communicator;
  Ordered ranks = Ordered::array();
  for (const json& rank : communicator["ranks"]) ranks.push_back(RankInJson(view, rank));
  Ordered missing = Ordered::array();
  for (const json& rank : communicator["elsewhere"]) {
    missing.push_back(
        MissingInJson(rank["rank"], fmt::format("node-{}", rank["host"].get<int>()), false, false));
  }
  for (const json& rank : communicator["gone"]) {
    missing.push_back(MissingInJson(rank, "unknown", view.is_broken(), view.is_broken()));
  }
  for (const json& rank : communicator["missing"]) {
    missing.push_back(MissingInJson(rank, "unknown", true, false));
  }
  Ordered waiting = Ordered::array();
  for (const json& one : communicator["waiting"]) {
    waiting.push_back({{"operation", one["operation"]},
                       {"for_seconds", one["for_seconds"]},
                       {"missing_ranks", one["missing_ranks"]}});
  }
  const std::string& job = communicator["job"].get_ref<const std::string&>();
  const std::string& hash = communicator["hash"].get_ref<const std::string&>();
  return {{"hash", fmt::format("0x{}", hash.empty() ? "0" : hash)},
          {"secondary_hash", job.size() == 32
                                 ? fmt::format("0x{}:0x{}", job.substr(0, 16), job.substr(16))
                                 : std::string("0x0:0x0")},
          {"size", view.size},
          {"ranks_count", ranks.size()},
          {"missing_ranks_count", missing.size()},
          {"ranks", std::move(ranks)},
          {"missing_ranks", std::move(missing)},
          {"harmonaize",
           {{"name", communicator["name"]},
            {"status", kStatusNames[view.status]},
            {"errors", ErrorsText(view.errors)},
            {"failure", communicator["failure"]},
            {"waiting", std::move(waiting)},
            {"stuck", communicator["stuck"]}}}};
}

}  // namespace

std::string RasStatusText(const json& report, const RasAnswerFacts& facts) {
  return TextAnswer(report, facts).Write();
}

std::string RasStatusJson(const json& report, const RasAnswerFacts& facts) {
  Ordered communicators = Ordered::array();
  for (const json& communicator : report["communicators"]) {
    communicators.push_back(CommunicatorInJson(View(communicator)));
  }
  const Ordered answer = {{"nccl_version", "Harmonaize " + facts.version},
                          {"cuda_runtime_version", 0},
                          {"cuda_driver_version", 0},
                          {"timestamp", facts.time},
                          {"communicators_count", communicators.size()},
                          {"communicators", std::move(communicators)},
                          {"ras", {{"collection_time_sec", facts.seconds}, {"timeouts_count", 0}}}};
  return JsonText(answer, 2) + "\n";
}

}  // namespace harmonaize::daemon
