#include "daemon/sources/name_lookup.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "daemon/runtime/guarded.h"

namespace harmonaize::daemon {

/// What a lookup's thread has in common with who started it.
struct NameLookup::Shared {
  std::mutex mutex;
  boost::asio::io_context* io = nullptr;  // guarded by mutex; nullptr: given up
  Done done;                              // guarded by mutex
  std::atomic<bool> ended{false};
};

namespace {

Result<std::vector<std::string>> AddressesOfName(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) return RemoteError("cannot look {} up: {}", host, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> freed(found, &freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    const bool is_text = getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0,
                                     NI_NUMERICHOST) == 0;
    if (is_text && addresses.size() < NameLookup::kMostAddresses) addresses.emplace_back(text);
  }
  return addresses;
}

}  // namespace

Status NameLookup::Start(const std::string& host, Done done) {
  if (shared_ != nullptr && !shared_->ended) {
    return Unavailable("the lookup of {} takes long; see the host's name service", host);
  }
  const auto shared = std::make_shared<Shared>();
  shared->io = &io_;
  shared->done = std::move(done);
  try {
    std::thread([shared, host] {
      pthread_setname_np(pthread_self(), "hz-lookup");
      GuardedAndLogged("a lookup", [&] {
        const auto addresses = Caught([&] { return AddressesOfName(host); });
        const std::lock_guard lock(shared->mutex);
        if (shared->io == nullptr) return;
        boost::asio::post(*shared->io, [shared, addresses] {
          // GiveUp, on this thread, takes it away.
          if (shared->done != nullptr) std::exchange(shared->done, nullptr)(addresses);
        });
      });
      shared->ended = true;
    }).detach();
  } catch (const std::system_error& error) {
    return SystemError("cannot start a thread for a lookup: {}", error.what());
  }
  shared_ = shared;
  return Status::Ok();
}

void NameLookup::GiveUp() noexcept {
  if (shared_ == nullptr) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->io = nullptr;
  shared_->done = nullptr;
}

}  // namespace harmonaize::daemon
