#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/identity/tenant_identity.h"
#include "daemon/quota/holdings.h"
#include "daemon/runtime/guarded.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {

/// A text that is too long for one message: its reader asks for one piece after the other.
struct Document {
  std::string text;
  Holding memory;  ///< Of Resource::kMemory, for as long as a connection keeps it.
};

/// A piece of a document, in bytes: well below what a message may hold.
inline constexpr size_t kDocumentPieceBytes = 32 * 1024;

/// What a connection is charged of the daemon's memory, in bytes: the kernel keeps an answer at the
/// daemon's cost until it is read, which is a piece of a document at most, in pages.
inline constexpr int64_t kConnectionBytes = 48 << 10;

/// The control socket of one tenant process, or of an operator's. Its tenant's Reception receives
/// from it, and the engine's thread answers on it, one request at a time.
///
/// What a tenant sends holds descriptors of any kind, and the kernel may wait for somebody foreign
/// when the last reference to one goes. So a connection is received from, and destroyed, by its
/// tenant's Reception alone.
class Connection {
 public:
  struct Peer {
    PeerCredentials credentials;
    TenantIdentity tenant;
    /// It came by the operators' socket.
    bool is_operator = false;
  };

  Connection(ControlSocket socket, Peer peer, FileDescriptor process,
             std::shared_ptr<Account> account, Holding place, Holding memory = {})
      : socket_(std::move(socket)),
        peer_(std::move(peer)),
        process_(std::move(process)),
        account_(std::move(account)),
        place_(std::move(place)),
        memory_(std::move(memory)) {}

  const PeerCredentials& peer() const { return peer_.credentials; }
  const TenantIdentity& tenant() const { return peer_.tenant; }
  bool is_operator() const { return peer_.is_operator; }
  const std::shared_ptr<Account>& account() const { return account_; }
  int fd() const { return socket_.fd(); }
  /// Readable once the process has ended; -1 where the kernel gave none.
  int process_fd() const { return process_.get(); }
  Result<ControlMessage> Receive() { return socket_.Receive(0); }

  // Answers. Of the engine's thread while a request is with the engine, else of the reception's. A
  // tenant that does not read them is cut off. The engine's are sent by the reception
  // (SendOutgoing): sending wakes whoever waits at the other end, and a tenant can have millions
  // wait.

  /// The one answer to a request: the connection may ask again.
  template <typename Body>
  void Reply(MessageType type, const Body& body, std::span<const int> descriptors = {},
             std::span<const std::byte> tail = {}) {
    Result<std::vector<FileDescriptor>> sent = Duplicates(descriptors);
    if (!sent.ok()) return ReplyFailure(type, sent.status());
    Say(Encode(type, body, tail), std::move(*sent));
    NoteAnswered();
  }
  void ReplyFailure(MessageType type, const Status& status) {
    Say(EncodeFailure(type, status), {});
    NoteAnswered();
  }
  /// The first piece of a document, with a `body` that says how long it is; the rest is kept here.
  template <typename Body>
  void ReplyDocument(MessageType type, const Body& body, std::shared_ptr<const Document> document) {
    document_ = std::move(document);
    Reply(type, body, {}, Piece(0));
  }
  /// A word before the answer.
  template <typename Body>
  void Tell(MessageType type, const Body& body) {
    Say(Encode(type, body), {});
  }

  /// The reception is told by `on_outgoing` when SendOutgoing has something to send, but for what
  /// is said while a request is with the engine: that is sent before the request has its end.
  /// Before it is set all is sent at once. Thread: the reception's.
  void SetOnOutgoing(std::function<void()> on_outgoing);
  /// Sends what the engine has said, or ends the connection. Thread: the reception's.
  void SendOutgoing();

  /// The document that answered the connection's last request; nullptr where another answer did.
  const std::shared_ptr<const Document>& document() const { return document_; }
  /// At most kDocumentPieceBytes of it.
  std::span<const std::byte> Piece(uint64_t offset) const;

  /// The engine is about to deal with a request.
  void BeginRequest() {
    answered_ = false;
    with_engine_ = true;
    document_ = nullptr;
  }
  /// It has. False: the answer comes later, and then `on_answered` is called.
  bool EndRequest() {
    with_engine_ = false;
    return answered_;
  }
  void SetOnAnswered(std::function<void()> on_answered) { on_answered_ = std::move(on_answered); }

  /// Of the engine's thread: the probe that was asked for over it and has not ended; 0: none.
  uint64_t probe = 0;

  /// Nobody asks for more of the document. Not while a request is with the engine.
  void ForgetDocument() { document_ = nullptr; }
  /// Whether the tenant has not read all that it was sent.
  bool HasUnread() const { return socket_.HasUnread(); }

  /// Nobody waits for answers any more. Any thread.
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  void SetGone() { gone_.store(true, std::memory_order_relaxed); }

  /// Ends the connection; the reception sees the end of the stream and cleans up. Wakes whoever
  /// waits at the other end: not for the engine's thread.
  void Cut() { shutdown(socket_.fd(), SHUT_RDWR); }
  /// Has the reception end it, after what has been said. Any thread.
  void CutSoon();

  /// Has what its session leaves behind destroyed with it: by the tenant's own thread, for the
  /// kernel may keep whoever unmaps it waiting. Thread: engine.
  void TakeAlong(std::shared_ptr<void> remains) { remains_ = std::move(remains); }

  /// For a connection that nobody received.
  ControlSocket TakeSocket() { return std::move(socket_); }

  /// For Reception's list of those that nobody refers to any more.
  Connection* next_unused = nullptr;

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    std::vector<FileDescriptor> descriptors;
  };

  static Result<std::vector<FileDescriptor>> Duplicates(std::span<const int> descriptors);
  void Say(std::vector<std::byte> bytes, std::vector<FileDescriptor> descriptors);
  void TellOfOutgoing();
  void SendOrCut(const Outgoing& outgoing);
  void NoteAnswered() {
    answered_ = true;
    if (with_engine_ || on_answered_ == nullptr) return;
    // It would not be read again.
    if (!Guarded(on_answered_, [this](const Status&) { Cut(); })) Cut();
  }

  ControlSocket socket_;
  const Peer peer_;
  FileDescriptor process_;
  const std::shared_ptr<Account> account_;
  Holding place_;
  Holding memory_;
  std::atomic<bool> gone_{false};
  std::shared_ptr<const Document> document_;
  std::shared_ptr<void> remains_;
  // Of the engine's thread while a request is with the engine.
  bool with_engine_ = false;
  bool answered_ = false;
  std::function<void()> on_answered_;

  std::function<void()> on_outgoing_;
  std::thread::id receptions_thread_;
  std::mutex outgoing_mutex_;
  std::deque<Outgoing> outgoing_;  // under outgoing_mutex_
  bool cut_soon_ = false;          // under outgoing_mutex_
};

inline std::span<const std::byte> Connection::Piece(uint64_t offset) const {
  if (document_ == nullptr || offset > document_->text.size()) return {};
  const std::span<const char> rest = std::span(document_->text).subspan(offset);
  return std::as_bytes(rest.first(std::min(rest.size(), kDocumentPieceBytes)));
}

}  // namespace harmonaize::daemon
