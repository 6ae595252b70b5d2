#include "plugins/torch/source/communicator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plugins/torch/source/errors.h"
#include "plugins/torch/source/operation.h"
#include "plugins/torch/source/progress.h"

namespace harmonaize_torch {
namespace {

using Clock = std::chrono::steady_clock;

// How often the library is asked whether a communicator is broken, for what does not wait on it
// itself. It looks in shared memory. The loss of a rank is to be known within some milliseconds.
constexpr std::chrono::milliseconds kAskInterval{5};

// Most lost ranks that the library names, which are as many as one shrink can leave out.
constexpr int kMostLostRanks = 16000;

ncclConfig_t ConfigOf(const std::string& name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name.c_str();
  return config;
}

}  // namespace

Communicator::Communicator(std::string name, int rank, int size,
                           std::shared_ptr<Communicator> parent)
    : name_(std::move(name)), rank_(rank), size_(size), parent_(std::move(parent)) {}

Communicator::Communicator(std::string name, int rank, int size, ncclComm_t formed)
    : name_(std::move(name)), rank_(rank), size_(size), handle_(formed) {}

Communicator::~Communicator() {
  if (handle_ == nullptr) return;
  // Destroying waits for what is in flight, and after a failure that may never end.
  if (formed_ && failure_.empty()) {
    static_cast<void>(Library::Get().ncclCommDestroy(handle_));
  } else {
    static_cast<void>(Library::Get().ncclCommAbort(handle_));
  }
}

void Communicator::SetId(const ncclUniqueId& id) {
  const std::lock_guard lock(mutex_);
  id_ = id;
}

void Communicator::Keep(const c10::intrusive_ptr<Operation>& operation) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(operation);
}

void Communicator::GoOn() {
  if (!Advance()) Progress::Get().Watch(shared_from_this());
}

bool Communicator::Advance() {
  bool nothing_left = true;
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    GoOnForming();
    ended = LaunchKept();
    nothing_left = kept_.empty();
  }
  Tell(ended);
  return nothing_left;
}

void Communicator::Tell(const Ended& ended) {
  for (const c10::intrusive_ptr<Operation>& operation : ended) operation->EndUnlaunched();
}

bool Communicator::Formed() {
  const std::lock_guard lock(mutex_);
  GoOnForming();
  if (!failure_.empty()) ThrowError(failure_);
  return formed_;
}

void Communicator::GoOnForming() {
  if (formed_ || !failure_.empty()) return;
  const Library& library = Library::Get();
  const std::string doing = "Forming the communicator " + name_;
  try {
    const std::string why = parent_ == nullptr ? "" : parent_->WhyBroken();
    if (!why.empty()) return FailLocked(why);
    if (handle_ == nullptr) {
      if (!id_) return;
      ncclConfig_t config = ConfigOf(name_);
      const InHostMemory in_host_memory;
      Check(doing, library.ncclCommInitRankConfig(&handle_, size_, *id_, rank_, &config));
    }
    ncclResult_t state = ncclSuccess;
    Check(doing, library.ncclCommGetAsyncError(handle_, &state));
    Check(doing, state, handle_);
    formed_ = state == ncclSuccess;
  } catch (const std::exception& error) {
    FailLocked(SentenceOf(error));
  }
}

Communicator::Ended Communicator::LaunchKept() {
  Ended ended;
  while (!kept_.empty() && (formed_ || !failure_.empty())) {
    const c10::intrusive_ptr<Operation> operation = kept_.front();
    Launched launched = Launched::kNot;
    if (failure_.empty()) {
      launched = operation->Launch(handle_);
      if (launched == Launched::kNoStream) break;
    } else {
      operation->Refuse(failure_);
    }
    kept_.pop_front();
    if (launched == Launched::kNot) ended.push_back(operation);
  }
  return ended;
}

void Communicator::Fail(const std::string& reason) {
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    FailLocked(reason);
    ended = LaunchKept();
  }
  Tell(ended);
}

void Communicator::FailLocked(const std::string& reason) {
  if (!failure_.empty()) return;
  failure_ = reason;
  if (formed_) {
    static_cast<void>(Library::Get().ncclCommRevoke(handle_, NCCL_REVOKE_DEFAULT));
  } else if (handle_ != nullptr) {
    static_cast<void>(Library::Get().ncclCommAbort(std::exchange(handle_, nullptr)));
  }
}

void Communicator::Abort(const std::string& reason) {
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = reason;
    if (handle_ != nullptr) {
      static_cast<void>(Library::Get().ncclCommAbort(std::exchange(handle_, nullptr)));
    }
    ended = LaunchKept();
  }
  Tell(ended);
}

std::string Communicator::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string Communicator::WhyBroken() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty() || !formed_) return failure_;
  const Clock::time_point now = Clock::now();
  if (!broken_.empty() || now - asked_ < kAskInterval) return broken_;
  asked_ = now;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = Library::Get().ncclCommGetAsyncError(handle_, &state);
  const ncclResult_t found = asked == ncclSuccess ? state : asked;
  if (found != ncclSuccess && found != ncclInProgress) {
    broken_ = Describe("The group " + name_, found, handle_);
  }
  return broken_;
}

void Communicator::EndWithParent() {
  const std::string why = parent_ == nullptr ? "" : parent_->WhyBroken();
  if (!why.empty()) Fail(why);
}

std::vector<int> Communicator::LostRanks() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(handle_ != nullptr, "the communicator ", name_, " was aborted, and has no ranks");
  const int most = std::min(size_, kMostLostRanks);
  std::vector<int> lost(static_cast<size_t>(most));
  int count = 0;
  Check("Asking which ranks of the communicator " + name_ + " are gone",
        Library::Get().hzLostRanks(handle_, most, lost.data(), &count), handle_);
  lost.resize(static_cast<size_t>(std::min(count, most)));
  return lost;
}

std::string Communicator::LastWord() {
  const std::lock_guard lock(mutex_);
  return handle_ == nullptr ? "" : LastError(handle_);
}

std::shared_ptr<Communicator> Communicator::Shrink(std::vector<int> excluded, bool abort) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(handle_ != nullptr, "the communicator ", name_, " was aborted, and cannot shrink");
  ncclConfig_t config = ConfigOf(name_);
  ncclComm_t shrunk = nullptr;
  const int flags = abort ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT;
  Check("Shrinking the communicator " + name_,
        Library::Get().ncclCommShrink(handle_, excluded.data(), static_cast<int>(excluded.size()),
                                      &shrunk, &config, flags),
        handle_);
  const auto before =
      std::count_if(excluded.begin(), excluded.end(), [this](int rank) { return rank < rank_; });
  return std::make_shared<Communicator>(name_, rank_ - static_cast<int>(before),
                                        size_ - static_cast<int>(excluded.size()), shrunk);
}

}  // namespace harmonaize_torch
