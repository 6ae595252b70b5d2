// Asks NCCL's tuner plugin as NCCL does (version 6 of the interface), beside a daemon. It measures
// what an answer takes, or follows how answers change while links do:
//
//     fabric run --no-preload --no-prefix -- nccl_tuner_perf --library LIBRARY
//     fabric run --no-preload --no-prefix -- nccl_tuner_perf --library LIBRARY --follow -s 60
//
// Each rank is a process. All of them ask the same questions in the same order, as ranks do that
// launch the same collectives.

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "plugins/nccl-tuner/tuner_abi.h"
#include "src/base/clock.h"
#include "src/base/wall_clock.h"
#include "src/ipc/tuning_segment.h"

namespace harmonaize {
namespace {

using nccl_abi::TunerCosts;
using nccl_abi::TunerV6;

constexpr char kUsage[] =
    R"(Usage: nccl_tuner_perf --library FILE [options]

Asks NCCL's tuner plugin what NCCL would ask for collectives of several kinds and sizes.

  --library FILE       libnccl-tuner-harmonaize.so
  --communicator N     NCCL's hash of the communicator's id; the same at all ranks (default 7)
  --ranks N            its ranks (default: WORLD_SIZE)
  --hosts N            its hosts (default: as many as ranks)
  -s SECONDS           how long to ask (default 5)
  --follow             print a line of JSON for each answer that differs from the last one to the
                       same question, instead of times
  --pause US           microseconds between two calls of --follow (default 500)
  --until FILE         with --follow: end as soon as this file exists
  --json               print times as JSON

The other ranks have to be there, or the daemon has no advice, and answers are NCCL's own.
)";

struct Options {
  std::string library;
  uint64_t communicator = 7;
  size_t ranks = 1;
  size_t hosts = 0;
  double seconds = 5;
  bool follow = false;
  int pause_us = 500;
  std::string until;
  bool json = false;
};

[[noreturn]] void Fail(const std::string& why) {
  fmt::print(stderr, "nccl_tuner_perf: {}\n", why);
  std::exit(2);
}

const char* Environment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

Options Parse(int count, char** words) {
  Options options;
  options.ranks = std::strtoul(Environment("WORLD_SIZE", "1"), nullptr, 10);
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (++i == count) Fail(fmt::format("{} needs a value; see --help", word));
      return words[i];
    };
    if (word == "-h" || word == "--help") {
      fmt::print("{}", kUsage);
      std::exit(0);
    }
    if (word == "--library")
      options.library = value();
    else if (word == "--communicator")
      options.communicator = std::stoull(value(), nullptr, 0);
    else if (word == "--ranks")
      options.ranks = std::stoul(value());
    else if (word == "--hosts")
      options.hosts = std::stoul(value());
    else if (word == "-s")
      options.seconds = std::stod(value());
    else if (word == "--follow")
      options.follow = true;
    else if (word == "--pause")
      options.pause_us = std::stoi(value());
    else if (word == "--until")
      options.until = value();
    else if (word == "--json")
      options.json = true;
    else
      Fail(fmt::format("unknown option '{}'; see --help", word));
  }
  if (options.library.empty()) Fail("--library is missing; see --help");
  if (options.hosts == 0) options.hosts = options.ranks;
  return options;
}

/// What NCCL asks about: all collectives at all sizes, in turn.
struct Question {
  int function = 0;
  size_t bytes = 0;
};
constexpr size_t kQuestions = size_t{kTunedFunctions} * kTunedSizes;
Question QuestionOf(uint64_t call) {
  const auto number = static_cast<int>(call % kQuestions);
  return {number / kTunedSizes, kLeastTunedBytes << (2 * (number % kTunedSizes))};
}

/// A cost table as NCCL fills it: predicted microseconds of a network of 100 MB/s.
struct Costs {
  float microseconds[kTunedAlgorithms][kTunedProtocols];
};
Costs CostsOf(const Question& question) {
  constexpr std::array<float, kTunedProtocols> kLatency = {60, 90, 140};
  constexpr std::array<float, kTunedProtocols> kShare = {2, 128.0F / 120, 1};
  constexpr float kBytesPerMicrosecond = 100;
  Costs costs;
  for (int algorithm = 0; algorithm < kTunedAlgorithms; ++algorithm) {
    const bool of_tree = algorithm == kNcclTree && question.function == kNcclAllReduce;
    const bool of_pat = algorithm == kNcclPat && (question.function == kNcclAllGather ||
                                                  question.function == kNcclReduceScatter);
    // A ring has more turns, and less that it cannot overlap.
    const float turns = algorithm == kNcclRing ? 1.5F : 1;
    const float traffic = algorithm == kNcclRing ? 1 : 1.08F;
    for (size_t protocol = 0; protocol < kTunedProtocols; ++protocol) {
      costs.microseconds[algorithm][protocol] =
          algorithm == kNcclRing || of_tree || of_pat
              ? turns * kLatency[protocol] + traffic * kShare[protocol] *
                                                 static_cast<float>(question.bytes) /
                                                 kBytesPerMicrosecond
              : -1;
    }
  }
  return costs;
}

struct Answer {
  int algorithm = -1;
  int protocol = -1;
  int channels = 0;
  bool operator==(const Answer&) const = default;
};

class Communicator {
 public:
  explicit Communicator(const Options& options) {
    void* const opened = dlopen(options.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) Fail(dlerror());
    table_ = static_cast<TunerV6*>(dlsym(opened, "ncclTunerPlugin_v6"));
    if (table_ == nullptr) Fail(dlerror());
    table_->init(&context_, options.communicator, options.ranks, options.hosts, nullptr, nullptr,
                 nullptr);
  }
  ~Communicator() { table_->finalize(context_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  bool advised() const { return context_ != nullptr; }
  /// Asks the next question of all.
  int Ask(Costs* costs, const Question& question) {
    int channels = 0;
    table_->get_costs(context_, question.function, question.bytes, 1,
                      reinterpret_cast<TunerCosts>(costs->microseconds), kTunedAlgorithms,
                      kTunedProtocols, 0, &channels);
    return channels;
  }
  /// Asks it, and takes the least cost, as NCCL does.
  Answer Choose(const Question& question) {
    Costs costs = CostsOf(question);
    Answer answer;
    answer.channels = Ask(&costs, question);
    float least = 0;
    for (int algorithm = 0; algorithm < kTunedAlgorithms; ++algorithm) {
      for (int protocol = 0; protocol < kTunedProtocols; ++protocol) {
        const float cost = costs.microseconds[algorithm][protocol];
        if (cost < 0 || (answer.algorithm >= 0 && cost >= least)) continue;
        least = cost;
        answer.algorithm = algorithm;
        answer.protocol = protocol;
      }
    }
    return answer;
  }

 private:
  TunerV6* table_ = nullptr;
  void* context_ = nullptr;
};

void Follow(const Options& options, Communicator* communicator) {
  const char* const rank = Environment("RANK", "0");
  std::vector<Answer> last(kQuestions);
  const uint64_t end = MonotonicNanoseconds() + static_cast<uint64_t>(options.seconds * 1e9);
  uint64_t call = 0;
  for (; MonotonicNanoseconds() < end; ++call) {
    const Answer answer = communicator->Choose(QuestionOf(call));
    Answer& before = last[call % kQuestions];
    if (answer != before) {
      fmt::print(
          R"({{"rank": {}, "call": {}, "algorithm": {}, "protocol": {}, "channels": {}, "at": {:.3f}}})"
          "\n",
          rank, call, answer.algorithm, answer.protocol, answer.channels, UnixSeconds());
      std::fflush(stdout);
      before = answer;
    }
    if (!options.until.empty() && call % kQuestions == 0 &&
        access(options.until.c_str(), F_OK) == 0) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(options.pause_us));
  }
  fmt::print(R"({{"rank": {}, "calls": {}, "advised": {}}})"
             "\n",
             rank, call, communicator->advised());
}

void Measure(const Options& options, Communicator* communicator) {
  std::vector<uint64_t> times;
  const uint64_t end = MonotonicNanoseconds() + static_cast<uint64_t>(options.seconds * 1e9);
  uint64_t first = 0;
  // Most of them fit: an answer takes some tens of nanoseconds, and reading the clock as much.
  constexpr size_t kMostTimes = 20'000'000;
  for (uint64_t call = 0; times.size() < kMostTimes; ++call) {
    const Question question = QuestionOf(call);
    Costs costs = CostsOf(question);
    const uint64_t begin = MonotonicNanoseconds();
    communicator->Ask(&costs, question);
    const uint64_t done = MonotonicNanoseconds();
    if (call == 0) first = done - begin;
    times.push_back(done - begin);
    if (done >= end) break;
  }
  std::sort(times.begin(), times.end());
  const auto at = [&times](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  const char* const rank = Environment("RANK", "0");
  if (options.json) {
    fmt::print(
        R"({{"rank": {}, "advised": {}, "answers": {}, "first_ns": {}, "median_ns": {}, "p99_ns": {}, "p9999_ns": {}, "longest_ns": {}}})"
        "\n",
        rank, communicator->advised(), times.size(), first, at(0.5), at(0.99), at(0.9999),
        times.back());
    return;
  }
  fmt::print(
      "rank {}: {} answers {}, with the clock's time: the first {} ns, median {} ns, 99% {} ns, "
      "99.99% {} ns, longest {} ns\n",
      rank, times.size(), communicator->advised() ? "advised by the daemon" : "of NCCL's own",
      first, at(0.5), at(0.99), at(0.9999), times.back());
}

}  // namespace
}  // namespace harmonaize

int main(int count, char** words) {
  const harmonaize::Options options = harmonaize::Parse(count, words);
  harmonaize::Communicator communicator(options);
  if (options.follow) {
    harmonaize::Follow(options, &communicator);
  } else {
    harmonaize::Measure(options, &communicator);
  }
  return 0;
}
