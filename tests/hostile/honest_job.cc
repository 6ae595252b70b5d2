#include "tests/hostile/honest_job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "harmonaize.h"
#include "nccl.h"
#include "src/base/clock.h"
#include "tests/hostile/honest_way.h"
#include "tests/support/other_users.h"

namespace harmonaize::testing {
namespace {

/// Operations of a round on the inline path, each of so many elements.
constexpr int kSmallOperations = 32;
constexpr size_t kSmallCount = 64;
/// Elements of the larger operations of a round.
constexpr size_t kRegisteredCount = 1 << 16;
constexpr size_t kBlockCount = 1 << 13;
constexpr size_t kHeapCount = 50'000;
constexpr size_t kSentCount = 1 << 14;
constexpr size_t kStreamCount = 20'000;
constexpr int kStreamOperations = 4;

/// Rounds after which the job registers other memory and makes other communicators.
constexpr uint64_t kRoundsToRenewal = 32;

/// Pauses of who waits for another process of the job, in microseconds.
constexpr useconds_t kWaitEvery = 100;
constexpr useconds_t kBetweenVisits = 100'000;

/// How long a round, or a visit, is waited for once no other begins, in nanoseconds: what an honest
/// tenant waits for at most, however busy the machine, with sanitizers.
constexpr uint64_t kPauseWithinNanoseconds = 60'000'000'000;

/// The i-th element of what a rank gives, in a round, to an operation of this number. Sums of them
/// are whole numbers that a float holds.
int ElementOf(uint64_t round, int operation, int rank, size_t i) {
  const auto shift =
      (round * 7 + static_cast<uint64_t>(operation) * 13 + static_cast<uint64_t>(rank) * 31) % 101;
  return static_cast<int>(i * 2654435761u >> 22 & 1023) + static_cast<int>(shift);
}

void RaiseTo(std::atomic<uint64_t>* most, uint64_t value) {
  uint64_t known = most->load();
  while (known < value && !most->compare_exchange_weak(known, value)) continue;
}

}  // namespace

/// One rank of the job. An honest process that fails notes why and ends.
class HonestRank {
 public:
  HonestRank(HonestJob::Board* board, Field* field, int rank)
      : board_(board), field_(field), rank_(rank) {}

  int Run() {
    Join();
    for (void** buffer : {&send_, &receive_})
      Must(ncclMemAlloc(buffer, kRegisteredBytes), "memory");
    Must(hzStreamCreate(&stream_), "a stream");
    OpenWay();
    for (uint64_t round = 0; MayBegin(round); ++round) {
      const uint64_t begun = MonotonicNanoseconds();
      Do(round);
      RaiseTo(&board_->longest_round_ns, MonotonicNanoseconds() - begun);
      board_->done[static_cast<size_t>(rank_)].store(round + 1);
    }
    Must(hzStreamDestroy(stream_), "the stream's end");
    for (void* buffer : {send_, receive_}) Must(ncclMemFree(buffer), "memory's end");
    Must(ncclCommDestroy(communicator_), "the communicator's end");
    return 0;
  }

 private:
  static constexpr size_t kRegisteredBytes = kRegisteredCount * sizeof(float);

  void Fail(const std::string& what) {
    field_->findings.Note(fmt::format("honest rank {}, round {}: {}", rank_, round_, what));
    _exit(1);
  }
  void Must(ncclResult_t result, const char* what) {
    if (result == ncclSuccess) return;
    Fail(fmt::format("{}: {} ({})", what, ncclGetErrorString(result),
                     ncclGetLastError(communicator_)));
  }

  void Must(const Status& status, const char* what) {
    if (!status.ok()) Fail(fmt::format("{}: {}", what, status.message()));
  }

  /// The way from rank 0 to rank 1, whose door others know.
  void OpenWay() {
    const std::string socket_path = std::getenv("HARMONAIZE_SOCKET");
    if (rank_ == 1) {
      const Result<UniqueId> door = way_.Open(socket_path);
      Must(door.status(), "a door");
      board_->door = *door;
      board_->door_ready.store(true);
      Must(way_.AwaitGuest(), "a guest");
      field_->honest_doors.Publish(*door);
    } else if (rank_ == 0) {
      while (!board_->door_ready.load()) usleep(kWaitEvery);
      Must(way_.Knock(socket_path, board_->door), "a knock");
    }
  }

  void Join() {
    ncclUniqueId id;
    if (rank_ == 0) {
      Must(ncclGetUniqueId(&id), "a unique id");
      board_->id = id;
      board_->id_ready.store(true);
    }
    while (!board_->id_ready.load()) usleep(kWaitEvery);
    id = board_->id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = kHonestName;
    Must(ncclCommInitRankConfig(&communicator_, HonestJob::kRanks, id, rank_, &config), "joining");
  }

  bool MayBegin(uint64_t round) {
    if (rank_ != 0) {
      while (board_->begun.load() <= round) {
        if (board_->ended.load()) return false;
        usleep(kWaitEvery);
      }
      return true;
    }
    while (board_->pause.load() && !board_->stop.load()) usleep(kWaitEvery);
    if (board_->stop.load()) {
      board_->ended.store(true);
      return false;
    }
    board_->begun.store(round + 1);
    return true;
  }

  void Do(uint64_t round) {
    round_ = round;
    for (int i = 0; i < kSmallOperations; ++i) AllReduce<int>(i, small_, small_, kSmallCount);
    AllReduce<float>(100, static_cast<float*>(send_), static_cast<float*>(receive_),
                     kRegisteredCount);
    AllGather(101);
    ReduceScatter(102);
    AllReduce<int>(103, heap_.data(), heap_.data(), kHeapCount);
    Broadcast(104);
    PassOn(105);
    Stream(106);
    if (rank_ < 2) Must(way_.Exchange(round, rank_ == 0), "messages in a pipe");
    if (round % kRoundsToRenewal == kRoundsToRenewal - 1) Renew(107);
  }

  template <typename Element>
  void Fill(Element* data, size_t count, int operation) {
    for (size_t i = 0; i < count; ++i)
      data[i] = static_cast<Element>(ElementOf(round_, operation, rank_, i));
  }
  int SumOf(int operation, size_t i) const {
    int sum = 0;
    for (int rank = 0; rank < HonestJob::kRanks; ++rank) {
      sum += ElementOf(round_, operation, rank, i);
    }
    return sum;
  }
  template <typename Element>
  void MustBeSums(const Element* data, size_t count, size_t first, int operation) {
    for (size_t i = 0; i < count; ++i) {
      const int expected = SumOf(operation, first + i);
      if (data[i] == static_cast<Element>(expected)) continue;
      Fail(fmt::format("operation {}: element {} is {}, not {}", operation, i, data[i], expected));
    }
  }
  template <typename Element>
  void MustBeOf(const Element* data, size_t count, int rank, int operation) {
    for (size_t i = 0; i < count; ++i) {
      const int expected = ElementOf(round_, operation, rank, i);
      if (data[i] == static_cast<Element>(expected)) continue;
      Fail(fmt::format("operation {}: element {} of rank {} is {}, not {}", operation, i, rank,
                       data[i], expected));
    }
  }

  template <typename Element>
  void AllReduce(int operation, Element* send, Element* receive, size_t count) {
    constexpr ncclDataType_t kType = std::is_same_v<Element, float> ? ncclFloat : ncclInt;
    Fill(send, count, operation);
    Must(ncclAllReduce(send, receive, count, kType, ncclSum, communicator_, nullptr), "AllReduce");
    MustBeSums(receive, count, 0, operation);
  }

  void AllGather(int operation) {
    auto* const send = static_cast<int*>(send_);
    auto* const receive = static_cast<int*>(receive_);
    Fill(send, kBlockCount, operation);
    Must(ncclAllGather(send, receive, kBlockCount, ncclInt, communicator_, nullptr), "AllGather");
    for (int rank = 0; rank < HonestJob::kRanks; ++rank) {
      MustBeOf(receive + static_cast<size_t>(rank) * kBlockCount, kBlockCount, rank, operation);
    }
  }

  void ReduceScatter(int operation) {
    auto* const send = static_cast<float*>(send_);
    auto* const receive = static_cast<float*>(receive_);
    Fill(send, kBlockCount * HonestJob::kRanks, operation);
    Must(ncclReduceScatter(send, receive, kBlockCount, ncclFloat, ncclSum, communicator_, nullptr),
         "ReduceScatter");
    MustBeSums(receive, kBlockCount, static_cast<size_t>(rank_) * kBlockCount, operation);
  }

  void Broadcast(int operation) {
    const int root = static_cast<int>(round_ % HonestJob::kRanks);
    Fill(heap_.data(), kHeapCount, operation);
    Must(ncclBroadcast(heap_.data(), heap_.data(), kHeapCount, ncclInt, root, communicator_,
                       nullptr),
         "Broadcast");
    MustBeOf(heap_.data(), kHeapCount, root, operation);
  }

  /// To the next rank, from the one before.
  void PassOn(int operation) {
    const int next = (rank_ + 1) % HonestJob::kRanks;
    const int before = (rank_ + HonestJob::kRanks - 1) % HonestJob::kRanks;
    Fill(heap_.data(), kSentCount, operation);
    Must(ncclGroupStart(), "a group");
    Must(ncclSend(heap_.data(), kSentCount, ncclInt, next, communicator_, nullptr), "Send");
    Must(ncclRecv(received_.data(), kSentCount, ncclInt, before, communicator_, nullptr), "Recv");
    Must(ncclGroupEnd(), "the group");
    MustBeOf(received_.data(), kSentCount, before, operation);
  }

  /// Each operation reads what the one before wrote, with no wait in between. The first makes all
  /// ranks' data alike.
  void Stream(int operation) {
    Fill(heap_.data(), kStreamCount, operation);
    for (int i = 0; i < kStreamOperations; ++i) {
      Must(ncclAllReduce(heap_.data(), heap_.data(), kStreamCount, ncclInt,
                         i == 0 ? ncclSum : ncclMax, communicator_, stream_),
           "AllReduce on a stream");
    }
    Must(hzStreamSynchronize(stream_), "the stream");
    MustBeSums(heap_.data(), kStreamCount, 0, operation);
  }

  /// Another region, another stream, another communicator; and an id for others to find.
  void Renew(int operation) {
    void* region = nullptr;
    Must(ncclMemAlloc(&region, kRegisteredBytes), "more memory");
    AllReduce<float>(operation, static_cast<float*>(region), static_cast<float*>(region),
                     kRegisteredCount);
    Must(ncclMemFree(region), "less memory");
    Must(hzStreamDestroy(stream_), "the old stream's end");
    Must(hzStreamCreate(&stream_), "another stream");
    ncclComm_t split = nullptr;
    Must(ncclCommSplit(communicator_, 0, rank_, &split, nullptr), "a split");
    std::swap(split, communicator_);
    AllReduce<int>(operation + 1, small_, small_, kSmallCount);
    std::swap(split, communicator_);
    Must(ncclCommDestroy(split), "the split's end");
    if (rank_ == 0) RenewId();
  }

  /// The last id forms a communicator now, whatever others have tried with it; the next one is open
  /// until the next renewal.
  void RenewId() {
    if (has_open_id_) {
      ncclComm_t alone = nullptr;
      Must(ncclCommInitRank(&alone, 1, open_id_, 0), "a communicator by an id that others know");
      Must(ncclCommDestroy(alone), "its end");
    }
    Must(ncclGetUniqueId(&open_id_), "another unique id");
    has_open_id_ = true;
    field_->honest_ids.Publish(std::bit_cast<UniqueId>(open_id_));
  }

  HonestJob::Board* const board_;
  Field* const field_;
  const int rank_;
  uint64_t round_ = 0;
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
  int small_[kSmallCount] = {};
  std::vector<int> heap_ = std::vector<int>(kHeapCount);
  std::vector<int> received_ = std::vector<int>(kSentCount);
  HonestWay way_;
  ncclUniqueId open_id_;
  bool has_open_id_ = false;
};

namespace {

/// A whole job in one process: two ranks by a name that attackers use, too.
int VisitOneHost(Field* field) {
  const auto fail = [&](const char* what, ncclResult_t result) {
    field->findings.Note(fmt::format("an honest visitor: {}: {} ({})", what,
                                     ncclGetErrorString(result), ncclGetLastError(nullptr)));
    return 1;
  };
  setenv("NCCL_COMM_ID", "honest-visitor:1", 1);
  ncclUniqueId id;
  ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return fail("an id", result);
  ncclComm_t ranks[2] = {};
  int values[2] = {1, 2};
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank) ncclCommInitRank(&ranks[rank], 2, id, rank);
  result = ncclGroupEnd();
  if (result != ncclSuccess) return fail("a communicator", result);
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank) {
    ncclAllReduce(&values[rank], &values[rank], 1, ncclInt, ncclSum, ranks[rank], nullptr);
  }
  result = ncclGroupEnd();
  if (result != ncclSuccess) return fail("an all-reduce", result);
  if (values[0] != 3 || values[1] != 3) return fail("a wrong sum", ncclInternalError);
  for (ncclComm_t rank : ranks) {
    result = ncclCommDestroy(rank);
    if (result != ncclSuccess) return fail("the end", result);
  }
  return 0;
}

}  // namespace

HonestJob::HonestJob(std::vector<std::string> socket_paths, Field* field)
    : socket_paths_(std::move(socket_paths)), field_(field) {
  for (int rank = 0; rank < kRanks; ++rank) {
    processes_.push_back(StartAs(kAlice, [&] {
      UseDaemonOf(static_cast<size_t>(rank) % socket_paths_.size());
      return HonestRank(board_.operator->(), field_, rank).Run();
    }));
  }
  processes_.push_back(StartAs(kAlice, [&] { return Visit(); }));
  while ((rounds() <= kRoundsToRenewal || visits() == 0) && field_->findings.count() == 0) {
    usleep(1000);
  }
}

HonestJob::~HonestJob() {
  for (const pid_t process : processes_) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
}

uint64_t HonestJob::rounds() const {
  uint64_t least = UINT64_MAX;
  for (const auto& done : board_->done) least = std::min(least, done.load());
  return least;
}

int HonestJob::Visit() {
  while (!board_->stop.load()) {
    usleep(kBetweenVisits);
    board_->visiting.store(true);
    // Sequentially consistent, with Pause: one of the two sees the other.
    if (!board_->pause.load()) {
      const uint64_t begun = MonotonicNanoseconds();
      if (!VisitOnce(visits() + 1)) field_->findings.Note("an honest visitor did not end well");
      RaiseTo(&board_->longest_visit_ns, MonotonicNanoseconds() - begun);
      board_->visits.fetch_add(1);
    }
    board_->visiting.store(false);
  }
  return 0;
}

bool HonestJob::VisitOnce(uint64_t visit) {
  const auto one_host = [&] {
    UseDaemonOf(visit % socket_paths_.size());
    return VisitOneHost(field_);
  };
  if (StatusOf(StartAs(0, one_host)) != 0) return false;
  return socket_paths_.size() == 1 || VisitOverHosts(visit);
}

bool HonestJob::VisitOverHosts(uint64_t visit) {
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < static_cast<int>(socket_paths_.size()); ++rank) {
    ranks.push_back(StartAs(0, [&] { return VisitAs(rank, visit); }));
  }
  bool well = true;
  for (const pid_t rank : ranks) well = StatusOf(rank) == 0 && well;
  return well;
}

int HonestJob::VisitAs(int rank, uint64_t visit) {
  ncclComm_t communicator = nullptr;
  const auto failed = [&](const char* what, ncclResult_t result) {
    if (result == ncclSuccess) return false;
    field_->findings.Note(fmt::format("rank {} of an honest visit over hosts: {}: {} ({})", rank,
                                      what, ncclGetErrorString(result),
                                      ncclGetLastError(communicator)));
    return true;
  };
  const int ranks = static_cast<int>(socket_paths_.size());
  // Each host's daemon makes the id in turn.
  UseDaemonOf((static_cast<uint64_t>(rank) + visit) % socket_paths_.size());
  if (rank == 0) {
    if (failed("an id", ncclGetUniqueId(&board_->visit_id))) return 1;
    board_->visit_with_id.store(visit);
  }
  while (board_->visit_with_id.load() != visit) usleep(kWaitEvery);
  const ncclUniqueId id = board_->visit_id;
  if (failed("a communicator", ncclCommInitRank(&communicator, ranks, id, rank))) return 1;
  int value = rank + 1;
  if (failed("an all-reduce",
             ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, communicator, nullptr))) {
    return 1;
  }
  if (value != ranks * (ranks + 1) / 2) return failed("a wrong sum", ncclInternalError);
  return failed("the end", ncclCommDestroy(communicator));
}

void HonestJob::UseDaemonOf(size_t host) const {
  setenv("HARMONAIZE_SOCKET", socket_paths_[host].c_str(), 1);
}

void HonestJob::Pause() {
  board_->pause.store(true);
  constexpr uint64_t kSettledNanoseconds = 50'000'000;
  const uint64_t asked = MonotonicNanoseconds();
  uint64_t settled_since = asked;
  // Rank 0 may have looked at the flag just before.
  while (MonotonicNanoseconds() - settled_since < kSettledNanoseconds &&
         field_->findings.count() == 0) {
    if (rounds() < board_->begun.load() || board_->visiting.load()) {
      settled_since = MonotonicNanoseconds();
    }
    if (MonotonicNanoseconds() - asked > kPauseWithinNanoseconds) {
      field_->findings.Note("the honest job's round does not end");
    }
    usleep(kWaitEvery);
  }
}

bool HonestJob::Stop() {
  board_->stop.store(true);
  board_->pause.store(false);
  bool well = true;
  for (const pid_t process : processes_) well = StatusOf(process) == 0 && well;
  processes_.clear();
  return well;
}

}  // namespace harmonaize::testing
