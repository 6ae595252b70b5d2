// Frames that carry collectives' data between daemons: what they say of buffers, places and sizes.

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/transport/link/message_board.h"
#include "src/transport/queue/tenant_mix.h"
#include "src/transport/tcp/poller.h"
#include "src/transport/tcp/tcp_channel.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace transport;

constexpr PeerId kPeer = 1;
constexpr size_t kMostRequests = 64;
/// Of buffers that are posted: none, small, just not offered, just offered, several frames.
constexpr size_t kSizes[] = {0, 40, TcpChannel::kMaxEagerBytes, TcpChannel::kMaxEagerBytes + 1,
                             3 * TcpChannel::kBulkBytes + 8};

/// A buffer that is posted once, and how often its completion was called.
struct Posted {
  std::vector<std::byte> bytes;
  bool is_send = false;
  int completions = 0;
};

std::unique_ptr<Poller> MakePoller() {
  Result<std::unique_ptr<Poller>> poller = Poller::Create();
  RequireOk(poller.status(), "a poller");
  return std::move(*poller);
}

/// One end of a connection; at the other the input speaks.
class Daemon final : private Channel::Owner {
 public:
  Daemon() {
    int pair[2] = {-1, -1};
    Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
            "a connection");
    far_ = FileDescriptor(pair[1]);
    Channel::Owner* const owner = this;
    channel_ = std::make_unique<TcpChannel>(poller_.get(), &board_, &tenants_, owner, kPeer, "rail",
                                            FileDescriptor(pair[0]));
    RequireOk(channel_->Start(), "a channel");
  }
  ~Daemon() {
    channel_->Close(RemoteError("over"));
    // As TransportCore does when a link is lost.
    board_.TakeArrivals([](const Arrival&) { return true; },
                        [this](Arrival* arrival) { board_.Free(arrival); });
    board_.ForEachRequest(
        [](const Request& request) { return request.state == Request::State::kPosted; },
        [this](Request* request) { board_.Complete(request, RemoteError("over")); });
    board_.RunCompletions();
    for (const std::unique_ptr<Posted>& one : posted_) {
      Require(one->completions == 1, "each request ends once");
    }
    Require(board_.requests_under_way() == 0, "no request is left");
    Require(board_.arrivals_waiting() == 0 && board_.arrival_bytes() == 0, "no arrival is left");
  }

  bool broken() const { return broken_; }

  void Post(bool is_send, const MessageTag& tag, size_t size) {
    if (posted_.size() >= kMostRequests) return;
    Posted& one = *posted_.emplace_back(std::make_unique<Posted>());
    one.bytes.resize(size);
    one.is_send = is_send;
    Request* const request = board_.NewRequest(is_send, kPeer, tag, one.bytes.data(), size,
                                               {.call = &Daemon::OnEnd, .context = &one});
    if (is_send) return channel_->Send(request);
    Arrival* const arrival = board_.TakeArrival(kPeer, tag);
    if (arrival == nullptr) return board_.Post(request);
    Receive(request, arrival);
  }

  void Cancel(uint64_t operation) {
    board_.MarkCancelled(kPeer, operation);
    const Status why = InvalidUsage("cancelled");
    board_.ForEachRequestOf(kPeer, operation, [&](Request* request) {
      request->state == Request::State::kPosted ? board_.Complete(request, why)
                                                : channel_->Abort(request, why);
    });
    board_.TakeArrivalsOf(kPeer, operation, [&](Arrival* arrival) { GiveUp(arrival); });
  }

  void Hear(std::span<const std::byte> bytes) {
    send(far_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    Progress();
  }

  void Progress() {
    poller_->RunLater();
    poller_->Poll();
    board_.RunCompletions();
    // What it says is taken away, so that it never waits for room.
    static std::array<std::byte, size_t{256} << 10> said;
    while (recv(far_.get(), said.data(), said.size(), 0) > 0) continue;
  }

 private:
  static void OnEnd(void* context, const Status& status, size_t bytes) {
    auto* const posted = static_cast<Posted*>(context);
    ++posted->completions;
    Require(!status.ok() || bytes <= posted->bytes.size(), "what came fits its buffer");
  }

  void Receive(Request* request, Arrival* arrival) {
    const bool fits = arrival->total <= request->size;
    request->state = Request::State::kMoving;
    if (arrival->offered && fits) return channel_->Accept(arrival, request);
    if (fits) {
      std::copy(arrival->data.begin(), arrival->data.end(), request->data);
      request->moved = request->total = arrival->total;
    }
    board_.Complete(request, fits ? Status::Ok() : TooLarge(*request, arrival->total));
    GiveUp(arrival);
  }

  void GiveUp(Arrival* arrival) {
    if (arrival->offered) return channel_->Refuse(arrival);
    channel_->OnConsumed(arrival);
    board_.Free(arrival);
  }

  void OnChannelBroken(Channel*, const std::string& reason) override {
    RequireClean(reason, "a clean reason");
    broken_ = true;
  }

  std::unique_ptr<Poller> poller_ = MakePoller();
  MessageBoard board_;
  TenantMix tenants_;
  FileDescriptor far_;
  std::unique_ptr<TcpChannel> channel_;
  std::vector<std::unique_ptr<Posted>> posted_;
  bool broken_ = false;
};

/// Of few, so that what comes meets what is posted.
MessageTag TakeTag(Input* input) {
  return {.operation = input->TakeUpTo(2), .step = 0, .part = 0};
}

/// A frame whose fields are what they often are; its payload is made here.
void HearFrame(Input* input, Daemon* daemon) {
  TcpChannel::Header header;
  header.type = static_cast<uint32_t>(input->TakeUpTo(8));
  header.tag = TakeTag(input);
  const size_t size = kSizes[input->TakeUpTo(std::size(kSizes) - 1)] + input->TakeUpTo(2) - 1;
  header.total = size;
  // Requests are numbered from 0, and the first use of each is its generation 1.
  header.slot = uint64_t{input->TakeUpTo(2)} << 32 | input->TakeUpTo(7);
  header.answer = input->TakeUpTo(3) * TcpChannel::kBulkBytes;
  const bool carries = input->TakeUpTo(1) != 0;
  header.payload = static_cast<uint32_t>(carries ? std::min(size, TcpChannel::kBulkBytes) : 0);
  daemon->Hear(std::as_bytes(std::span(&header, 1)));
  static const std::array<std::byte, TcpChannel::kBulkBytes> kPayload{};
  daemon->Hear(std::span(kPayload).first(header.payload));
}

void Run(Input input) {
  Daemon daemon;
  while (!input.empty() && !daemon.broken()) {
    switch (input.TakeUpTo(5)) {
      case 0: {
        const MessageTag tag = TakeTag(&input);
        daemon.Post(false, tag, kSizes[input.TakeUpTo(std::size(kSizes) - 1)]);
        break;
      }
      case 1: {
        const MessageTag tag = TakeTag(&input);
        daemon.Post(true, tag, kSizes[input.TakeUpTo(std::size(kSizes) - 1)]);
        break;
      }
      case 2: daemon.Cancel(input.TakeUpTo(2)); break;
      case 3: daemon.Hear(input.TakeBytes(input.TakeUpTo(255))); break;
      default: HearFrame(&input, &daemon); break;
    }
    daemon.Progress();
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
