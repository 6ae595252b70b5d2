#include "plugins/nccl-net/net_plugin.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <exception>
#include <memory>
#include <span>

#include "plugins/nccl-abi/logger.h"
#include "plugins/nccl-net/carriers.h"
#include "plugins/nccl-net/connection.h"
#include "plugins/nccl-net/registration.h"
#include "src/base/status.h"
#include "src/client/pipes/pipe_port.h"

namespace harmonaize::nccl_net {
namespace {

using nccl_abi::kLogOfNet;
using nccl_abi::LogLevel;

/// Speed that is told where nobody knows it, in Mbit/s. It is what NCCL takes for an unknown card.
constexpr int kUnknownSpeedMbps = 10'000;
constexpr uint64_t kBytesPerMbit = 1'000'000 / 8;

/// Contexts of init that were not finalized. Versions before v11 have none.
std::atomic<int> contexts{0};

ncclResult_t CodeFor(Code code) {
  switch (code) {
    case Code::kOk: return ncclSuccess;
    case Code::kInvalidArgument: return ncclInvalidArgument;
    case Code::kInvalidUsage: return ncclInvalidUsage;
    case Code::kSystemError:
    case Code::kUnavailable: return ncclSystemError;
    case Code::kRemoteError: return ncclRemoteError;
    case Code::kInProgress: return ncclInProgress;
    case Code::kInternalError: break;
  }
  return ncclInternalError;
}

/// Tells NCCL's log of a failure, and returns its code.
ncclResult_t Told(const char* call, const Status& status) {
  if (status.ok()) return ncclSuccess;
  nccl_abi::Log(LogLevel::kWarning, kLogOfNet, "NET: {}: {}", call, status.message());
  return CodeFor(status.code());
}

/// Calls `work`, which returns a Status, for one of NCCL's calls.
template <typename Work>
ncclResult_t Answer(const char* call, Work&& work) noexcept {
  try {
    return Told(call, work());
  } catch (const std::exception& exception) {
    nccl_abi::Log(LogLevel::kWarning, kLogOfNet, "NET: {}: {}", call, exception.what());
  } catch (...) {
  }
  return ncclSystemError;
}

Status MissingArgument() {
  return InvalidArgument("an argument is NULL");
}

Connection* ConnectionOf(void* comm) {
  return static_cast<Connection*>(comm);
}

Status CloseConnection(void* comm, bool sends) {
  if (comm == nullptr) return MissingArgument();
  if (ConnectionOf(comm)->sends() != sends) {
    return InvalidUsage("a connection of the other direction");
  }
  Carriers::Get().Close(ConnectionOf(comm));
  return Status::Ok();
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// The device

ncclResult_t Init(void** context, nccl_abi::Logger logger) {
  nccl_abi::SetLogger(logger);
  return Answer("init", [&]() -> Status {
    const Result<std::shared_ptr<Session>> session = Session::Get();
    if (!session.ok()) return session.status();
    if (context != nullptr) {
      *context = &contexts;
      contexts.fetch_add(1, std::memory_order_relaxed);
    }
    nccl_abi::Log(LogLevel::kInfo, kLogOfNet, "NET: connections are carried by the host's daemon");
    return Status::Ok();
  });
}

ncclResult_t Finalize(void* context) {
  if (context != &contexts) return ncclInvalidArgument;
  return Answer("finalize", [&]() -> Status {
    if (contexts.fetch_sub(1, std::memory_order_relaxed) == 1) Carriers::Get().GiveUpPending();
    return Status::Ok();
  });
}

ncclResult_t Devices(int* count) {
  if (count == nullptr) return ncclInvalidArgument;
  *count = 1;
  return ncclSuccess;
}

ncclResult_t CheckDevice(int device) {
  return device == 0 ? ncclSuccess : ncclInvalidArgument;
}

char* DeviceName() {
  static char name[] = "harmonaize";
  return name;
}

// Needs a door of this process, which listening needs, too.
Properties DeviceProperties() {
  const Result<std::shared_ptr<Session>> session = Session::Get();
  if (!session.ok()) return {.speed_mbps = kUnknownSpeedMbps};
  const Result<OpenDoorReply> opened = PipePort::OpenDoor(**session);
  if (!opened.ok() || opened->host_bytes_per_second == 0) return {.speed_mbps = kUnknownSpeedMbps};
  const uint64_t mbps = opened->host_bytes_per_second / kBytesPerMbit;
  return {.speed_mbps = static_cast<int>(std::clamp<uint64_t>(mbps, 1, INT_MAX))};
}

int MostGroupedReceives() {
  return kMostGrouped;
}

size_t MostBytes() {
  return Transfer::kMostBytes;
}

ncclResult_t RefuseVirtualDevice() {
  return Answer("makeVDevice", [] {
    return InvalidUsage(
        "there is one device, which stands for all rails of the host: nothing is "
        "to be joined to it");
  });
}

// ---------------------------------------------------------------------------------------------
// Connections

ncclResult_t Listen(int device, void* handle, void** listen_comm) {
  return Answer("listen", [&]() -> Status {
    if (handle == nullptr || listen_comm == nullptr) return MissingArgument();
    if (device != 0) return InvalidArgument("there is no device {}", device);
    HZ_ASSIGN_OR_RETURN(Listener* const listener, Carriers::Get().Listen());
    *static_cast<Handle*>(handle) = listener->handle;
    *listen_comm = listener;
    return Status::Ok();
  });
}

ncclResult_t Connect(int device, void* handle, void** send_comm) {
  return Answer("connect", [&]() -> Status {
    if (handle == nullptr || send_comm == nullptr) return MissingArgument();
    *send_comm = nullptr;
    if (device != 0) return InvalidArgument("there is no device {}", device);
    HZ_ASSIGN_OR_RETURN(*send_comm, Carriers::Get().Connect(static_cast<Handle*>(handle)));
    return Status::Ok();
  });
}

ncclResult_t Accept(void* listen_comm, void** recv_comm) {
  return Answer("accept", [&]() -> Status {
    if (listen_comm == nullptr || recv_comm == nullptr) return MissingArgument();
    *recv_comm = nullptr;
    HZ_ASSIGN_OR_RETURN(*recv_comm, Carriers::Get().Accept(static_cast<Listener*>(listen_comm)));
    return Status::Ok();
  });
}

ncclResult_t CloseSend(void* send_comm) {
  return Answer("closeSend", [&] { return CloseConnection(send_comm, true); });
}

ncclResult_t CloseRecv(void* recv_comm) {
  return Answer("closeRecv", [&] { return CloseConnection(recv_comm, false); });
}

ncclResult_t CloseListen(void* listen_comm) {
  return Answer("closeListen", [&]() -> Status {
    if (listen_comm == nullptr) return MissingArgument();
    Carriers::Get().Close(static_cast<Listener*>(listen_comm));
    return Status::Ok();
  });
}

// ---------------------------------------------------------------------------------------------
// Memory

ncclResult_t RegMr(void* comm, void* data, size_t bytes, int kind, void** registration) {
  return Answer("regMr", [&]() -> Status {
    if (comm == nullptr || registration == nullptr || (data == nullptr && bytes > 0)) {
      return MissingArgument();
    }
    if (kind != nccl_abi::kPointerToHost) {
      return InvalidArgument("memory of kind {}: the device takes host memory alone", kind);
    }
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<Registration> made,
                        Registration::Make(ConnectionOf(comm)->session(), data, bytes));
    *registration = made.release();
    return Status::Ok();
  });
}

ncclResult_t RegMrDmaBuf(void* comm, void*, size_t, int, uint64_t, int, void** registration) {
  return Answer("regMrDmaBuf", [&]() -> Status {
    if (comm == nullptr || registration == nullptr) return MissingArgument();
    return InvalidUsage("a DMA-BUF: the device takes host memory alone, as its properties say");
  });
}

ncclResult_t DeregMr(void* comm, void* registration) {
  return Answer("deregMr", [&]() -> Status {
    if (comm == nullptr) return MissingArgument();
    delete static_cast<Registration*>(registration);
    return Status::Ok();
  });
}

// ---------------------------------------------------------------------------------------------
// Messages

ncclResult_t Isend(void* send_comm, void* data, size_t bytes, int tag, void* registration,
                   void** request) {
  return Answer("isend", [&]() -> Status {
    if (send_comm == nullptr || request == nullptr || (data == nullptr && bytes > 0)) {
      return MissingArgument();
    }
    *request = nullptr;
    Connection* const connection = ConnectionOf(send_comm);
    if (!connection->sends()) return InvalidUsage("a send on a connection that receives");
    const Connection::Posted message{data, bytes, tag,
                                     static_cast<const Registration*>(registration)};
    HZ_ASSIGN_OR_RETURN(*request, connection->Post({&message, 1}));
    return Status::Ok();
  });
}

ncclResult_t Irecv(void* recv_comm, int count, void** data, const size_t* bytes, const int* tags,
                   void** registrations, void** request) {
  return Answer("irecv", [&]() -> Status {
    if (recv_comm == nullptr || request == nullptr || data == nullptr || bytes == nullptr ||
        tags == nullptr) {
      return MissingArgument();
    }
    *request = nullptr;
    if (count < 1 || count > kMostGrouped) {
      return InvalidArgument("{} receives in one request, which has 1 to {}", count, kMostGrouped);
    }
    Connection* const connection = ConnectionOf(recv_comm);
    if (connection->sends()) return InvalidUsage("a receive on a connection that sends");
    std::array<Connection::Posted, kMostGrouped> messages;
    for (int i = 0; i < count; ++i) {
      if (data[i] == nullptr && bytes[i] > 0) return MissingArgument();
      const void* const registration = registrations == nullptr ? nullptr : registrations[i];
      messages[static_cast<size_t>(i)] = {data[i], bytes[i], tags[i],
                                          static_cast<const Registration*>(registration)};
    }
    HZ_ASSIGN_OR_RETURN(*request,
                        connection->Post(std::span(messages).first(static_cast<size_t>(count))));
    return Status::Ok();
  });
}

// Data is in host memory when a receive has ended: nothing is to be flushed.
ncclResult_t Iflush(void* recv_comm, int, void**, int*, void**, void** request) {
  if (recv_comm == nullptr || request == nullptr) return ncclInvalidArgument;
  *request = nullptr;
  return ncclSuccess;
}

ncclResult_t Test(void* request, int* done, int* bytes) {
  return Answer("test", [&]() -> Status {
    if (request == nullptr || done == nullptr) return MissingArgument();
    *done = 0;
    auto* const tested = static_cast<Request*>(request);
    const Status status = tested->connection->Test(tested);
    if (status.code() == Code::kInProgress) return Status::Ok();
    HZ_RETURN_IF_ERROR(status);
    for (size_t i = 0; bytes != nullptr && i < tested->transfers.size(); ++i) {
      bytes[i] = static_cast<int>(std::min<uint64_t>(tested->transfers[i].moved(), INT_MAX));
    }
    *done = 1;
    tested->connection->Retire(tested);
    return Status::Ok();
  });
}

ncclResult_t GetDeviceMr(void*, void*, void**) {
  return Answer("getDeviceMr",
                [] { return InvalidUsage("no connection is driven by a GPU itself"); });
}

ncclResult_t IrecvConsumed(void*, int, void*) {
  return Answer("irecvConsumed",
                [] { return InvalidUsage("no connection is driven by a GPU itself"); });
}

}  // namespace harmonaize::nccl_net
