#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/cluster/messages/pair.h"
#include "daemon/communicator/portions.h"
#include "daemon/multihost/rail_backlogs.h"
#include "daemon/quota/paid_in_batches.h"
#include "daemon/tenant/posted_operation.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Communicator;
class HostGroup;
class HostPlan;
struct HostServices;

/// The messages in pipes between the two ranks of a communicator that are on different hosts. A
/// message goes to the peer's daemon in parts, by rails that are dealt out as those of sends are.
/// The transport matches each part with its receive by its name, whichever comes first. The first
/// part goes at once. The others go when the receive has been posted, and a rail is free
/// (RailBacklogs). So a rail never stays busy with parts that wait for a receive.
///
/// The two daemons tell each other of messages in *notes*, of which many go in one small message.
/// - The receiver's daemon tells that a receive was posted whose message may have several parts.
/// - The sender's daemon tells the length of a message that fills its first part. The receiver's
///   daemon posts the other parts when it knows that.
/// - The receiver's daemon tells when a message was received. Then its send ends. So a rank whose
///   sends have ended may close its pipes and leave, and nothing of it is lost. Receives that still
///   wait then will never be served.
///
/// That a rank has closed a pipe, or has gone, is told by PipesClosedMessage, which takes another
/// way than notes do. It says how many messages of notes have to be read before it. A daemon that
/// has begun to use pipes says so (Open), and is told when the other rank's pipes have all ended.
///
/// Thread: engine.
class RemotePipes {
 public:
  /// Requires: all of these outlive this object, which is destroyed when it is not in_use().
  RemotePipes(const HostServices& services, Communicator* communicator, HostGroup* group);

  void Post(PostedOperation* message);
  /// Closes this host's end of a pipe. Errors: those of a tenant that cannot pay for it.
  Status Close(uint32_t pipe);
  void OnOpened();
  void OnClosed(const PipesClosedMessage& closed);
  /// Goes on with messages for which a plan may have come.
  void OnPlanReady();

  // Ends: some messages end at once, the others soon.

  /// The rank of this host is gone.
  void OnOwnRankLeft(const Status& why);
  /// The communicator has ended. What the peer has received of its own is still heard, if its
  /// daemon is there.
  void FailAll(const Status& why);

  /// Returns whether messages are under way that are awaited, or the transport still refers to this
  /// object after the end.
  bool executing() const { return awaited_ > 0 || (!end_.ok() && (in_use() || !all_ended_)); }
  /// Returns whether the transport refers to this object.
  bool in_use() const { return in_transport_ > 0; }

 private:
  struct Pipe;

  /// A message under way.
  struct Transfer {
    RemotePipes* owner = nullptr;
    Pipe* pipe = nullptr;
    PostedOperation* part = nullptr;
    bool sends = false;
    bool awaited = false;     ///< Counts in awaited_.
    bool received = false;    ///< The peer's daemon has told the end of a send.
    bool ready = false;       ///< The receive of a send was posted.
    bool has_length = false;  ///< `length` is that of the message.
    uint64_t length = 0;
    uint32_t next_part = 0;  ///< The part that is posted next.
    int in_transport = 0;    ///< Parts that the transport has.
    bool is_due = false;     ///< Stands in due_parts_, at `place`.
    std::list<Transfer*>::iterator place;
    Status failure;  ///< How it ends, once the transport has let go of it.
  };
  using Transfers = std::unordered_map<uint64_t, Transfer>;  // by name

  /// This host's end of a pipe.
  struct Pipe {
    uint32_t id = 0;
    uint64_t number = 0;  ///< HostGroup::PipeNumber.
    Transfers sends;
    Transfers receives;
    /// Lengths of messages whose receives have yet to come, by name.
    std::unordered_map<uint64_t, uint64_t> lengths;
    /// Messages that the peer is ready to receive, by name. Their sends are not posted here yet.
    std::unordered_set<uint64_t> ready;
    bool closed_here = false;
    bool closed_there = false;

    bool empty() const {
      return sends.empty() && receives.empty() && lengths.empty() && ready.empty();
    }
  };

  /// A part of a message, as it is posted.
  struct Part {
    transport::MessageTag tag;
    uint64_t offset = 0;
    size_t bytes = 0;
  };
  /// A part that is being sent.
  struct SentPart {
    Transfer* transfer = nullptr;
    size_t rail = 0;
    size_t bytes = 0;  ///< The part's bytes that count in backlogs_.
    uint64_t since_ns = 0;
  };

  /// What a daemon tells of a message.
  struct Note {
    enum class Kind : uint32_t {
      kLength = 1,  ///< `value` is its length.
      kReceived,    ///< It was received, or could not be: `value` is the Code.
      kReady,       ///< Its receive was posted.
    };
    uint64_t name = 0;
    uint64_t value = 0;
    uint32_t pipe = 0;
    Kind kind = Kind::kLength;
  };
  /// Notes that go in one message: 6 KiB of them.
  static constexpr size_t kNotesAtOnce = 256;
  using Notes = std::array<Note, kNotesAtOnce>;
  /// Notes that are being sent, in one message.
  struct SentNotes {
    RemotePipes* owner = nullptr;
    std::vector<Note> notes;
  };
  /// Memory of the daemon that a message of notes takes on its way, in bytes: the notes, and what
  /// the transport keeps of it. A tenant whose peer receives nothing may have very many.
  static constexpr int64_t kSentNotesBytes = 512;

  Status Admit(PostedOperation* message, Transfer** transfer);
  Pipe* PipeOf(uint32_t pipe, Status* refused);
  Status PayForPipe();
  Result<HostPlan*> Plan();
  int own_rank() const;
  int peer_rank() const { return 1 - own_rank(); }
  int FabricHostOfPeer() const;
  bool PeerIsLinked() const;
  void Start(Transfer* transfer);
  void GoOn(Transfer* transfer, HostPlan* plan);
  static bool HasPartToCome(const Transfer& transfer);
  static Part NextPart(const Transfer& transfer);
  void PostReceives(Transfer* transfer, HostPlan* plan);
  void BeginSend(Transfer* transfer, HostPlan* plan);
  std::optional<transport::RailChoice> FreeRail(HostPlan* plan) const;
  void SendDueParts(HostPlan* plan);
  Status PostSend(Transfer* transfer, HostPlan* plan, const transport::RailChoice& rail,
                  bool counts);
  void CountPosted(Transfer* transfer);
  void Lose(Transfer* transfer) const;
  void SetDue(Transfer* transfer, bool due);
  void OnSentPart(const SentPart& sent, const Status& status, size_t bytes);
  void OnPart(Transfer* transfer, const Status& status, size_t bytes);
  Status FailureOf(const Transfer& transfer, const Status& status) const;
  static bool IsWhole(const Transfer& transfer);
  void FinishIfWhole(Transfer* transfer);
  void Finish(Transfer* transfer, Status outcome);
  void End(Transfer* transfer, const Status& why);
  void EndAll(Transfers* transfers, const Status& why);
  void EndPipe(uint32_t id, const Status& why);
  void DropIfUnused(Pipe* pipe);
  void Open();
  void TellClosed(PipesClosedMessage closed);
  void TellEnd();

  // Notes.

  void Tell(const Transfer& transfer, Note::Kind kind, uint64_t value);
  void SendNotes();
  void ExpectNotes(HostPlan* plan);
  void OnNotes(const Status& status, size_t bytes);
  void OnReceived(Pipe* pipe, const Note& note);
  void OnLength(Pipe* pipe, const Note& note);
  void OnReady(Pipe* pipe, const Note& note);
  void SetLength(Transfer* receive, uint64_t length);

  // Ends.

  void OnPeerClosed(const PipesClosedMessage& closed);
  void BeginEnd(const Status& why);
  bool EndOne();

  const HostServices& services_;
  Communicator* const communicator_;
  HostGroup* const group_;
  std::map<uint32_t, Pipe> pipes_;               // those with messages, or closed on one side
  PaidInBatches paid_pipes_{sizeof(Pipe) + 64};  // and news in too_early_
  std::set<std::tuple<uint32_t, bool, uint64_t>> await_plan_;  // by pipe, whether it sends, name

  std::list<Transfer*> due_parts_;  // sends of which parts have yet to go, in their order
  RailBacklogs backlogs_;

  std::vector<Note> due_;        // to be sent
  bool sends_notes_ = false;     // a call of SendNotes is posted
  uint64_t notes_sent_ = 0;      // messages of them
  int64_t notes_under_way_ = 0;  // likewise, which the transport has
  PaidInBatches paid_notes_{kSentNotesBytes};
  uint64_t notes_came_ = 0;                   // likewise
  bool expects_notes_ = false;                // a receive is posted for the next ones
  Notes notes_;                               // where these come
  std::deque<PipesClosedMessage> too_early_;  // news that wait for notes, in their order

  bool used_ = false;  // here or there
  bool told_end_ = false;
  bool peer_gone_ = false;  // the peer's daemon has told that it has closed all pipes
  bool ended_ = false;
  Status end_;             // why the messages end
  uint32_t next_end_ = 0;  // the pipe that ends next
  bool all_ended_ = true;
  size_t in_transport_ = 0;
  size_t awaited_ = 0;  // messages under way, but for those that were posted with kNotAwaited
  Portions portions_;
};

}  // namespace harmonaize::daemon
