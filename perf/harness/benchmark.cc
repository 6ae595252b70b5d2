#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "include/harmonaize.h"
#include "perf/harness/bootstrap.h"
#include "perf/harness/collective_spec.h"
#include "perf/harness/json_report.h"
#include "perf/harness/worker.h"

namespace harmonaize::perf {
namespace {

std::string HostName() {
  char name[256] = "?";
  gethostname(name, sizeof(name) - 1);
  // Only the first part of the name counts, as nccl-tests prints it.
  if (char* dot = std::strchr(name, '.'); dot != nullptr) *dot = '\0';
  return name;
}

// One run of a benchmark in this process.
class Benchmark {
 public:
  Benchmark(const CollectiveSpec& spec, const Options& options) : spec_(spec), options_(options) {
    record_.program = spec.program;
    record_.options = options;
    record_.start_time = Timestamp();
  }

  Status Run(const std::vector<std::string>& arguments);
  int failed() const { return record_.summary.failed; }
  bool speaks() const { return record_.launch.process == 0; }
  /// Returns whether a row of the table has been begun and not ended.
  bool in_row() const { return in_row_; }

 private:
  Status Connect();
  Status ExchangeRankInfo();
  Status CreateCommunicators();
  Status InitRanks(int first_thread, int threads);
  Status RunThreads();
  Status RunThread(int thread);
  Status Sweep(Worker* worker, bool speaks);
  Status SweepSizes(Worker* worker, const Work& work, bool speaks);
  Status MeasureRow(Worker* worker, const Work& work, bool speaks);
  Status DestroyCommunicators();
  void AbortCommunicators();
  int total_ranks() const { return record_.launch.processes * options_.ranks_per_process(); }

  const CollectiveSpec& spec_;
  const Options& options_;
  RunRecord record_;
  bool in_row_ = false;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::unique_ptr<Team> team_;
  std::vector<std::vector<Rank>> ranks_;  // by thread
  std::unique_ptr<Watchdog> watchdog_;
  ncclUniqueId id_{};
};

Status Benchmark::Connect() {
  HZ_ASSIGN_OR_RETURN(Launch launch,
                      ReadLaunch([](const char* name) { return std::getenv(name); }, getppid()));
  record_.launch = launch;
  if (launch.processes > kMostRanks / options_.ranks_per_process()) {
    return InvalidArgument("{} processes x -t {} x -g {}: more than {} ranks", launch.processes,
                           options_.threads, options_.ranks_per_thread, kMostRanks);
  }
  if (spec_.rooted && options_.root >= total_ranks()) {
    return InvalidArgument("-r {}: there are {} ranks, numbered from 0", options_.root,
                           total_ranks());
  }
  Bootstrap::Timeouts timeouts;
  HZ_ASSIGN_OR_RETURN(bootstrap_, Bootstrap::Connect(launch, timeouts));
  team_ = std::make_unique<Team>(bootstrap_.get(), options_.threads);
  return Status::Ok();
}

Status Benchmark::ExchangeRankInfo() {
  const std::string mine =
      fmt::format("{} {} {}", getpid(), record_.launch.local_process, HostName());
  HZ_ASSIGN_OR_RETURN(std::vector<std::string> all, bootstrap_->AllGather(mine));
  for (size_t process = 0; process < all.size(); ++process) {
    int pid = 0;
    int local = 0;
    char host[256] = "?";
    std::sscanf(all[process].c_str(), "%d %d %255s", &pid, &local, host);
    const int each = options_.ranks_per_process();
    for (int i = 0; i < each; ++i) {
      record_.ranks.push_back({static_cast<int>(process) * each + i, pid, local * each + i, host});
    }
  }
  return Status::Ok();
}

Status Benchmark::InitRanks(int first_thread, int threads) {
  HZ_RETURN_IF_ERROR(NcclStatus(ncclGroupStart(), nullptr, "ncclGroupStart"));
  for (int thread = first_thread; thread < first_thread + threads; ++thread) {
    for (Rank& rank : ranks_[static_cast<size_t>(thread)]) {
      HZ_RETURN_IF_ERROR(NcclStatus(ncclCommInitRank(&rank.comm, total_ranks(), id_, rank.rank),
                                    nullptr, "ncclCommInitRank"));
    }
  }
  return NcclStatus(ncclGroupEnd(), nullptr, "ncclCommInitRank");
}

Status Benchmark::CreateCommunicators() {
  Status made;
  if (record_.launch.process == 0) {
    made = NcclStatus(ncclGetUniqueId(&id_), nullptr, "ncclGetUniqueId");
  }
  // An empty id tells the others to leave; process 0 reports the reason once.
  const std::string_view mine(id_.internal, made.ok() ? sizeof(id_.internal) : 0);
  Result<std::vector<std::string>> all = bootstrap_->AllGather(mine);
  HZ_RETURN_IF_ERROR(made);
  if (!all.ok()) return all.status();
  if (all->front().size() != sizeof(id_.internal)) {
    return RemoteError("process 0 could not make a communicator");
  }
  std::memcpy(id_.internal, all->front().data(), sizeof(id_.internal));

  ranks_.resize(static_cast<size_t>(options_.threads));
  int next = record_.launch.process * options_.ranks_per_process();
  for (std::vector<Rank>& ranks : ranks_) {
    ranks.resize(static_cast<size_t>(options_.ranks_per_thread));
    for (Rank& rank : ranks) rank.rank = next++;
  }
  if (!options_.parallel_init) return InitRanks(0, options_.threads);

  std::vector<Status> statuses(ranks_.size());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < options_.threads; ++thread) {
    threads.emplace_back([this, thread, &statuses] {
      statuses[static_cast<size_t>(thread)] = InitRanks(thread, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) HZ_RETURN_IF_ERROR(status);
  return Status::Ok();
}

Status Benchmark::DestroyCommunicators() {
  // All are destroyed in one group, because destroying may wait for the other ranks of this
  // process.
  HZ_RETURN_IF_ERROR(NcclStatus(ncclGroupStart(), nullptr, "ncclGroupStart"));
  for (std::vector<Rank>& ranks : ranks_) {
    for (Rank& rank : ranks) {
      HZ_RETURN_IF_ERROR(NcclStatus(ncclCommDestroy(rank.comm), nullptr, "ncclCommDestroy"));
    }
  }
  return NcclStatus(ncclGroupEnd(), nullptr, "ncclCommDestroy");
}

void Benchmark::AbortCommunicators() {
  // The watchdog may still be revoking.
  watchdog_.reset();
  // Buffers may be freed only once nothing works on them any more, which an abort ensures.
  for (std::vector<Rank>& ranks : ranks_) {
    for (Rank& rank : ranks) ncclCommAbort(rank.comm);
  }
}

Status Benchmark::MeasureRow(Worker* worker, const Work& work, bool speaks) {
  Row row{work.larger_bytes(),
          work.layout.count,
          work.type->name,
          OperatorName(work.op),
          work.root,
          {},
          {}};
  if (speaks) {
    PrintRowStart(row);
    in_row_ = true;
  }
  for (const bool in_place : {false, true}) {
    HZ_ASSIGN_OR_RETURN(Measurement measurement, worker->Measure(work, in_place));
    (in_place ? row.in_place : row.out_of_place) = measurement;
    if (speaks) PrintMeasurement(measurement);
  }
  if (!speaks) return Status::Ok();
  PrintRowEnd();
  in_row_ = false;
  record_.summary.Add(row.out_of_place);
  record_.summary.Add(row.in_place);
  record_.rows.push_back(row);
  return Status::Ok();
}

Status Benchmark::SweepSizes(Worker* worker, const Work& work, bool speaks) {
  for (uint64_t bytes = options_.min_bytes; bytes <= options_.max_bytes;) {
    Work sized = work;
    sized.layout = spec_.layout(bytes / work.type->size, work.type->size, total_ranks());
    HZ_RETURN_IF_ERROR(MeasureRow(worker, sized, speaks));
    const uint64_t next =
        options_.step_factor > 1 ? bytes * options_.step_factor : bytes + options_.step_bytes;
    if (next <= bytes) break;  // one size only
    bytes = next;
  }
  return Status::Ok();
}

Status Benchmark::Sweep(Worker* worker, bool speaks) {
  const std::vector<Operator> operators =
      spec_.reduces ? options_.operators : std::vector<Operator>{Operator::kNone};
  const bool all_roots = spec_.rooted && options_.root < 0;
  const int first_root = !spec_.rooted ? -1 : all_roots ? 0 : options_.root;
  const int last_root = all_roots ? total_ranks() - 1 : first_root;
  for (const TypeInfo* type : options_.types) {
    for (const Operator op : operators) {
      HZ_RETURN_IF_ERROR(worker->CreateOperators(*type, op));
      for (int root = first_root; root <= last_root; ++root) {
        HZ_RETURN_IF_ERROR(SweepSizes(worker, Work{type, op, root, {}}, speaks));
      }
      HZ_RETURN_IF_ERROR(worker->DestroyOperators(op));
    }
  }
  return Status::Ok();
}

Status Benchmark::RunThread(int thread) {
  Worker worker(spec_, options_, thread, total_ranks(), &ranks_[static_cast<size_t>(thread)],
                team_.get(), watchdog_.get());
  const bool main_thread = speaks() && thread == 0;
  HZ_RETURN_IF_ERROR(worker.Prepare());
  HZ_RETURN_IF_ERROR(team_->Barrier(thread));
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    HZ_RETURN_IF_ERROR(Sweep(&worker, main_thread));
  }
  HZ_RETURN_IF_ERROR(team_->Barrier(thread));
  return worker.Release();
}

Status Benchmark::RunThreads() {
  std::vector<Status> statuses(ranks_.size());
  const auto body = [this, &statuses](int thread) {
    Status& status = statuses[static_cast<size_t>(thread)];
    status = RunThread(thread);
    if (status.ok()) return;
    team_->Fail(status);
    // Threads that wait in a collective for this one return only because of this. The handles stay
    // valid for them.
    for (Rank& rank : ranks_[static_cast<size_t>(thread)]) {
      ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT);
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 1; thread < options_.threads; ++thread) threads.emplace_back(body, thread);
  body(0);
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) HZ_RETURN_IF_ERROR(status);
  return Status::Ok();
}

Status Benchmark::Run(const std::vector<std::string>& arguments) {
  record_.arguments = arguments;
  HZ_RETURN_IF_ERROR(Connect());
  HZ_RETURN_IF_ERROR(ExchangeRankInfo());
  record_.versions.harmonaize = hzGetVersion();
  record_.versions.headers = NCCL_VERSION_CODE;
  ncclGetVersion(&record_.versions.library);
  if (speaks()) {
    PrintHeader(spec_.program, options_, record_.versions, record_.launch, record_.ranks);
  }
  HZ_RETURN_IF_ERROR(CreateCommunicators());
  std::vector<ncclComm_t> comms;
  for (const std::vector<Rank>& ranks : ranks_) {
    for (const Rank& rank : ranks) comms.push_back(rank.comm);
  }
  watchdog_ = std::make_unique<Watchdog>(options_.timeout_s, comms);
  if (speaks()) PrintTableHead(options_);
  const Status status = RunThreads();
  if (!status.ok()) AbortCommunicators();
  if (speaks() && status.ok()) PrintFooter(spec_.program, record_.summary);
  if (speaks() && !options_.output_file.empty()) {
    record_.end_time = Timestamp();
    record_.error = status.ok() ? "" : status.message();
    const Status written = WriteJson(record_, options_.output_file);
    HZ_RETURN_IF_ERROR(status);
    HZ_RETURN_IF_ERROR(written);
  }
  HZ_RETURN_IF_ERROR(status);
  return DestroyCommunicators();
}

}  // namespace

int RunBenchmark(const CollectiveSpec& spec, int argc, char** argv) {
  const ParsedOptions parsed = ParseOptions(spec.program, spec.reduces, spec.rooted, argc, argv);
  if (!parsed.run) return parsed.exit_code;
  Benchmark benchmark(spec, parsed.options);
  const Status status = benchmark.Run(std::vector<std::string>(argv, argv + argc));
  if (!status.ok()) {
    std::fflush(stdout);
    fmt::print(stderr, "{}{}: {}\n", benchmark.in_row() ? "\n" : "", spec.program,
               status.message());
    return 1;
  }
  return benchmark.failed() > 0 && benchmark.speaks() ? 1 : 0;
}

}  // namespace harmonaize::perf
