#include "shim/stock_communicator.h"

#include <algorithm>
#include <utility>

#include "src/base/log.h"
#include "src/client/operation/group.h"
#include "src/client/operation/launch.h"
#include "src/client/operation/operation.h"
#include "src/numerics/types.h"

namespace harmonaize::shim {
namespace {

/// Adds to a counter of which this rank is the only writer.
void AddTo(std::atomic<uint64_t>* counter, uint64_t amount) {
  counter->fetch_add(amount, std::memory_order_relaxed);
}

bool HasRootInRange(Collective collective, int root, int ranks) {
  const bool matters = HasRoot(collective) || IsPointToPoint(collective);
  return !matters || (root >= 0 && root < ranks);
}

}  // namespace

Result<std::shared_ptr<StockCommunicator>> StockCommunicator::Make(ncclComm_t handle,
                                                                   Communicator* witness) {
  HZ_ASSIGN_OR_RETURN(HostStream* const stream, HostStream::Create());
  witness->stock_nccl().carries.store(1, std::memory_order_relaxed);
  return std::shared_ptr<StockCommunicator>(new StockCommunicator(handle, witness, stream));
}

void StockCommunicator::Retire() {
  const std::lock_guard lock(mutex_);
  retired_ = true;
}

void StockCommunicator::CloseStream() {
  HostStream* stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    retired_ = true;
    stream = std::exchange(stream_, nullptr);
  }
  if (stream != nullptr) static_cast<void>(HostStream::Destroy(stream));
}

void StockCommunicator::Witness(Collective collective, int root) {
  // What stock NCCL refuses is not shown, and nobody waits for a rank that sends to itself.
  if (!HasRootInRange(collective, root, witness_->ranks())) return;
  if (IsPointToPoint(collective) && root == witness_->rank()) return;
  HostStream* const stream = StreamInUse();
  // A witness that has failed tells no more.
  if (stream == nullptr || !witness_->CheckUsable().ok()) return;
  const Operation shown{.collective = collective,
                        .root = root,
                        .communicator = witness_,
                        .stream = stream,
                        // On the inline path it would wait for the other ranks, if briefly.
                        .offload = true};
  StockGroup& group = StockGroup::OfThisThread();
  if (group.open()) return group.Note(shown);
  // May wait for room, so it holds no lock: an abort in another thread ends the wait.
  KeepFailure(LaunchOperation(shown));
}

void StockCommunicator::KeepFailure(const Status& status) {
  if (status.ok() || status.code() == Code::kInProgress) return;
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
}

HostStream* StockCommunicator::StreamInUse() {
  const std::lock_guard lock(mutex_);
  return retired_ || !failure_.ok() ? nullptr : stream_;
}

void StockCommunicator::Count(uint64_t calls, uint64_t bytes, std::chrono::nanoseconds inside) {
  const std::lock_guard lock(mutex_);
  if (retired_) return;
  StockNcclSlot& told = witness_->stock_nccl();
  AddTo(&told.calls, calls);
  AddTo(&told.bytes, bytes);
  AddTo(&told.nanoseconds, static_cast<uint64_t>(std::max<int64_t>(inside.count(), 0)));
}

Status StockCommunicator::Failure() {
  const std::lock_guard lock(mutex_);
  // A daemon that is gone sees no more, and the operations go on.
  if (retired_ || witness_->session().lost()) return Status::Ok();
  // An operation's failure comes first: it is why others may have ended the communicator since.
  if (failure_.ok()) {
    const Status shown = stream_->Query();
    if (shown.code() != Code::kInProgress) failure_ = shown;
  }
  if (failure_.ok()) failure_ = witness_->CheckHealth();
  return witness_->session().lost() ? Status::Ok() : failure_;
}

StockGroup& StockGroup::OfThisThread() {
  thread_local StockGroup group;
  return group;
}

ncclResult_t StockGroup::Enter(StockCommunicator& user) {
  if (!Group::OfThisThread().open()) return ncclSuccess;
  if (!open_) {
    static const StockFunction<ncclResult_t()> start("ncclGroupStart");
    const ncclResult_t started = start();
    if (started != ncclSuccess) return started;
    open_ = true;
  }
  const bool known = std::any_of(users_.begin(), users_.end(),
                                 [&](const auto& other) { return other.get() == &user; });
  if (!known) users_.push_back(user.shared_from_this());
  return ncclSuccess;
}

void StockGroup::Show() {
  std::vector<Communicator*> communicators;
  const std::vector<Operation> shown = std::exchange(shown_, {});
  if (shown.empty()) return;
  for (const Operation& operation : shown) communicators.push_back(operation.communicator);
  InGroup in_group(&communicators);
  const Status status = LaunchOperations(shown, &in_group);
  for (const auto& user : users_) user->KeepFailure(status);
}

ncclResult_t StockGroup::End() {
  if (!open_) return ncclSuccess;
  Show();
  open_ = false;
  static const StockFunction<ncclResult_t()> end("ncclGroupEnd");
  const auto start = std::chrono::steady_clock::now();
  const ncclResult_t result = end();
  const auto inside = std::chrono::steady_clock::now() - start;
  for (const auto& user : std::exchange(users_, {})) user->Count(0, 0, inside);
  return ConcludeStock("ncclGroupEnd", nullptr, result);
}

ncclResult_t ConcludeStock(const char* function, ncclComm_t comm, ncclResult_t result) {
  if (result == ncclSuccess || result == ncclInProgress) return result;
  static const StockFunction<const char*(ncclComm_t)> last_error("ncclGetLastError");
  static const StockFunction<const char*(ncclResult_t)> error_string("ncclGetErrorString");
  const StockCommunicator* const carrier = comm == nullptr ? nullptr : comm->carrier.load();
  const char* text = last_error(carrier == nullptr ? nullptr : carrier->handle());
  if (text == nullptr || *text == '\0') text = error_string(result);
  ConcludeFailure(function, comm, InternalError("stock NCCL: {}", text != nullptr ? text : ""));
  return result;
}

CarriedCall CarriedOperation(ncclComm_t comm, Collective collective, uint64_t count, int type,
                             int root) {
  CarriedCall call{.is_operation = true, .collective = collective, .root = root};
  if (type < 0 || type >= ncclNumTypes || !IsAlive(comm)) return call;
  const Communicator& witness = *comm->communicator;
  const BufferBlocks blocks = BlocksOf(collective, witness.ranks(), witness.rank(), root);
  call.bytes =
      count * std::max(blocks.send, blocks.receive) * DataTypeSize(static_cast<DataType>(type));
  return call;
}

}  // namespace harmonaize::shim
