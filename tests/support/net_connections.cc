#include "tests/support/net_connections.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <utility>

namespace harmonaize::testing {
namespace {

/// Calls `look` until it returns true; false after a minute.
template <typename Look>
bool Poll(Look&& look) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!look()) {
    if (std::chrono::steady_clock::now() > until) return false;
    sched_yield();
  }
  return true;
}

}  // namespace

void* NetConnections::Listen(NetHandle* handle) {
  void* listen = nullptr;
  EXPECT_EQ(plugin_->listen(0, handle, &listen), ncclSuccess) << NetLog();
  return listen;
}

void* NetConnections::Connect(const NetHandle& handle) {
  NetHandle own = handle;
  void* send = nullptr;
  EXPECT_TRUE(Poll([&] {
    const ncclResult_t result = plugin_->connect(0, &own, &send);
    EXPECT_EQ(result, ncclSuccess) << NetLog();
    return send != nullptr || result != ncclSuccess;
  })) << "nobody has accepted";
  return send;
}

void* NetConnections::Accept(void* listen) {
  void* receive = nullptr;
  EXPECT_TRUE(Poll([&] {
    const ncclResult_t result = plugin_->accept(listen, &receive);
    EXPECT_EQ(result, ncclSuccess) << NetLog();
    return receive != nullptr || result != ncclSuccess;
  })) << "nobody has connected";
  return receive;
}

NetRequest NetConnections::Send(void* comm, const void* data, size_t bytes, int tag,
                                void* registration) {
  NetRequest request;
  request.sizes.resize(1);
  EXPECT_TRUE(Poll([&] {
    const ncclResult_t result =
        plugin_->isend(comm, const_cast<void*>(data), bytes, tag, registration, &request.request);
    EXPECT_EQ(result, ncclSuccess) << NetLog();
    return request.request != nullptr || result != ncclSuccess;
  })) << "no request was to be had";
  return request;
}

NetRequest NetConnections::Receive(void* comm, void* data, size_t bytes, int tag,
                                   void* registration) {
  NetRequest request;
  request.sizes.resize(1);
  EXPECT_TRUE(Poll([&] {
    const ncclResult_t result =
        plugin_->irecv(comm, 1, &data, &bytes, &tag, &registration, &request.request);
    EXPECT_EQ(result, ncclSuccess) << NetLog();
    return request.request != nullptr || result != ncclSuccess;
  })) << "no request was to be had";
  return request;
}

NetRequest NetConnections::ReceiveGroup(void* comm, std::vector<void*> data,
                                        std::vector<size_t> bytes, std::vector<int> tags) {
  NetRequest request;
  request.sizes.resize(data.size());
  std::vector<void*> registrations(data.size(), nullptr);
  EXPECT_TRUE(Poll([&] {
    const ncclResult_t result =
        plugin_->irecv(comm, static_cast<int>(data.size()), data.data(), bytes.data(), tags.data(),
                       registrations.data(), &request.request);
    EXPECT_EQ(result, ncclSuccess) << NetLog();
    return request.request != nullptr || result != ncclSuccess;
  })) << "no request was to be had";
  return request;
}

bool NetConnections::Test(NetRequest* request) {
  if (request->done || request->request == nullptr) return true;
  int done = 0;
  const ncclResult_t result = plugin_->test(request->request, &done, request->sizes.data());
  EXPECT_EQ(result, ncclSuccess) << NetLog();
  request->done = done != 0;
  return request->done || result != ncclSuccess;
}

void NetConnections::Wait(NetRequest* request) {
  EXPECT_TRUE(Poll([&] { return Test(request); })) << "a request has not ended";
}

void NetConnections::Wait(std::vector<NetRequest>* requests) {
  for (NetRequest& request : *requests) Wait(&request);
}

ncclResult_t NetConnections::AwaitFailure(NetRequest* request) {
  ncclResult_t result = ncclSuccess;
  EXPECT_TRUE(Poll([&] {
    int done = 0;
    result = plugin_->test(request->request, &done, request->sizes.data());
    EXPECT_EQ(done, 0) << "the request has ended well";
    return result != ncclSuccess || done != 0;
  })) << "the request has not failed";
  return result;
}

std::vector<uint8_t> NetBytes(size_t bytes, uint64_t seed) {
  std::vector<uint8_t> made(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint8_t& byte : made) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return made;
}

}  // namespace harmonaize::testing
