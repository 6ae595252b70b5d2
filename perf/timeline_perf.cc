// Shows a job's speed over time: repeats one collective, and counts the operations of each
// interval. For jobs whose network changes while they run, and for several jobs beside each other.

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "perf/harness/bootstrap.h"
#include "perf/harness/launch.h"
#include "src/base/wall_clock.h"

namespace harmonaize::perf {
namespace {

using Clock = std::chrono::steady_clock;

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast };

struct Options {
  Kind kind = Kind::kAllReduce;
  double seconds = 10;
  double interval = 0.25;
  double compute = 0;
  uint64_t communicators = 1;
  int groups = 1;
  std::string until;
  bool json = false;
  std::string name = "job";
};

void Check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(1);
}

template <typename Value>
Value OrExit(Result<Value> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "timeline_perf: %s\n", result.status().message().c_str());
  std::exit(1);
}

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One rank: its buffers, its input and its expected output.
///
/// A full check of every element would compete with the operation for the processors. So places
/// that are spread over the buffer get new values before each operation and are checked after it.
/// Place 0 of each block tells the ranks whether rank 0 wants to go on, so all stop after the same
/// operation, and nothing else has to be exchanged.
class Rank {
 public:
  /// `comms` are of the same ranks; operations use them in turn.
  Rank(const Options& options, int rank, int ranks, size_t count, std::vector<ncclComm_t> comms)
      : kind_(options.kind), rank_(rank), ranks_(ranks), count_(count), comms_(std::move(comms)) {
    const auto all = static_cast<size_t>(ranks);
    send_ = Allocate(kind_ == Kind::kReduceScatter ? count * all : count);
    receive_ = Allocate(kind_ == Kind::kAllGather ? count * all : count);
  }

  /// Runs the `number`-th operation. Returns false when it is the last.
  bool Run(uint64_t number, bool go_on) {
    const int blocks = kind_ == Kind::kReduceScatter ? ranks_ : 1;
    for (int block = 0; block < blocks; ++block) {
      float* const mine = send_ + static_cast<size_t>(block) * count_;
      mine[0] = rank_ == 0 && !go_on ? 1 : 0;
      ForEachPlace([&](size_t place) { mine[place] = Value(number, place, rank_); });
    }
    Check(Call(comms_[number % comms_.size()]), "the collective");
    CountWrong(number);
    return receive_[0] == 0;
  }

  uint64_t wrong() const { return wrong_; }

 private:
  // Number of elements that are filled and checked, spread evenly over the buffer.
  static constexpr size_t kPlaces = 61;

  float* Allocate(size_t count) {
    void* memory = nullptr;
    void* handle = nullptr;
    Check(ncclMemAlloc(&memory, count * sizeof(float)), "ncclMemAlloc");
    std::memset(memory, 0, count * sizeof(float));
    Check(ncclCommRegister(comms_[0], memory, count * sizeof(float), &handle), "ncclCommRegister");
    return static_cast<float*>(memory);
  }

  ncclResult_t Call(ncclComm_t comm) {
    switch (kind_) {
      case Kind::kAllReduce:
        return ncclAllReduce(send_, receive_, count_, ncclFloat, ncclSum, comm, nullptr);
      case Kind::kAllGather:
        return ncclAllGather(send_, receive_, count_, ncclFloat, comm, nullptr);
      case Kind::kReduceScatter:
        return ncclReduceScatter(send_, receive_, count_, ncclFloat, ncclSum, comm, nullptr);
      case Kind::kBroadcast:
        return ncclBroadcast(send_, receive_, count_, ncclFloat, 0, comm, nullptr);
    }
    return ncclInternalError;
  }

  template <typename Act>
  void ForEachPlace(Act act) {
    for (size_t i = 1; i <= kPlaces; ++i) act(1 + (count_ - 2) * i / kPlaces);
  }

  static float Value(uint64_t number, size_t place, int rank) {
    return static_cast<float>((number * 31 + place) % 97 + 1) * static_cast<float>(rank + 1);
  }

  float Expected(uint64_t number, size_t place, int block) const {
    switch (kind_) {
      case Kind::kAllGather: return Value(number, place, block);
      case Kind::kBroadcast: return Value(number, place, 0);
      default: break;
    }
    return Value(number, place, 0) * static_cast<float>(ranks_ * (ranks_ + 1) / 2);
  }

  void CountWrong(uint64_t number) {
    const int blocks = kind_ == Kind::kAllGather ? ranks_ : 1;
    for (int block = 0; block < blocks; ++block) {
      const float* const got = receive_ + static_cast<size_t>(block) * count_;
      ForEachPlace([&](size_t place) {
        if (got[place] != Expected(number, place, block)) ++wrong_;
      });
    }
  }

  const Kind kind_;
  const int rank_;
  const int ranks_;
  const size_t count_;
  const std::vector<ncclComm_t> comms_;
  float* send_ = nullptr;
  float* receive_ = nullptr;
  uint64_t wrong_ = 0;
};

/// Prints one line for each interval, on rank 0.
class Timeline {
 public:
  Timeline(const Options& options, double bytes) : options_(options), bytes_(bytes) {
    if (!options_.json) {
      std::printf("#%9s %16s %8s %12s %12s %12s\n", "seconds", "unix", "ops", "MB/s", "mean us",
                  "longest us");
    }
  }

  void Note(double now, double took) {
    ++operations_;
    busy_ += took;
    longest_ = std::max(longest_, took);
    if (now - began_ >= options_.interval) Print(now);
  }

  void Print(double now) {
    if (operations_ == 0) return;
    const double rate = static_cast<double>(operations_) * bytes_ / (now - began_);
    const double mean = busy_ / static_cast<double>(operations_);
    if (options_.json) {
      std::printf(
          "{\"name\": \"%s\", \"seconds\": %.4f, \"unix_seconds\": %.4f, \"operations\": %llu, "
          "\"interval_seconds\": %.6f, \"bytes_per_second\": %.0f, \"mean_us\": %.1f, "
          "\"longest_us\": %.1f}\n",
          options_.name.c_str(), now, UnixSeconds(), static_cast<unsigned long long>(operations_),
          now - began_, rate, mean * 1e6, longest_ * 1e6);
    } else {
      std::printf("%10.3f %16.3f %8llu %12.2f %12.1f %12.1f\n", now, UnixSeconds(),
                  static_cast<unsigned long long>(operations_), rate * 1e-6, mean * 1e6,
                  longest_ * 1e6);
    }
    std::fflush(stdout);
    began_ = now;
    operations_ = 0;
    busy_ = 0;
    longest_ = 0;
  }

 private:
  const Options& options_;
  const double bytes_;
  double began_ = 0;
  uint64_t operations_ = 0;
  double busy_ = 0;
  double longest_ = 0;
};

bool WantsMore(const Options& options, double seconds) {
  if (seconds >= options.seconds) return false;
  return options.until.empty() || access(options.until.c_str(), F_OK) != 0;
}

/// The ranks of this process's group.
struct Group {
  int rank = 0;
  int ranks = 0;
  ncclComm_t everybody = nullptr;   ///< Communicator of all groups, if there are several.
  std::vector<ncclComm_t> comms{};  ///< Communicators of the group.
};

Group Join(const Options& options, const Launch& launch, const ncclUniqueId& id) {
  Group group{.rank = launch.process / options.groups, .comms = {nullptr}};
  ncclComm_t* const world = options.groups > 1 ? &group.everybody : &group.comms[0];
  Check(ncclCommInitRank(world, launch.processes, id, launch.process), "ncclCommInitRank");
  if (options.groups > 1) {
    const int mine = launch.process % options.groups;
    Check(ncclCommSplit(*world, mine, launch.process, &group.comms[0], nullptr), "ncclCommSplit");
  }
  Check(ncclCommCount(group.comms[0], &group.ranks), "ncclCommCount");
  group.comms.resize(options.communicators, nullptr);
  for (size_t i = 1; i < group.comms.size(); ++i) {
    Check(ncclCommSplit(group.comms[0], 0, group.rank, &group.comms[i], nullptr), "ncclCommSplit");
  }
  return group;
}

int Main(const Options& options, size_t bytes) {
  const Launch launch = OrExit(ReadLaunch(
      [](const char* name) { return static_cast<const char*>(std::getenv(name)); }, getppid()));
  const std::unique_ptr<Bootstrap> bootstrap = OrExit(Bootstrap::Connect(launch, {}));
  ncclUniqueId id{};
  if (launch.process == 0) Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::vector<std::string> ids =
      OrExit(bootstrap->AllGather({reinterpret_cast<const char*>(&id), sizeof id}));
  std::memcpy(&id, ids[0].data(), sizeof id);
  const Group group = Join(options, launch, id);
  const size_t count = std::max<size_t>(bytes / sizeof(float), 64);
  Rank rank(options, group.rank, group.ranks, count, group.comms);
  Timeline timeline(options, static_cast<double>(count * sizeof(float)));
  const Clock::time_point begin = Clock::now();
  for (uint64_t number = 0;; ++number) {
    const double before = Since(begin);
    const bool go_on = rank.Run(number, WantsMore(options, before));
    const double now = Since(begin);
    if (launch.process == 0) timeline.Note(now, now - before);
    if (!go_on) break;
    // Each communicator first runs one operation, so that none is without a plan.
    if (options.compute > 0 && number + 1 >= options.communicators)
      std::this_thread::sleep_for(std::chrono::duration<double>(options.compute));
  }
  if (launch.process == 0) timeline.Print(Since(begin));
  for (const ncclComm_t comm : group.comms) Check(ncclCommDestroy(comm), "ncclCommDestroy");
  if (group.everybody != nullptr) Check(ncclCommDestroy(group.everybody), "ncclCommDestroy");
  const std::vector<std::string> wrong = OrExit(bootstrap->AllGather(std::to_string(rank.wrong())));
  uint64_t all = 0;
  for (const std::string& one : wrong) all += std::stoull(one);
  if (launch.process == 0 && all > 0)
    std::printf("# WRONG: %llu elements\n", static_cast<unsigned long long>(all));
  return all == 0 ? 0 : 1;
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  using harmonaize::perf::Kind;
  harmonaize::perf::Options options;
  CLI::App app(
      "Runs one collective again and again and tells what was done in each interval, for jobs "
      "whose "
      "network changes while they run. Started by harmonaize run, fabric run, torchrun or mpirun; "
      "rank 0 prints. MB/s are a rank's buffer by time (algbw).",
      "timeline_perf");
  const std::map<std::string, Kind> kinds = {{"all_reduce", Kind::kAllReduce},
                                             {"all_gather", Kind::kAllGather},
                                             {"reduce_scatter", Kind::kReduceScatter},
                                             {"broadcast", Kind::kBroadcast}};
  uint64_t bytes = uint64_t{8} << 20;
  app.add_option("-k,--collective", options.kind,
                 "all_reduce, all_gather, reduce_scatter, broadcast")
      ->transform(CLI::CheckedTransformer(kinds, CLI::ignore_case));
  app.add_option("-b,--bytes", bytes, "of a rank's smaller buffer, with suffix K, M or G; 8M")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("-s,--seconds", options.seconds, "for how long")->capture_default_str();
  app.add_option("-i,--interval", options.interval, "of a line of output, in seconds")
      ->capture_default_str();
  app.add_option("-c,--compute", options.compute,
                 "seconds of pause between operations, as a job has that computes meanwhile")
      ->capture_default_str();
  app.add_option("-n,--communicators", options.communicators,
                 "of the same ranks, which the operations go by in turn")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option(
         "-g,--groups", options.groups,
         "that the ranks are dealt out to, each with communicators of its own, as the stages "
         "of a pipeline have; rank 0 tells of its own")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--until", options.until, "end as soon as this file is there");
  app.add_option("--name", options.name, "in JSON, to tell jobs apart")->capture_default_str();
  app.add_flag("--json", options.json, "one line of JSON for each interval");
  CLI11_PARSE(app, argc, argv);
  return harmonaize::perf::Main(options, bytes);
}
