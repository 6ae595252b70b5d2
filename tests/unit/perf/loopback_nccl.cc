// A NCCL for the tests of the benchmarks: ranks of one process, scalar loops, no daemon. Slow and
// obviously right, so that a wrong result is the harness's fault; PERF_LOOPBACK_FAULT makes it
// wrong on purpose, so that the harness's checks can be seen to fail:
//   element  the last byte of rank 0's output is flipped
//   outside  one byte behind rank 0's output is written
//   input    one byte of rank 0's input is written
//   hang     operations never finish until the communicator is revoked
//   refuse   the last rank's calls fail at once, and the other ranks wait for it

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "include/harmonaize.h"
#include "perf/harness/data_type.h"

namespace {

using harmonaize::perf::AllTypes;
using harmonaize::perf::DecodeFloat;
using harmonaize::perf::EncodeFloat;
using harmonaize::perf::TypeInfo;

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kGather,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kScatter,
  kSend,
  kReceive
};

struct Operation {
  Kind kind;
  const std::byte* send;
  std::byte* recv;
  size_t count;
  ncclDataType_t type;
  int op;
  int root;
};

struct World;

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank;
  uint64_t sequence = 0;
  std::map<int, std::vector<std::byte>> scalars;  // by operator
  int next_operator = ncclNumOps;
};

namespace {

struct Pending {
  std::vector<const Operation*> operations;  // by rank
  size_t posted = 0;
};

struct World {
  explicit World(int n) : ranks(n), comms(static_cast<size_t>(n)) {}
  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<ncclComm*> comms;
  std::map<uint64_t, Pending> pending;
  uint64_t finished = 0;  // collectives with a lower number are done
  std::map<std::pair<int, int>, std::deque<const Operation*>> sends, receives;
  std::map<const Operation*, bool> transfers;
  bool revoked = false;
};

std::mutex registry_mutex;
std::map<std::string, std::shared_ptr<World>> registry;
struct Posted {
  ncclComm* comm;
  std::unique_ptr<Operation> operation;
  uint64_t sequence;
};
thread_local int group_depth = 0;
thread_local std::vector<Posted> posted;

const TypeInfo& Info(ncclDataType_t type) {
  return AllTypes()[static_cast<size_t>(type)];
}

bool Fault(const char* name) {
  const char* fault = std::getenv("PERF_LOOPBACK_FAULT");
  return fault != nullptr && std::strcmp(fault, name) == 0;
}

double ScalarOf(const ncclComm& comm, const TypeInfo& type, int op) {
  const auto found = comm.scalars.find(op);
  if (found == comm.scalars.end()) return 1;
  if (type.is_float) return DecodeFloat(type, found->second.data());
  return static_cast<double>(found->second[0]);
}

uint64_t LoadInteger(const TypeInfo& type, const std::byte* from) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, type.size);
  if (!type.is_signed) return bits;
  const int unused = 64 - static_cast<int>(type.size) * 8;
  return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
}

template <typename T>
T Combine(int op, T a, T b) {
  switch (op) {
    case ncclProd: return a * b;
    case ncclMax: return a < b ? b : a;
    case ncclMin: return b < a ? b : a;
    default: return a + b;
  }
}

// One element of the reduction. Integers are wide enough for what the patterns contain; signed ones
// are compared and divided as signed.
void ReduceElement(const World& world, const Pending& pending, size_t index, std::byte* out) {
  const Operation& first = *pending.operations[0];
  const TypeInfo& type = Info(first.type);
  double real = 0;
  uint64_t integer = 0;
  for (size_t rank = 0; rank < pending.operations.size(); ++rank) {
    const Operation& operation = *pending.operations[rank];
    const std::byte* from = operation.send + index * type.size;
    const double scalar = ScalarOf(*world.comms[rank], type, operation.op);
    if (type.is_float) {
      const double value = DecodeFloat(type, from) * scalar;
      real = rank == 0 ? value : Combine(first.op, real, value);
    } else {
      const uint64_t value = LoadInteger(type, from) * static_cast<uint64_t>(scalar);
      if (rank == 0) {
        integer = value;
      } else if (type.is_signed && (first.op == ncclMin || first.op == ncclMax)) {
        integer = static_cast<uint64_t>(
            Combine(first.op, static_cast<int64_t>(integer), static_cast<int64_t>(value)));
      } else {
        integer = Combine(first.op, integer, value);
      }
    }
  }
  if (first.op == ncclAvg) {
    real /= world.ranks;
    integer = type.is_signed ? static_cast<uint64_t>(static_cast<int64_t>(integer) / world.ranks)
                             : integer / static_cast<uint64_t>(world.ranks);
  }
  if (type.is_float) {
    EncodeFloat(type, real, out);
  } else {
    std::memcpy(out, &integer, type.size);
  }
}

std::vector<std::byte> ReduceAll(const World& world, const Pending& pending, size_t count) {
  const size_t size = Info(pending.operations[0]->type).size;
  std::vector<std::byte> result(count * size);
  for (size_t i = 0; i < count; ++i) ReduceElement(world, pending, i, result.data() + i * size);
  return result;
}

// All blocks of all ranks, so that writing an output cannot disturb an input in place.
std::vector<std::vector<std::byte>> CopyInputs(const Pending& pending, size_t bytes) {
  std::vector<std::vector<std::byte>> inputs;
  for (const Operation* operation : pending.operations) {
    inputs.emplace_back(operation->send, operation->send + bytes);
  }
  return inputs;
}

void Copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void ExecuteReduction(const World& world, const Pending& pending) {
  const Operation& first = *pending.operations[0];
  const size_t bytes = first.count * Info(first.type).size;
  const bool scatter = first.kind == Kind::kReduceScatter;
  const size_t blocks = scatter ? static_cast<size_t>(world.ranks) : 1;
  const std::vector<std::byte> result = ReduceAll(world, pending, first.count * blocks);
  for (size_t rank = 0; rank < pending.operations.size(); ++rank) {
    if (first.kind == Kind::kReduce && static_cast<int>(rank) != first.root) continue;
    Copy(pending.operations[rank]->recv, result.data() + (scatter ? rank * bytes : 0), bytes);
  }
}

void ExecuteMovement(const World& world, const Pending& pending) {
  const Operation& first = *pending.operations[0];
  const size_t bytes = first.count * Info(first.type).size;
  const auto n = static_cast<size_t>(world.ranks);
  const auto root = static_cast<size_t>(first.root);
  if (first.kind == Kind::kScatter || first.kind == Kind::kBroadcast) {
    const bool scatter = first.kind == Kind::kScatter;
    const std::byte* from = pending.operations[root]->send;
    const std::vector<std::byte> input(from, from + (scatter ? n : 1) * bytes);
    for (size_t rank = 0; rank < n; ++rank) {
      Copy(pending.operations[rank]->recv, input.data() + (scatter ? rank * bytes : 0), bytes);
    }
    return;
  }
  const bool all_to_all = first.kind == Kind::kAllToAll;
  const auto inputs = CopyInputs(pending, all_to_all ? n * bytes : bytes);
  for (size_t rank = 0; rank < n; ++rank) {
    if (first.kind == Kind::kGather && rank != root) continue;
    for (size_t source = 0; source < n; ++source) {
      Copy(pending.operations[rank]->recv + source * bytes,
           inputs[source].data() + (all_to_all ? rank * bytes : 0), bytes);
    }
  }
}

void InjectFault(const World& world, const Pending& pending) {
  const Operation& zero = *pending.operations[0];
  const size_t bytes = zero.count * Info(zero.type).size;
  const bool many =
      zero.kind == Kind::kGather || zero.kind == Kind::kAllGather || zero.kind == Kind::kAllToAll;
  const size_t out_bytes = many ? bytes * static_cast<size_t>(world.ranks) : bytes;
  if (Fault("element") && out_bytes > 0) zero.recv[out_bytes - 1] ^= std::byte{0xFF};
  if (Fault("outside")) zero.recv[out_bytes] ^= std::byte{0xFF};
  if (Fault("input") && bytes > 0) const_cast<std::byte*>(zero.send)[0] ^= std::byte{0xFF};
}

void Execute(const World& world, const Pending& pending) {
  switch (pending.operations[0]->kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kReduceScatter: ExecuteReduction(world, pending); break;
    default: ExecuteMovement(world, pending);
  }
  InjectFault(world, pending);
}

void PostTransfer(World& world, int rank, const Operation* operation) {
  const bool send = operation->kind == Kind::kSend;
  const auto key =
      send ? std::make_pair(rank, operation->root) : std::make_pair(operation->root, rank);
  (send ? world.sends : world.receives)[key].push_back(operation);
  auto& sends = world.sends[key];
  auto& receives = world.receives[key];
  while (!sends.empty() && !receives.empty()) {
    const Operation* receive = receives.front();
    Copy(receive->recv, sends.front()->send, receive->count * Info(receive->type).size);
    world.transfers[sends.front()] = true;
    world.transfers[receive] = true;
    sends.pop_front();
    receives.pop_front();
  }
}

void Post(Posted* entry) {
  World& world = *entry->comm->world;
  const std::lock_guard lock(world.mutex);
  const Operation* operation = entry->operation.get();
  if (operation->kind == Kind::kSend || operation->kind == Kind::kReceive) {
    PostTransfer(world, entry->comm->rank, operation);
  } else {
    entry->sequence = entry->comm->sequence++;
    Pending& pending = world.pending[entry->sequence];
    pending.operations.resize(static_cast<size_t>(world.ranks));
    pending.operations[static_cast<size_t>(entry->comm->rank)] = operation;
    if (++pending.posted == pending.operations.size() && !Fault("hang")) {
      Execute(world, pending);
      world.pending.erase(entry->sequence);
      world.finished = entry->sequence + 1;
    }
  }
  world.changed.notify_all();
}

ncclResult_t WaitFor(const Posted& entry) {
  World& world = *entry.comm->world;
  std::unique_lock lock(world.mutex);
  const Operation* operation = entry.operation.get();
  const bool transfer = operation->kind == Kind::kSend || operation->kind == Kind::kReceive;
  world.changed.wait(lock, [&] {
    return world.revoked ||
           (transfer ? world.transfers.contains(operation) : world.finished > entry.sequence);
  });
  world.transfers.erase(operation);
  return world.revoked ? ncclRemoteError : ncclSuccess;
}

ncclResult_t Submit(ncclComm* comm, Operation operation) {
  if (Fault("refuse") && comm->rank == comm->world->ranks - 1) return ncclInvalidUsage;
  posted.push_back({comm, std::make_unique<Operation>(operation), 0});
  if (group_depth > 0) return ncclSuccess;
  ++group_depth;
  return ncclGroupEnd();
}

const std::byte* In(const void* p) {
  return static_cast<const std::byte*>(p);
}
std::byte* Out(void* p) {
  return static_cast<std::byte*>(p);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}
const char* hzGetVersion(void) {
  return "loopback";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int next = 0;
  std::memset(id, 0, sizeof(*id));
  id->internal[0] = static_cast<char>(++next);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  const std::lock_guard lock(registry_mutex);
  std::shared_ptr<World>& world = registry[std::string(id.internal, sizeof(id.internal))];
  if (!world) world = std::make_shared<World>(ranks);
  *comm = new ncclComm{world, rank, 0, {}, ncclNumOps};
  world->comms[static_cast<size_t>(rank)] = *comm;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommRevoke(ncclComm_t comm, int) {
  const std::lock_guard lock(comm->world->mutex);
  comm->world->revoked = true;
  comm->world->changed.notify_all();
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return ncclCommDestroy(comm);  // all threads have left it by now
}

ncclResult_t ncclMemAlloc(void** pointer, size_t size) {
  *pointer = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* pointer) {
  std::free(pointer);
  return ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t, void* buffer, size_t, void** handle) {
  *handle = buffer;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) {
  return ncclSuccess;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t, void* buffer, size_t, ncclWindow_t* window, int) {
  *window = static_cast<ncclWindow_t>(buffer);
  return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
  return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t, ncclComm_t comm) {
  *op = static_cast<ncclRedOp_t>(comm->next_operator++);
  comm->scalars[*op].assign(In(scalar), In(scalar) + Info(type).size);
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  comm->scalars.erase(op);
  return ncclSuccess;
}

ncclResult_t hzStreamCreate(cudaStream_t* stream) {
  *stream = reinterpret_cast<cudaStream_t>(new int);
  return ncclSuccess;
}
ncclResult_t hzStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<int*>(stream);
  return ncclSuccess;
}
ncclResult_t hzStreamQuery(cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t hzStreamSynchronize(cudaStream_t) {
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
  if (--group_depth > 0) return ncclSuccess;
  std::vector<Posted> mine = std::move(posted);
  posted.clear();
  for (Posted& entry : mine) Post(&entry);
  ncclResult_t result = ncclSuccess;
  for (const Posted& entry : mine) {
    const ncclResult_t one = WaitFor(entry);
    if (result == ncclSuccess) result = one;
  }
  return result;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return Submit(comm, {Kind::kAllReduce, In(in), Out(out), count, type, op, 0});
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t) {
  return Submit(comm, {Kind::kReduce, In(in), Out(out), count, type, op, root});
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
  return Submit(comm, {Kind::kBroadcast, In(in), Out(out), count, type, 0, root});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t) {
  return Submit(comm, {Kind::kAllGather, In(in), Out(out), count, type, 0, 0});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return Submit(comm, {Kind::kReduceScatter, In(in), Out(out), count, type, op, 0});
}
ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t) {
  return Submit(comm, {Kind::kAllToAll, In(in), Out(out), count, type, 0, 0});
}
ncclResult_t ncclGather(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t) {
  return Submit(comm, {Kind::kGather, In(in), Out(out), count, type, 0, root});
}
ncclResult_t ncclScatter(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t) {
  return Submit(comm, {Kind::kScatter, In(in), Out(out), count, type, 0, root});
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return Submit(comm, {Kind::kSend, In(in), nullptr, count, type, 0, peer});
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return Submit(comm, {Kind::kReceive, nullptr, Out(out), count, type, 0, peer});
}

}  // extern "C"
