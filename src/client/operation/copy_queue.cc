#include "src/client/operation/copy_queue.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/client/operation/copier.h"

namespace harmonaize {

CopyQueue::CopyQueue(std::shared_ptr<Session> session, uint32_t stream)
    : session_(std::move(session)), stream_(stream) {}

void CopyQueue::Add(std::unique_ptr<CopyBatch> batch) {
  const std::lock_guard lock(mutex_);
  Count(*batch, 1);
  batches_.push_back(std::move(batch));
  NoteFirst();
}

// Returns the number of batches at the first position.
size_t CopyQueue::SizeOfFirst() const {
  size_t size = 0;
  while (size < batches_.size() && batches_[size]->position() == batches_[0]->position()) ++size;
  return size;
}

// Counts a batch that comes (1) or goes (-1).
void CopyQueue::Count(const CopyBatch& batch, int change) {
  windows_.fetch_add(batch.has_windows() ? change : 0, std::memory_order_acq_rel);
  staged_bytes_.fetch_add(static_cast<uint64_t>(change) * batch.staged_bytes(),
                          std::memory_order_relaxed);
}

// Release: who finds something copied finds the data.
void CopyQueue::NoteFirst() {
  first_.store(batches_.empty() ? ~uint64_t{0} : batches_.front()->position(),
               std::memory_order_release);
}

bool CopyQueue::Step() {
  const std::lock_guard lock(mutex_);
  const auto end = batches_.begin() + static_cast<ptrdiff_t>(SizeOfFirst());
  bool copied = false;
  bool retired = false;
  for (auto batch = batches_.begin(); batch != end; ++batch) {
    const bool had_windows = (*batch)->has_windows();
    copied = (*batch)->Step() || copied;
    if (had_windows && !(*batch)->has_windows()) windows_.fetch_sub(1, std::memory_order_acq_rel);
    retired = retired || (*batch)->copied();
  }
  if (!retired) return copied;
  const auto kept = std::stable_partition(batches_.begin(), end,
                                          [](const auto& batch) { return batch->copied(); });
  for (auto batch = batches_.begin(); batch != kept; ++batch) Count(**batch, -1);
  batches_.erase(batches_.begin(), kept);
  NoteFirst();
  return true;
}

bool CopyQueue::CanStep() {
  const std::lock_guard lock(mutex_);
  const auto end = batches_.begin() + static_cast<ptrdiff_t>(SizeOfFirst());
  return std::any_of(batches_.begin(), end, [](const auto& batch) { return batch->CanStep(); });
}

bool CopyQueue::CopyUpTo(uint64_t position) {
  while (!CopiedUpTo(position)) {
    if (!Step()) return false;
  }
  return true;
}

bool CopyQueue::Reached(uint64_t position) {
  if (!CopiedUpTo(position)) Step();
  return DoneUpTo(position);
}

Status CopyQueue::Await(uint64_t position, const std::function<Status()>& on_tick) {
  if (!CopiedUpTo(position)) {
    const CopyTarget target{this, position};
    HZ_RETURN_IF_ERROR(AwaitCopies({&target, 1}, on_tick));
  }
  return session_->WaitForPosition(stream_, position, on_tick);
}

bool CopyQueue::WritesTo(const void* address, uint64_t bytes) {
  if (CopiedUpTo(~uint64_t{0} - 1)) return false;
  const std::lock_guard lock(mutex_);
  return std::any_of(batches_.begin(), batches_.end(), [address, bytes](const auto& batch) {
    return batch->WritesTo(address, bytes);
  });
}

std::vector<std::unique_ptr<CopyBatch>> CopyQueue::Drop(const Communicator* communicator) {
  const std::lock_guard lock(mutex_);
  std::vector<std::unique_ptr<CopyBatch>> dropped;
  for (std::unique_ptr<CopyBatch>& batch : batches_) {
    if (communicator == nullptr || batch->communicator() == communicator) {
      Count(*batch, -1);
      dropped.push_back(std::move(batch));
    }
  }
  std::erase(batches_, nullptr);
  NoteFirst();
  return dropped;
}

// ---------------------------------------------------------------------------------------------
// Waiting

/// One thread's wait for copies, as AwaitCopies describes it.
class CopyWait {
 public:
  explicit CopyWait(std::span<const CopyTarget> targets) : targets_(targets) {
    for (const CopyTarget& target : targets_) target.queue->drivers_.fetch_add(1);
  }
  CopyWait(const CopyWait&) = delete;
  CopyWait& operator=(const CopyWait&) = delete;
  // What the thread leaves behind is the Copier's.
  ~CopyWait() {
    bool leaves_some = false;
    for (const CopyTarget& target : targets_) {
      target.queue->drivers_.fetch_sub(1);
      leaves_some = leaves_some || target.queue->has_windows();
    }
    if (leaves_some) Copier::Get().Wake(targets_.front().queue->session());
  }

  Status Run(const std::function<Status()>& on_tick) {
    while (!AllCopied()) {
      if (!StepAll()) HZ_RETURN_IF_ERROR(AwaitWork(on_tick));
    }
    return Status::Ok();
  }

 private:
  static bool IsCopied(const CopyTarget& target) {
    return target.queue->CopiedUpTo(target.position);
  }
  bool AllCopied() const { return std::all_of(targets_.begin(), targets_.end(), &IsCopied); }

  bool StepAll() {
    bool copied = false;
    for (const CopyTarget& target : targets_) {
      if (!IsCopied(target)) copied = target.queue->Step() || copied;
    }
    return copied;
  }

  /// Waits until there may be something to copy, or nothing is left.
  Status AwaitWork(const std::function<Status()>& on_tick) {
    std::vector<std::optional<Session::AwaitedSlices>> awaited;
    for (const CopyTarget& target : targets_) {
      const std::lock_guard lock(target.queue->mutex_);
      if (IsCopied(target)) continue;
      // Another thread may have taken a step since this one found none, after which there is
      // another one to take: what a batch awaits holds only if there is none.
      const size_t first = target.queue->SizeOfFirst();
      for (size_t i = 0; i < first; ++i) {
        const CopyBatch& batch = *target.queue->batches_[i];
        if (batch.CanStep()) return Status::Ok();
        awaited.push_back(batch.Awaited());
      }
    }
    Session& session = targets_.front().queue->session();
    if (awaited.empty()) return Status::Ok();
    if (awaited.size() == 1 && awaited.front().has_value()) {
      return session.WaitForSlices(*awaited.front(), on_tick);
    }
    return session.WaitForNews(
        [this] {
          return AllCopied() || std::any_of(targets_.begin(), targets_.end(), [](const auto& one) {
                   return !IsCopied(one) && one.queue->CanStep();
                 });
        },
        on_tick);
  }

  const std::span<const CopyTarget> targets_;
};

Status AwaitCopies(std::span<const CopyTarget> targets, const std::function<Status()>& on_tick) {
  return CopyWait(targets).Run(on_tick);
}

}  // namespace harmonaize
