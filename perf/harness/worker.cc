#include "perf/harness/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "include/harmonaize.h"

namespace harmonaize::perf {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

ncclRedOp_t BuiltInOperator(Operator op) {
  switch (op) {
    case Operator::kProd: return ncclProd;
    case Operator::kMax: return ncclMax;
    case Operator::kMin: return ncclMin;
    case Operator::kAvg: return ncclAvg;
    default: return ncclSum;
  }
}

}  // namespace

Worker::Worker(const CollectiveSpec& spec, const Options& options, int thread, int total_ranks,
               std::vector<Rank>* ranks, Team* team, Watchdog* watchdog)
    : spec_(spec),
      options_(options),
      thread_(thread),
      total_ranks_(total_ranks),
      ranks_(*ranks),
      team_(*team),
      watchdog_(*watchdog) {}

Status Worker::Explain(ncclResult_t result, ncclComm_t comm, const char* call) const {
  if (result == ncclSuccess) return Status::Ok();
  if (watchdog_.fired()) return RemoteError("{}: timed out, see -T", call);
  return NcclStatus(result, comm, call);
}

Status Worker::Prepare() {
  for (Rank& rank : ranks_) {
    if (!options_.null_stream) {
      HZ_RETURN_IF_ERROR(Explain(hzStreamCreate(&rank.stream), rank.comm, "hzStreamCreate"));
    }
    HZ_RETURN_IF_ERROR(rank.send.Allocate(options_.memory, options_.max_bytes));
    HZ_RETURN_IF_ERROR(rank.recv.Allocate(options_.memory, options_.max_bytes));
  }
  for (Buffer Rank::*buffer : {&Rank::send, &Rank::recv}) {
    HZ_RETURN_IF_ERROR(Explain(ncclGroupStart(), nullptr, "ncclGroupStart"));
    for (Rank& rank : ranks_) HZ_RETURN_IF_ERROR((rank.*buffer).Register(rank.comm));
    HZ_RETURN_IF_ERROR(Explain(ncclGroupEnd(), ranks_.front().comm, "registering buffers"));
  }
  return Status::Ok();
}

Status Worker::Release() {
  for (Rank& rank : ranks_) {
    HZ_RETURN_IF_ERROR(rank.send.Release(rank.comm));
    HZ_RETURN_IF_ERROR(rank.recv.Release(rank.comm));
    if (rank.stream != nullptr) {
      HZ_RETURN_IF_ERROR(Explain(hzStreamDestroy(rank.stream), rank.comm, "hzStreamDestroy"));
    }
  }
  return Status::Ok();
}

Status Worker::CreateOperators(const TypeInfo& type, Operator op) {
  for (Rank& rank : ranks_) {
    if (op != Operator::kMulSum) {
      rank.op = BuiltInOperator(op);
      continue;
    }
    std::byte scalar[8] = {};
    if (type.is_float) {
      EncodeFloat(type, PreMultiplier(rank.rank), scalar);
    } else {
      scalar[0] = static_cast<std::byte>(PreMultiplier(rank.rank));  // little endian
    }
    HZ_RETURN_IF_ERROR(Explain(
        ncclRedOpCreatePreMulSum(&rank.op, scalar, type.type, ncclScalarHostImmediate, rank.comm),
        rank.comm, "ncclRedOpCreatePreMulSum"));
  }
  return Status::Ok();
}

Status Worker::DestroyOperators(Operator op) {
  if (op != Operator::kMulSum) return Status::Ok();
  for (Rank& rank : ranks_) {
    HZ_RETURN_IF_ERROR(
        Explain(ncclRedOpDestroy(rank.op, rank.comm), rank.comm, "ncclRedOpDestroy"));
  }
  return Status::Ok();
}

std::byte* Worker::SendPointer(Rank& rank, const Work& work, bool in_place, size_t shift) const {
  if (!in_place) return rank.send.data() + shift;
  return rank.recv.data() + shift +
         work.layout.send_in_place_stride * static_cast<size_t>(rank.rank) * work.type->size;
}

std::byte* Worker::RecvPointer(Rank& rank, const Work& work, bool in_place, size_t shift) const {
  if (!in_place) return rank.recv.data() + shift;
  return rank.recv.data() + shift +
         work.layout.recv_in_place_stride * static_cast<size_t>(rank.rank) * work.type->size;
}

Status Worker::Enqueue(const Work& work, bool in_place, int64_t iteration) {
  // As in nccl-tests, each iteration works on the next part of the buffers, so that a sweep's small
  // sizes are not measured in the first-level cache only.
  const size_t step = work.larger_bytes();
  const size_t steps = step == 0 ? 1 : std::max<size_t>(1, options_.max_bytes / step);
  const size_t shift = step * (static_cast<size_t>(iteration) % steps);
  const bool group = ranks_.size() > 1;
  if (group) HZ_RETURN_IF_ERROR(Explain(ncclGroupStart(), nullptr, "ncclGroupStart"));
  for (Rank& rank : ranks_) {
    const Call call{SendPointer(rank, work, in_place, shift),
                    RecvPointer(rank, work, in_place, shift),
                    work.layout.count,
                    work.type->type,
                    rank.op,
                    work.root,
                    rank.rank,
                    total_ranks_,
                    rank.comm,
                    rank.stream};
    HZ_RETURN_IF_ERROR(Explain(spec_.enqueue(call), rank.comm, spec_.call));
  }
  if (!group) return Status::Ok();
  return Explain(ncclGroupEnd(), ranks_.front().comm, spec_.call);
}

Status Worker::EnqueueIteration(const Work& work, bool in_place, int64_t iteration) {
  const bool group = options_.aggregated > 1;
  if (group) HZ_RETURN_IF_ERROR(Explain(ncclGroupStart(), nullptr, "ncclGroupStart"));
  for (int i = 0; i < options_.aggregated; ++i) {
    HZ_RETURN_IF_ERROR(Enqueue(work, in_place, iteration * options_.aggregated + i));
  }
  if (!group) return Status::Ok();
  return Explain(ncclGroupEnd(), ranks_.front().comm, spec_.call);
}

Status Worker::Wait() {
  if (options_.null_stream) return Status::Ok();
  for (Rank& rank : ranks_) {
    HZ_RETURN_IF_ERROR(Explain(hzStreamSynchronize(rank.stream), rank.comm, spec_.call));
  }
  return Status::Ok();
}

Status Worker::AlignRanks() {
  HZ_RETURN_IF_ERROR(team_.Barrier(thread_));
  const bool group = ranks_.size() > 1;
  if (group) HZ_RETURN_IF_ERROR(Explain(ncclGroupStart(), nullptr, "ncclGroupStart"));
  for (Rank& rank : ranks_) {
    HZ_RETURN_IF_ERROR(Explain(ncclAllReduce(&rank.alignment, &rank.alignment, 1, ncclFloat,
                                             ncclSum, rank.comm, rank.stream),
                               rank.comm, "ncclAllReduce before the measurement"));
  }
  if (group) {
    HZ_RETURN_IF_ERROR(Explain(ncclGroupEnd(), ranks_.front().comm, "ncclGroupEnd"));
  }
  return Wait();
}

Status Worker::WarmUp(const Work& work, bool in_place) {
  for (int i = 0; i < options_.warmup; ++i) {
    HZ_RETURN_IF_ERROR(EnqueueIteration(work, in_place, i));
  }
  return Wait();
}

Result<Worker::Times> Worker::TimeIterations(const Work& work, bool in_place) {
  HZ_RETURN_IF_ERROR(AlignRanks());
  Times times;
  Clock::time_point start = Clock::now();
  for (int i = 0; i < options_.iterations; ++i) {
    HZ_RETURN_IF_ERROR(EnqueueIteration(work, in_place, i));
    if (!options_.blocking) continue;
    times.enqueue_s += Seconds(Clock::now() - start);
    HZ_RETURN_IF_ERROR(Wait());
    times.elapsed_s += Seconds(Clock::now() - start);
    HZ_RETURN_IF_ERROR(AlignRanks());
    start = Clock::now();
  }
  if (!options_.blocking) {
    times.enqueue_s = Seconds(Clock::now() - start);
    HZ_RETURN_IF_ERROR(Wait());
    times.elapsed_s = Seconds(Clock::now() - start);
  }
  const double operations = static_cast<double>(options_.iterations) * options_.aggregated;
  times.elapsed_s /= operations;
  times.enqueue_s /= operations;
  return times;
}

Pattern& Worker::PatternFor(const Work& work, uint64_t seed) {
  return pattern_.emplace(*work.type, work.op, total_ranks_, seed, options_.error_bound);
}

void Worker::FillBuffers(const Work& work, bool in_place, uint64_t seed) {
  Pattern& pattern = PatternFor(work, seed);
  for (Rank& rank : ranks_) {
    const size_t recv_used = in_place ? work.larger_bytes() : work.recv_bytes();
    rank.send.ArmGuards(work.send_bytes());
    rank.recv.ArmGuards(recv_used);
    std::memset(rank.recv.data(), static_cast<int>(kPoison), recv_used);
    pattern.Fill(rank.rank, 0, work.layout.send_count, SendPointer(rank, work, in_place, 0));
  }
}

Mismatches Worker::CheckRank(Rank& rank, Pattern& pattern, const Work& work, bool in_place) {
  const std::vector<Segment> segments =
      spec_.expected(rank.rank, total_ranks_, work.root, work.layout);
  const bool untouched =
      segments.size() == 1 && segments.front().source == Segment::Source::kUntouched;
  Mismatches mismatches;
  // In place, the part that must stay untouched is this rank's own input.
  if (!in_place || !untouched) {
    mismatches.Add(CompareOutput(pattern, segments, RecvPointer(rank, work, in_place, 0)));
  }
  if (!in_place || untouched) {
    mismatches.Add(CompareInput(pattern, rank.rank, work.layout.send_count,
                                SendPointer(rank, work, in_place, 0)));
  }
  Mismatches outside;
  outside.count = rank.recv.DamagedGuardBytes() + (in_place ? 0 : rank.send.DamagedGuardBytes());
  if (outside.count > 0) outside.first = "bytes outside of the buffers were written";
  mismatches.Add(outside);
  return mismatches;
}

Result<double> Worker::CheckOnce(const Work& work, bool in_place, uint64_t seed) {
  FillBuffers(work, in_place, seed);
  HZ_RETURN_IF_ERROR(Enqueue(work, in_place, 0));
  HZ_RETURN_IF_ERROR(Wait());
  // Stray writes of other ranks' work may arrive here until theirs has finished.
  HZ_RETURN_IF_ERROR(team_.Barrier(thread_));
  double wrong = 0;
  for (Rank& rank : ranks_) {
    const Mismatches mismatches = CheckRank(rank, *pattern_, work, in_place);
    wrong += static_cast<double>(mismatches.count);
    if (mismatches.count == 0) continue;
    fmt::print(stderr, "\n# rank {}, {}, {} {}: {} wrong; {}\n", rank.rank,
               in_place ? "in place" : "out of place", work.type->name, OperatorName(work.op),
               mismatches.count, mismatches.first);
  }
  return team_.Reduce(thread_, wrong, Combine::kSum);
}

Result<Measurement> Worker::Measure(const Work& work, bool in_place) {
  if (thread_ == 0) {
    watchdog_.Arm(fmt::format("{} of {} bytes, {}", spec_.program, work.larger_bytes(),
                              in_place ? "in place" : "out of place"));
  }
  FillBuffers(work, in_place, ++measurements_);
  HZ_RETURN_IF_ERROR(WarmUp(work, in_place));
  HZ_ASSIGN_OR_RETURN(Times times, TimeIterations(work, in_place));
  const double mine = options_.report_cpu_time ? times.enqueue_s : times.elapsed_s;
  HZ_ASSIGN_OR_RETURN(double seconds, team_.Reduce(thread_, mine, options_.average));

  Measurement measurement;
  measurement.time_us = seconds * 1e6;
  // A zero-sized operation has no bandwidth, whatever its time.
  const auto bytes = static_cast<double>(work.larger_bytes());
  measurement.algbw = seconds > 0 ? bytes / seconds * 1e-9 : 0;
  measurement.busbw = measurement.algbw * spec_.bus_factor(total_ranks_);
  measurement.checked = options_.checks > 0 && (!in_place || spec_.in_place_defined);
  for (int i = 0; measurement.checked && i < options_.checks && measurement.wrong == 0; ++i) {
    HZ_ASSIGN_OR_RETURN(measurement.wrong, CheckOnce(work, in_place, ++measurements_));
  }
  if (thread_ == 0) watchdog_.Disarm();
  return measurement;
}

}  // namespace harmonaize::perf
