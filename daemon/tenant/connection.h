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
  Holding memory;  ///< Charged as Resource::kMemory for as long as a connection keeps the document.
};

/// Most bytes of a document in one message: well below what a message may hold.
inline constexpr size_t kDocumentPieceBytes = 32 * 1024;

/// Bytes of the daemon's memory that a connection is charged for. The kernel keeps an unread answer
/// at the daemon's cost: at most one piece of a document, in whole pages.
inline constexpr int64_t kConnectionBytes = 48 << 10;

/// The control socket of one tenant process, or of an operator's. Its tenant's Reception receives
/// from it, and the engine's thread answers on it, one request at a time.
///
/// A tenant's messages may hold descriptors of any kind, and the kernel may wait for a stranger
/// when the last reference to one goes. So only the tenant's Reception receives from a connection,
/// and destroys it.
class Connection {
 public:
  struct Peer {
    PeerCredentials credentials;
    TenantIdentity tenant;
    /// The peer connected at the operators' socket.
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

  /// The version of the session protocol in which the connection is answered.
  uint16_t version() const { return version_; }
  /// Sets it, before the first request is dealt with. Thread: the reception's.
  void SetVersion(uint16_t version) { version_ = version; }

  // Answers. Thread: engine while a request is with the engine, else the reception's. A tenant that
  // does not read its answers is cut off. The reception sends the engine's answers (SendOutgoing):
  // sending wakes the threads that wait at the other end, and a tenant can have millions of them.

  /// Sends the only answer to a request; the connection may ask again then.
  template <typename Body>
  void Reply(MessageType type, const Body& body, std::span<const int> descriptors = {},
             std::span<const std::byte> tail = {}) {
    Result<std::vector<FileDescriptor>> sent = Duplicates(descriptors);
    if (!sent.ok()) return ReplyFailure(type, sent.status());
    Say(Encode(type, body, tail, version_), std::move(*sent));
    NoteAnswered();
  }
  void ReplyFailure(MessageType type, const Status& status) {
    Say(EncodeFailure(type, status, version_), {});
    NoteAnswered();
  }
  /// Replies with the first piece of a document, after a `body` that says how long it is. The
  /// connection keeps the document for the other pieces.
  template <typename Body>
  void ReplyDocument(MessageType type, const Body& body, std::shared_ptr<const Document> document) {
    document_ = std::move(document);
    Reply(type, body, {}, Piece(0));
  }
  /// Sends a message ahead of the answer.
  template <typename Body>
  void Tell(MessageType type, const Body& body) {
    Say(Encode(type, body, {}, version_), {});
  }

  /// Sets the call that tells the reception that SendOutgoing has something to send. Messages of a
  /// request that is with the engine cause no call: they are sent when the request ends. Before
  /// this is set all messages are sent at once. Thread: the reception's.
  void SetOnOutgoing(std::function<void()> on_outgoing);
  /// Sends the messages that wait, and then ends the connection if CutSoon was called. Thread: the
  /// reception's.
  void SendOutgoing();

  /// The document that answered the connection's last request; nullptr if it had another answer.
  const std::shared_ptr<const Document>& document() const { return document_; }
  /// Returns the document from `offset` on, up to kDocumentPieceBytes of it.
  std::span<const std::byte> Piece(uint64_t offset) const;

  /// Notes that the engine is about to deal with a request.
  void BeginRequest() {
    answered_ = false;
    with_engine_ = true;
    document_ = nullptr;
  }
  /// Notes that the engine has dealt with the request. Returns false if the answer comes later;
  /// `on_answered` is called then.
  bool EndRequest() {
    with_engine_ = false;
    return answered_;
  }
  void SetOnAnswered(std::function<void()> on_answered) { on_answered_ = std::move(on_answered); }

  /// The probe that this connection asked for and that has not ended; 0: none. Thread: engine.
  uint64_t probe = 0;

  /// Drops the document: its reader asks for no more of it. Requires: no request is with the
  /// engine.
  void ForgetDocument() { document_ = nullptr; }
  /// Returns whether the tenant has not read all that it was sent.
  bool HasUnread() const { return socket_.HasUnread(); }

  /// Returns whether the peer has gone, so that nobody waits for answers. Thread: any.
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  void SetGone() { gone_.store(true, std::memory_order_relaxed); }

  /// Ends the connection; the reception sees the end of the stream and cleans up. Wakes the threads
  /// that wait at the other end, so the engine's thread uses CutSoon instead.
  void Cut() { shutdown(socket_.fd(), SHUT_RDWR); }
  /// Makes the reception end the connection, after the messages that wait. Thread: any.
  void CutSoon();

  /// Hands over what the session leaves behind, to be destroyed with the connection. The tenant's
  /// own thread does that, for the kernel may keep the thread that unmaps it waiting. Thread:
  /// engine.
  void TakeAlong(std::shared_ptr<void> remains) { remains_ = std::move(remains); }

  /// Takes the socket out of a connection that no reception has received.
  ControlSocket TakeSocket() { return std::move(socket_); }

  /// Link of Reception's list of connections that nobody refers to any more.
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
    // If the call fails, the reception would never read from the connection again.
    if (!Guarded(on_answered_, [this](const Status&) { Cut(); })) Cut();
  }

  ControlSocket socket_;
  const Peer peer_;
  FileDescriptor process_;
  const std::shared_ptr<Account> account_;
  Holding place_;
  Holding memory_;
  uint16_t version_ = kProtocolVersion;
  std::atomic<bool> gone_{false};
  std::shared_ptr<const Document> document_;
  std::shared_ptr<void> remains_;
  // Thread: engine while a request is with the engine.
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
