#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/net_plugin.h"

namespace harmonaize::testing {

/// A message that is under way, and what became of it.
struct NetRequest {
  void* request = nullptr;
  bool done = false;
  std::vector<int> sizes;
};

/// Calls of the plugin as NCCL makes them: again and again until they are done, for a minute at
/// most. Failures are gtest's.
class NetConnections {
 public:
  explicit NetConnections(NetPlugin* plugin) : plugin_(plugin) {}

  void* Listen(NetHandle* handle);
  void* Connect(const NetHandle& handle);
  void* Accept(void* listen);

  NetRequest Send(void* comm, const void* data, size_t bytes, int tag,
                  void* registration = nullptr);
  NetRequest Receive(void* comm, void* data, size_t bytes, int tag, void* registration = nullptr);
  NetRequest ReceiveGroup(void* comm, std::vector<void*> data, std::vector<size_t> bytes,
                          std::vector<int> tags);
  /// Returns whether it has ended, after one look.
  bool Test(NetRequest* request);
  void Wait(NetRequest* request);
  void Wait(std::vector<NetRequest>* requests);
  /// Looks until the request fails; returns the code.
  ncclResult_t AwaitFailure(NetRequest* request);

 private:
  NetPlugin* const plugin_;
};

/// Returns bytes that differ by place and by `seed`.
std::vector<uint8_t> NetBytes(size_t bytes, uint64_t seed);

}  // namespace harmonaize::testing
