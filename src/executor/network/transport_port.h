#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "src/executor/network/message_port.h"
#include "src/transport/transport.h"

namespace harmonaize {

/// Carries the messages of one communicator's programs over the transport. Thread: the transport's.
class TransportPort final : public MessagePort {
 public:
  /// Returns the rail of a message of so many bytes to `name.host`. Only senders ask.
  using ChooseRail = std::function<transport::RailChoice(const MessageName& name, size_t bytes)>;

  /// `peers` is indexed by host; 0 for this one and for hosts without ranks. Both ends of a message
  /// have to number the hosts alike.
  TransportPort(transport::Transport* transport, std::vector<transport::PeerId> peers,
                ChooseRail choose_rail);
  /// Requires: nothing is outstanding.
  ~TransportPort() override = default;

  Status Send(const MessageName& name, std::span<const std::byte> data, uint64_t left,
              MessageListener* listener, uint64_t token) override;
  Status Receive(const MessageName& name, std::span<std::byte> data, MessageListener* listener,
                 uint64_t token) override;
  void Cancel(uint64_t operation) override;

  /// Returns about how much memory its messages take here and in the transport, in bytes: for as
  /// many as were ever under way at once.
  size_t memory_bytes() const { return all_.size() * (sizeof(Pending) + kRequestBytes); }

 private:
  /// What the transport keeps of a message under way, in bytes, about.
  static constexpr size_t kRequestBytes = 256;

  /// A message under way.
  struct Pending {
    TransportPort* port = nullptr;
    MessageListener* listener = nullptr;
    uint64_t token = 0;
    size_t bytes = 0;  ///< Bytes that have to come, or to go.
  };

  static void OnComplete(void* context, const Status& status, size_t bytes);
  Pending* Take(MessageListener* listener, uint64_t token, size_t bytes);

  transport::Transport* const transport_;
  const std::vector<transport::PeerId> peers_;
  const ChooseRail choose_rail_;
  std::vector<std::unique_ptr<Pending>> all_;
  std::vector<Pending*> free_;
};

}  // namespace harmonaize
