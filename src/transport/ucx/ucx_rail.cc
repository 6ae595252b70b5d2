#include "src/transport/ucx/ucx_rail.h"

#include <algorithm>
#include <cstring>

#include "src/base/clock.h"

namespace harmonaize::transport {
namespace {

constexpr unsigned kMessageId = 1;
// Longest time that the end of a rail waits for calls that UCX still has under way.
constexpr uint64_t kDestroyPatienceNs = 1'000'000'000;

}  // namespace

/// The endpoint to one peer.
class UcxRail::UcxChannel final : public Channel {
 public:
  UcxChannel(UcxRail* rail, Owner* owner, PeerId peer, std::string name, uint64_t our_token,
             uint64_t their_token)
      : rail_(rail),
        owner_(owner),
        peer_(peer),
        name_(std::move(name)),
        our_token_(our_token),
        their_token_(their_token) {}
  ~UcxChannel() override {
    rail_->by_token_.erase(our_token_);
    // Some are left only if UCX has kept a buffer beyond the deadline.
    for (Call& call : rail_->calls_) {
      if (call.channel == this) call.channel = nullptr;
    }
  }

  Status Open(const std::string& address);

  Status Start() override { return Status::Ok(); }
  void Send(Request* send) override;
  void Accept(Arrival* offer, Request* receive) override;
  void Refuse(Arrival* offer) override;
  void OnConsumed(Arrival*) override {}
  void Abort(Request* request, const Status& status) override;
  void Close(const Status& status) override;
  bool Lingers() override {
    PollClose();
    return calls_ > 0 || closing_ != nullptr;
  }

  PeerId peer() const { return peer_; }
  bool closed() const { return endpoint_ == nullptr; }
  void OnCallBegun() { ++calls_; }
  void OnCallEnded() { --calls_; }

 private:
  void PollClose();
  static void OnError(void* channel, ucp_ep_h, ucs_status_t status) {
    auto* self = static_cast<UcxChannel*>(channel);
    if (self->closed()) return;
    self->owner_->OnChannelBroken(
        self, fmt::format("{}: {}", self->name_, self->rail_->ucx_->status_string(status)));
  }

  UcxRail* rail_;
  Owner* owner_;
  PeerId peer_;
  std::string name_;
  uint64_t our_token_;
  uint64_t their_token_;
  ucp_ep_h endpoint_ = nullptr;
  void* closing_ = nullptr;
  size_t calls_ = 0;
};

Status UcxRail::UcxChannel::Open(const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &OnError;
  params.err_handler.arg = this;
  const ucs_status_t status = rail_->ucx_->ep_create(rail_->worker_, &params, &endpoint_);
  if (status != UCS_OK) {
    return RemoteError("{}: {}", name_, rail_->ucx_->status_string(status));
  }
  rail_->by_token_[our_token_] = this;
  return Status::Ok();
}

void UcxRail::UcxChannel::Send(Request* send) {
  send->channel = this;
  if (closed()) return rail_->board_->Complete(send, RemoteError("{}: closed", name_));
  send->state = Request::State::kStreaming;
  Call* call = rail_->NewCall(this, send);
  call->header = Header{their_token_, send->tag};
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &UcxRail::OnSent;
  param.user_data = call;
  rail_->Begin(call, rail_->ucx_->am_send_nbx(endpoint_, kMessageId, &call->header, sizeof(Header),
                                              send->data, send->size, &param));
}

void UcxRail::UcxChannel::Accept(Arrival* offer, Request* receive) {
  receive->channel = this;
  receive->total = offer->total;
  Call* call = rail_->NewCall(this, receive);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &UcxRail::OnReceived;
  param.user_data = call;
  void* data = offer->foreign;
  const size_t total = offer->total;
  rail_->board_->Free(offer);
  rail_->Begin(call,
               rail_->ucx_->am_recv_data_nbx(rail_->worker_, data, receive->data, total, &param));
}

void UcxRail::UcxChannel::Refuse(Arrival* offer) {
  rail_->ucx_->am_data_release(rail_->worker_, offer->foreign);
  rail_->board_->Free(offer);
}

void UcxRail::UcxChannel::Abort(Request* request, const Status& status) {
  auto* call = static_cast<Call*>(request->foreign);
  if (call == nullptr) return rail_->board_->Complete(request, status);
  if (call->aborted) return;
  // The card owns the buffer until UCX says otherwise, so the completion waits for that.
  call->aborted = true;
  call->abort_status = status;
  if (call->handle != nullptr) rail_->ucx_->request_cancel(rail_->worker_, call->handle);
}

void UcxRail::UcxChannel::Close(const Status& status) {
  rail_->by_token_.erase(our_token_);
  if (endpoint_ == nullptr) return;
  rail_->board_->ForEachRequest([this](const Request& request) { return request.channel == this; },
                                [&](Request* request) { Abort(request, status); });
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucp_ep_h endpoint = endpoint_;
  endpoint_ = nullptr;
  ucs_status_ptr_t closing = rail_->ucx_->ep_close_nbx(endpoint, &param);
  if (closing == nullptr || UCS_PTR_IS_ERR(closing)) return;
  closing_ = closing;
}

void UcxRail::UcxChannel::PollClose() {
  if (closing_ == nullptr) return;
  if (rail_->ucx_->request_check_status(closing_) == UCS_INPROGRESS) return;
  rail_->ucx_->request_free(closing_);
  closing_ = nullptr;
}

Result<std::unique_ptr<UcxRail>> UcxRail::Create(Poller* poller, MessageBoard* board,
                                                 const RailOptions& options) {
  HZ_ASSIGN_OR_RETURN(const UcxLibrary* ucx, UcxLibrary::Load());
  std::unique_ptr<UcxRail> rail(new UcxRail(poller, board, ucx));
  HZ_RETURN_IF_ERROR(rail->Open(options));
  return rail;
}

Status UcxRail::OpenContext(const RailOptions& options) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucx_->config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return SystemError("UCX's settings: {}", ucx_->status_string(status));
  const auto set = [&](const char* name, const std::string& value) {
    if (status == UCS_OK) status = ucx_->config_modify(config, name, value.c_str());
  };
  set("TLS", options.ucx_transports);
  set("NET_DEVICES", options.device);
  if (options.traffic_class >= 0) {
    set("IB_TRAFFIC_CLASS", std::to_string(options.traffic_class));
  }
  if (options.service_level >= 0) set("IB_SL", std::to_string(options.service_level));
  if (options.path_count >= 0) set("IB_NUM_PATHS", std::to_string(options.path_count));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (status == UCS_OK) {
    status = ucx_->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  }
  ucx_->config_release(config);
  if (status == UCS_OK) return Status::Ok();
  return Unavailable("UCX cannot use the device '{}' with the transports '{}': {}", options.device,
                     options.ucx_transports, ucx_->status_string(status));
}

Status UcxRail::Open(const RailOptions& options) {
  HZ_RETURN_IF_ERROR(OpenContext(options));
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucs_status_t status = ucx_->worker_create(context_, &params, &worker_);
  ucp_address_t* address = nullptr;
  size_t length = 0;
  if (status == UCS_OK) status = ucx_->worker_get_address(worker_, &address, &length);
  if (status == UCS_OK) {
    address_.assign(reinterpret_cast<const char*>(address), length);
    ucx_->worker_release_address(worker_, address);
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessageId;
    handler.cb = &OnMessage;
    handler.arg = this;
    status = ucx_->worker_set_am_recv_handler(worker_, &handler);
  }
  if (status == UCS_OK) status = ucx_->worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) {
    return Unavailable("UCX cannot use the device '{}' with the transports '{}': {}",
                       options.device, options.ucx_transports, ucx_->status_string(status));
  }
  return poller_->Add(event_fd_, EPOLLIN, this);
}

UcxRail::~UcxRail() {
  const uint64_t deadline = MonotonicNanoseconds() + kDestroyPatienceNs;
  while (worker_ != nullptr && calls_under_way_ > 0 && MonotonicNanoseconds() < deadline) {
    ucx_->worker_progress(worker_);
  }
  if (event_fd_ >= 0) poller_->Remove(event_fd_, this);
  if (worker_ != nullptr) ucx_->worker_destroy(worker_);
  if (context_ != nullptr) ucx_->cleanup(context_);
}

Result<std::unique_ptr<Channel>> UcxRail::Connect(Channel::Owner* owner, PeerId peer,
                                                  std::string name, const std::string& address,
                                                  uint64_t our_token, uint64_t their_token) {
  auto channel =
      std::make_unique<UcxChannel>(this, owner, peer, std::move(name), our_token, their_token);
  HZ_RETURN_IF_ERROR(channel->Open(address));
  return std::unique_ptr<Channel>(std::move(channel));
}

UcxRail::Call* UcxRail::NewCall(UcxChannel* channel, Request* request) {
  Call* call = free_calls_.PopFront();
  if (call == nullptr) call = &calls_.emplace_back();
  call->rail = this;
  call->channel = channel;
  call->request = request;
  call->handle = nullptr;
  call->aborted = false;
  request->foreign = call;
  channel->OnCallBegun();
  ++calls_under_way_;
  return call;
}

/// Handles a call's return: UCX has ended it at once, or works on it.
void UcxRail::Begin(Call* call, ucs_status_ptr_t begun) {
  if (UCS_PTR_IS_ERR(begun)) return End(call, UCS_PTR_STATUS(begun));
  if (begun == nullptr) return End(call, UCS_OK);
  call->handle = begun;
}

void UcxRail::End(Call* call, ucs_status_t status) {
  Request* request = call->request;
  if (call->handle != nullptr) ucx_->request_free(call->handle);
  if (call->channel != nullptr) call->channel->OnCallEnded();
  --calls_under_way_;
  request->foreign = nullptr;
  if (status == UCS_OK) request->moved = request->total;
  // An aborted request stays so, even if its data came through.
  Status result = call->aborted      ? std::move(call->abort_status)
                  : status == UCS_OK ? Status::Ok()
                                     : RemoteError("UCX: {}", ucx_->status_string(status));
  call->abort_status = Status::Ok();
  call->channel = nullptr;
  free_calls_.PushBack(call);
  board_->Complete(request, std::move(result));
}

void UcxRail::OnSent(void* handle, ucs_status_t status, void* call) {
  auto* ended = static_cast<Call*>(call);
  ended->handle = handle;
  ended->rail->End(ended, status);
}

void UcxRail::OnReceived(void* handle, ucs_status_t status, size_t, void* call) {
  OnSent(handle, status, call);
}

ucs_status_t UcxRail::OnMessage(void* rail, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param) {
  auto* self = static_cast<UcxRail*>(rail);
  Header opening{};
  if (header_length == sizeof opening) std::memcpy(&opening, header, sizeof opening);
  const auto from = self->by_token_.find(opening.token);
  if (header_length != sizeof opening || from == self->by_token_.end()) {
    ++self->foreign_messages_;
    return UCS_OK;  // UCX drops it
  }
  Arrival* arrival = self->board_->NewArrival(from->second->peer(), opening.tag, length);
  arrival->channel = from->second;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    arrival->offered = true;
    arrival->foreign = data;
    self->fresh_.PushBack(arrival);
    return UCS_INPROGRESS;  // UCX keeps it for us
  }
  const auto* bytes = static_cast<const std::byte*>(data);
  arrival->data.assign(bytes, bytes + length);
  self->fresh_.PushBack(arrival);
  return UCS_OK;
}

/// Brings a message to its receive. Called outside of UCX's callbacks, where any call is allowed.
void UcxRail::Match(Arrival* arrival) {
  Channel* channel = arrival->channel;
  const bool unwanted = board_->IsCancelled(arrival->peer, arrival->tag.operation);
  Request* receive = unwanted ? nullptr : board_->TakePosted(arrival->peer, arrival->tag);
  if (receive == nullptr && !unwanted) return board_->AddArrival(arrival);
  if (receive != nullptr && receive->size < arrival->total) {
    board_->Complete(receive, TooLarge(*receive, arrival->total));
    receive = nullptr;
  }
  if (arrival->offered) {
    return receive == nullptr ? channel->Refuse(arrival) : channel->Accept(arrival, receive);
  }
  if (receive != nullptr) {
    std::copy(arrival->data.begin(), arrival->data.end(), receive->data);
    receive->moved = receive->total = arrival->total;
    board_->Complete(receive, Status::Ok());
  }
  board_->Free(arrival);
}

int UcxRail::Progress() {
  int done = static_cast<int>(ucx_->worker_progress(worker_));
  while (Arrival* arrival = fresh_.PopFront()) {
    Match(arrival);
    ++done;
  }
  return done;
}

bool UcxRail::Arm() {
  return fresh_.empty() && ucx_->worker_arm(worker_) == UCS_OK;
}

Result<ucp_mem_h> UcxRail::Map(std::span<std::byte> memory) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = memory.data();
  params.length = memory.size();
  ucp_mem_h mapped = nullptr;
  const ucs_status_t status = ucx_->mem_map(context_, &params, &mapped);
  if (status == UCS_OK) return mapped;
  return SystemError("UCX cannot register {} bytes: {}", memory.size(),
                     ucx_->status_string(status));
}

void UcxRail::Unmap(ucp_mem_h memory) {
  ucx_->mem_unmap(context_, memory);
}

}  // namespace harmonaize::transport
