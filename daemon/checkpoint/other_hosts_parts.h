#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/checkpoint/kept_parts.h"
#include "daemon/checkpoint/part_copies.h"
#include "daemon/checkpoint/part_eraser.h"
#include "daemon/checkpoint/save_catalogue.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/transfer/idle_link.h"
#include "daemon/transfer/part_server.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class EventLoop;
class TenantTable;

/// The parts of checkpoints that hosts have of each other: gives this host's to those that ask,
/// brings theirs here for ranks that read, and keeps copies for each other. Thread: engine.
class OtherHostsParts {
 public:
  /// All of these outlive this object.
  struct Services {
    Cluster* cluster = nullptr;  ///< nullptr where this host stands alone.
    EventLoop* loop = nullptr;
    TenantTable* tenants = nullptr;
    KeptParts* parts = nullptr;  ///< This host's, and the copies that it keeps for others.
    /// Called when another host keeps a copy of a part of this one's, or does not.
    std::function<void(transport::PeerId, const PartKeptMessage&)> on_kept = {};
  };

  explicit OtherHostsParts(const Services& services);
  ~OtherHostsParts() { eraser_->End(); }
  OtherHostsParts(const OtherHostsParts&) = delete;
  OtherHostsParts& operator=(const OtherHostsParts&) = delete;

  // For ranks of this host.

  using Listed = std::function<void(std::vector<HostSaves>)>;
  /// Finds out which parts of its job other hosts have, and remembers where.
  void List(const Communicator& communicator, Listed listed);
  using Fetched = PartCopies::Fetched;
  /// Brings a range of another host's part here. Calls `fetched` once, with the bytes of the part.
  /// Errors: kUnavailable if no host is known to have it.
  void Fetch(const Communicator& communicator, const PartName& name, uint64_t at, uint64_t bytes,
             Fetched fetched);
  /// Returns whether another host is known to have a part, or some of it is here by Fetch.
  bool Knows(const PartName& name) const {
    return fetched_.Contains(name) || HolderOf(name).has_value();
  }
  /// Returns what is here of a part by Fetch; no memory if nothing is.
  PartCopies::View Find(const PartName& name) const { return fetched_.Find(name); }

  // For other hosts.

  /// Asks another host to keep a copy of a part. Once it does, or does not, Services::on_kept is
  /// called. Returns false if none can be asked.
  bool Replicate(const Communicator& communicator, uint64_t key, const KeptPart& part);
  /// Asks it to go on keeping it.
  void Refresh(uint64_t key, const KeptPart& part);

  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  void OnPeerLost(transport::PeerId peer);
  /// Gives back what nobody has asked for lately.
  void LookAfter(uint64_t now_ns);
  bool empty() const { return fetched_.empty() && coming_.empty(); }

  /// Runs what takes long at the end of copies.
  const std::shared_ptr<PartEraser>& eraser() const { return eraser_; }

  /// Hears from the engine whether links are idle.
  IdleLink& idle_link() { return idle_link_; }

 private:
  /// Where parts of a job are, as other hosts have told.
  struct Holders {
    std::map<std::pair<uint64_t, int>, transport::PeerId> of_part;  ///< By save and rank.
    uint64_t until_ns = 0;
  };

  /// Returns the host that is known to have a part; nullopt: none is.
  std::optional<transport::PeerId> HolderOf(const PartName& name) const;

  Status StartServer();
  /// What another daemon needs to read a part of this host's.
  struct Given {
    std::string address;
    std::vector<uint8_t> ticket;
  };
  Result<Given> Offer(const KeptPart& part, bool when_idle);
  Status BeginToFetch(const PartName& name, const PartAtMessage& located, Account& account);
  bool SendKeep(transport::PeerId peer, KeepPartMessage keep, const PartName& name);
  void OnAskSaves(transport::PeerId peer, const AskSavesMessage& ask);
  void OnAskPart(transport::PeerId peer, const AskPartMessage& ask);
  void OnKeepPart(transport::PeerId peer, const KeepPartMessage& keep);
  Status BeginToKeep(transport::PeerId peer, const KeepPartMessage& keep, const PartName& name);
  void OnCopied(transport::PeerId peer, const KeepPartMessage& keep, const PartName& name,
                const Status& status);
  PartName NameOf(uint32_t user, const std::vector<uint8_t>& job, uint64_t save, int rank) const;

  const Services services_;
  std::shared_ptr<const SecureSettings> settings_;
  IdleLink idle_link_;
  const std::shared_ptr<PartEraser> eraser_ = std::make_shared<PartEraser>();
  std::unique_ptr<PartServer> server_;
  SaveCatalogue catalogue_;
  PartCopies fetched_;  ///< For ranks that read.
  PartCopies coming_;   ///< For other hosts, until they are whole.
  std::map<JobTable::Key, Holders> holders_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
