#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugins/torch/source/coalesced_work.h"
#include "plugins/torch/source/communicator.h"
#include "plugins/torch/source/membership.h"
#include "plugins/torch/source/operation.h"
#include "plugins/torch/source/reduction.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

/// Posts all-gathers, from the first tensor of each pair into the second, as one group. Both are
/// packed.
ncclResult_t PostAllGathers(const std::vector<std::pair<at::Tensor, at::Tensor>>& pairs,
                            ncclComm_t communicator, cudaStream_t stream);

/// A process group's face to c10d. It checks arguments, and makes a plan of each call; the plan's
/// Operation does the rest. Tensors are CPU tensors. Calls may come from any thread; those of all
/// ranks have to come in the same order, as with every backend.
class Backend : public BackendBase {
 public:
  /// Waits until all ranks of the group have come. Throws: as Membership::Form.
  static c10::intrusive_ptr<Backend> Create(GroupPlace place);

  /// Makes a group that has no ranks until `reconfigure`. `place` says what the caller is told of
  /// its rank and size until then.
  static c10::intrusive_ptr<Backend> CreateUnformed(GroupPlace place);

  /// `membership` is null until `reconfigure`.
  Backend(GroupPlace place, std::shared_ptr<Membership> membership);
  ~Backend() override;

  const std::string getBackendName() const override { return "harmonaize"; }
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setSequenceNumberForGroup() override {}

  // backend_collectives.cc
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  // Not marked as overriding: older versions of c10d do not have them.
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options);
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options);
  WorkPointer gather_single(at::Tensor& output, at::Tensor& input,
                            const c10d::GatherOptions& options);

  // backend_messages.cc
  WorkPointer send(Tensors& tensors, int destination, int tag) override;
  WorkPointer recv(Tensors& tensors, int source, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;

  // backend.cc
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // Not marked as overriding, as above.
  c10::intrusive_ptr<BackendOptions> getBackendOptions();
  /// Ends everything in flight with an error, on this rank at once.
  void abort();
  /// Lets go of the communicators, once what is in flight has ended.
  void shutdown();
  void setTimeout(std::chrono::milliseconds timeout);
  bool supportsCoalescing() const { return true; }
  /// What is begun from now on is waited for by the Work that endCoalescing returns. Each operation
  /// begins when it is called, and holds up no other one.
  void startCoalescing() { coalescing_.Start(); }
  WorkPointer endCoalescing() { return coalescing_.End(rank_); }
  /// The same for PyTorch before 2.0, where the caller waits for each Work by itself.
  void endCoalescing(std::vector<WorkPointer>&) { endCoalescing(); }
  bool supportsSplitting() const { return true; }
  /// Makes the group of these ranks, which call this together. Null at other ranks.
  c10::intrusive_ptr<BackendBase> split(const c10::intrusive_ptr<c10d::Store>& store,
                                        const std::vector<int>& ranks,
                                        const c10::intrusive_ptr<BackendOptions>& options);
  bool supportsShrinking() const { return true; }
  /// Makes the group without these ranks, which may be gone. The others call this together. With
  /// NCCL_SHRINK_ABORT, what is in flight ends with an error first.
  c10::intrusive_ptr<BackendBase> shrink(const std::vector<int64_t>& excluded, int flags,
                                         const c10::intrusive_ptr<BackendOptions>& options);
  /// Returns the ranks of the group that are gone, for `shrink`. Asks the daemon.
  std::vector<int> LostRanks() const;
  bool supportsReconfigure() const { return true; }
  /// Returns this process's name in `reconfigure`. It does not change.
  std::string get_reconfigure_handle() const { return handle_; }
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  /// Makes this the group of the processes with these handles, which all call this. What is in
  /// flight ends with an error first; no other call may be made meanwhile. Ranks are the places in
  /// an ordered list, and in a set the places when sorted. The processes meet at the store, and
  /// have to share it. Waits until all have come; the returned Work is that of a barrier.
  /// Throws: BackendError that names the ranks that have not come in time. The group then has no
  /// ranks, and can be reconfigured again, with another uuid.
  WorkPointer reconfigure(const c10d::ReconfigureOptions& options);
#endif
  bool isInitialized();
  bool supportsTensorAlloc(c10::DeviceIndex) {
    return true;
  }
  std::shared_ptr<c10::Allocator> getMemAllocator();
  at::Tensor allocateTensor(long size, at::TensorOptions options);

 private:
  using Milliseconds = std::chrono::milliseconds;

  /// Checks that the tensors are what the library can carry, or throws.
  void CheckCarried(const char* call, const Tensors& tensors) const;
  /// Throws in a child that was forked after the group was made: its threads are the parent's.
  void CheckProcess() const;
  void CheckRoot(const char* call, int64_t root) const;

  /// Begins an operation with the plan, which is waited for with others while calls are coalesced.
  c10::intrusive_ptr<Operation> Begin(OperationPlan plan,
                                      const std::shared_ptr<Communicator>& communicator);
  /// The same for one that has an order among others. `in_order` calls what it is given, which has
  /// the communicator keep the operation, while no other one can come between.
  c10::intrusive_ptr<Operation> Begin(
      OperationPlan plan, const std::shared_ptr<Communicator>& communicator,
      const std::function<void(const std::function<void()>& keep)>& in_order);
  /// Begins a collective with the plan. `call` is c10d's name of it; `like` a tensor that describes
  /// it.
  WorkPointer Collective(OperationPlan plan, const char* call, const Tensors& like,
                         Milliseconds timeout);
  WorkPointer Exchange(OperationPlan plan, const char* call, const Tensors& like,
                       Milliseconds timeout);
  WorkPointer ReduceScatterBlocks(const Tensors& outputs, const Tensors& blocks, OperationPlan plan,
                                  const c10d::ReduceScatterOptions& options);
  // backend_messages.cc
  /// Where messages with a rank go: the communicator, and the rank's number there.
  struct Route {
    std::shared_ptr<Communicator> communicator;
    int peer;
  };
  static Route RouteTo(Membership& members, int peer, int tag);
  void CheckPeer(const char* call, int peer, int tag) const;
  static std::function<ncclResult_t(ncclComm_t, cudaStream_t)> PostReceive(const at::Tensor& memory,
                                                                           int peer);
  /// Announces a message that waits, if its receiver takes messages from anybody. `number` counts
  /// the messages to that rank with that tag.
  static void AnnounceWhileWaiting(const std::shared_ptr<Membership>& members,
                                   const c10::intrusive_ptr<Operation>& operation, int destination,
                                   int tag, uint64_t number);
  /// Receives the next message that a rank has announced, by `operation`. Returns whether there was
  /// one, or nothing is to be received any more.
  static bool ReceiveAnnounced(Membership& members, const c10::intrusive_ptr<Operation>& operation,
                               const at::Tensor& memory, int tag);

  // backend_sparse.cc
  WorkPointer AllReduceSparse(const at::Tensor& tensor, const c10d::AllreduceOptions& options);
  /// Returns how many values each rank's sparse tensor has.
  std::vector<int64_t> ValuesOfRanks(const at::Tensor& sparse, Milliseconds timeout);

  std::string Describe(const char* call, const Tensors& like) const;
  Milliseconds TimeoutOr(Milliseconds given) const;

  /// Returns null where the group has no ranks yet, or was not formed again.
  std::shared_ptr<Membership> MembersIfAny() const;
  /// The same. Throws: BackendError where MembersIfAny returns null.
  std::shared_ptr<Membership> Members() const;
  /// Leaves the group without ranks. Returns what it had, or null.
  std::shared_ptr<Membership> TakeMembership();

  const GroupPlace place_;  ///< As the group was made.
  const std::string handle_;
  const int process_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<uint64_t> sequence_{0};
  Coalescing coalescing_;

  mutable std::mutex membership_mutex_;  // guards the one below
  std::shared_ptr<Membership> membership_;
};

}  // namespace harmonaize_torch
