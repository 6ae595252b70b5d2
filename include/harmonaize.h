#ifndef HARMONAIZE_H_
#define HARMONAIZE_H_

/// \file
/// Functions for which NCCL has no counterpart. Plain C, in the same library as the NCCL API
/// (libnccl.so.2 or libharmonaize-preload.so); errors are NCCL's results, and ncclGetLastError has
/// their text.
///
/// A host stream is an ordered asynchronous queue of operations, to be passed wherever NCCL takes a
/// cudaStream_t:
///
///     cudaStream_t stream;
///     hzStreamCreate(&stream);
///     ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, stream);  // returns at once
///     ...                                                             // compute meanwhile
///     ncclResult_t result = hzStreamSynchronize(stream);                // now `out` may be read
///     hzStreamDestroy(stream);
///
/// Operations on one stream take effect one after the other, in the order of the calls; those of
/// different streams in any order, at the same time where they can. Without a host stream, an
/// operation has completed when its call, or its group, returns; on a communicator with blocking =
/// 0, when ncclCommGetAsyncError says so.

#include <math.h>
#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A host stream; the same type as CUDA's, so that it passes through code written for CUDA. No
/// CUDA function takes one.
typedef cudaStream_t hzStream_t;

/// Returns the version of Harmonaize, such as "0.1.0". Static storage.
const char* hzGetVersion(void);

/// Says whether the calling thread's data lies in host memory (1), or the library is to find out
/// (0, as at first). A process that uses GPUs gets communicators and memory of stock NCCL where
/// that is found; a thread that has said 1 gets the daemon's. Returns what was said before.
int hzUseHostMemory(int host);

/// Stores a new, empty stream into `*stream`. The caller destroys it. A stream belongs to the
/// process that made it and does not survive fork. The first stream of a process also makes a
/// thread, hz-copier, which copies data in memory that is not from ncclMemAlloc.
/// Errors: ncclInvalidArgument when `stream` is NULL; ncclSystemError when no daemon listens.
ncclResult_t hzStreamCreate(cudaStream_t* stream);

/// Waits until the stream is empty, and releases it. `stream` is not valid afterwards, also when an
/// error is returned. No other thread may be using it.
/// Errors: ncclInvalidArgument when `stream` is no host stream; otherwise as hzStreamSynchronize.
ncclResult_t hzStreamDestroy(cudaStream_t stream);

/// Does not wait: returns ncclInProgress while an operation of the stream has not completed, and
/// then what hzStreamSynchronize returns. May copy a quarter of a MiB of data in memory that is not
/// from ncclMemAlloc. May be called by any thread.
ncclResult_t hzStreamQuery(cudaStream_t stream);

/// Waits until all operations have completed that were on the stream when this was called, and
/// returns ncclSuccess, or the error of one that failed since hzStreamQuery or hzStreamSynchronize
/// last told of an error: each is told once. When it returns, the buffers of those operations are
/// the caller's again, also after an error. An operation that fails does not keep later ones from
/// running. May be called by any thread, by several at once.
/// Errors: ncclInvalidArgument when `stream` is no host stream; ncclRemoteError when the daemon is
/// gone.
ncclResult_t hzStreamSynchronize(cudaStream_t stream);

/// \name Events
/// What happens to a job, as the provider's daemon tells it: ranks that are late or lost, links
/// that are slow, maintenance that is announced. docs/events.md lists the types. An event is a
/// CloudEvents 1.0 document in JSON. All ranks of a job hear the same events, whichever host they
/// are on.
///
///     hzSubscription_t events;
///     hzSubscribe(comm, "rank.*,maintenance.*", NULL, NULL, NULL, &events);
///     hzEvent_t event;
///     while (hzNextEvent(events, 1000, &event) == ncclSuccess) puts(event.json);
///     hzUnsubscribe(events);
/// @{

/// A subscription. Belongs to the process that made it and does not survive fork.
typedef struct hzSubscription* hzSubscription_t;

/// An event. The texts are never NULL.
typedef struct hzEvent {
  const char* type;  ///< Such as "io.harmonaize.rank.late".
  const char* id;    ///< What hzSubscribe takes as `after`; "" for a notice of missed events.
  const char* json;  ///< The event in one line.
  /// 1 if this is no event, but the notice that events were missed: `json` says how many.
  int missed;
} hzEvent_t;

/// Called for each event, one at a time, on a thread of the library (hz-events) that takes no
/// signals. The event is valid until it returns.
typedef void (*hzEventCallback_t)(const hzEvent_t* event, void* context);

/// Subscribes to the events of the job that `comm` belongs to; with NULL, of all jobs of this user.
/// `types` lists types and families ("rank.*,plan.changed"); NULL: all. `after` is the id of the
/// last event that was heard; NULL: only what comes from now on; "": also what the daemon has kept.
/// With `callback` NULL, hzNextEvent returns the events. A subscription outlives a restart of the
/// daemon, and goes on behind the last event.
/// Errors: ncclInvalidArgument with the reason for a type or an id that there is not;
/// ncclSystemError when no daemon listens.
ncclResult_t hzSubscribe(ncclComm_t comm, const char* types, const char* after,
                         hzEventCallback_t callback, void* context, hzSubscription_t* subscription);

/// Stores a descriptor to poll(2) into `*descriptor`: it is readable when hzNextEvent may have
/// something. It belongs to the subscription.
/// Errors: ncclInvalidUsage for a subscription with a callback.
ncclResult_t hzSubscriptionDescriptor(hzSubscription_t subscription, int* descriptor);

/// Waits up to `timeout_ms` for an event, -1 for ever, and stores it into `*event`; it is valid
/// until the next call for this subscription. Returns ncclInProgress if none has come. One thread
/// at a time. Errors: ncclInvalidUsage for a subscription with a callback; ncclInvalidArgument if
/// the daemon has been replaced by one that refuses to go on.
ncclResult_t hzNextEvent(hzSubscription_t subscription, int timeout_ms, hzEvent_t* event);

/// Says that the job is ready for what the event with this id tells of, which asks for something by
/// a time (maintenance.scheduled, capacity.reclaim, host.failing, checkpoint.advised,
/// daemon.restarting). The provider sees it; the deadline stays. `id` is hzEvent_t's. Of several
/// answers the last one counts.
/// Errors: ncclInvalidUsage, with the reason, if this user has no such event, or nothing can be
/// answered any more; ncclSystemError when no daemon listens.
ncclResult_t hzAcknowledge(const char* id);

/// Asks for `seconds` more than the event gives. The provider sees it, and may set another time,
/// which comes as a new event. The last answer counts. Errors: as hzAcknowledge, and
/// ncclInvalidArgument unless `seconds` are 1 to 2592000.
ncclResult_t hzExtend(const char* id, double seconds);

/// Ends a subscription. When it returns, no callback runs any more. Not to be called by a callback.
ncclResult_t hzUnsubscribe(hzSubscription_t subscription);

/// @}

/// \name Offers
/// What the provider offers to a job while it runs: places for more ranks (grow), notice that ranks
/// are to leave (reclaim) or to move (move), a lower rate for a while (slow_down). The job accepts,
/// declines or asks for something else, by any rank at any host. docs/http.md has the document.
///
///     hzOffer_t offer;
///     while (hzNextOffer(comm, 0, &offer) == ncclSuccess) {
///       if (strcmp(offer.state, "offered") == 0) hzAnswerOffer(offer.id, hzAccept, NULL);
///     }
/// @{

/// An offer as it is now. The texts are never NULL.
typedef struct hzOffer {
  const char* id;
  const char* kind;    ///< "grow", "reclaim", "move" or "slow_down".
  const char* state;   ///< "offered", "countered", "accepted", "declined", "expired", "withdrawn",
                       ///< "fulfilled" or "broken"; the last five are ends.
  int ranks;           ///< How many ranks come, leave or move.
  int can_be_refused;  ///< 0: hzDecline is refused.
  const char* json;    ///< All of it, with the times, in one line.
} hzOffer_t;

typedef enum { hzAccept = 0, hzDecline = 1, hzCounter = 2 } hzOfferAnswer_t;

/// What goes with an answer. Begin with HZ_OFFER_TERMS_INITIALIZER, which leaves everything as it
/// is offered.
typedef struct hzOfferTerms {
  size_t size;                   ///< sizeof(hzOfferTerms_t).
  int ranks;                     ///< hzCounter: other than offered; 0: as offered.
  double due_within_seconds;     ///< hzCounter: the time that is asked for, from now; 0: likewise.
  double price;                  ///< hzCounter: in credits for a rank and an hour; NAN: likewise.
  double not_again_for_seconds;  ///< hzDecline: so long the job does not want to be asked again.
} hzOfferTerms_t;

#define HZ_OFFER_TERMS_INITIALIZER \
  { sizeof(hzOfferTerms_t), 0, 0, NAN, 0 }

/// Waits up to `timeout_ms` for an offer to the job of `comm`, -1 for ever, and stores it into
/// `*offer`; it is valid until the next call for `comm`. The first calls tell of the offers that
/// have not ended, later ones of each that is made, answered or changed, or has ended. Returns
/// ncclInProgress if there is none. With 0 it takes some microseconds, so a rank may ask after each
/// step. One thread at a time.
/// Errors: ncclInvalidUsage while `comm` is not ready; ncclSystemError when no daemon listens.
ncclResult_t hzNextOffer(ncclComm_t comm, int timeout_ms, hzOffer_t* offer);

/// Answers an offer, once for the whole job: of several answers the first that counts is the job's.
/// `terms` may be NULL. When this returns ncclSuccess the daemon that made the offer has the answer
/// on its disk. An answer that is given again has no second effect.
/// Errors: ncclInvalidUsage, with the reason, if this user has no such offer, or it cannot be
/// answered so: it has ended, its deadline has passed, or it cannot be refused;
/// ncclInvalidArgument for terms that none can have; ncclSystemError when no daemon listens.
ncclResult_t hzAnswerOffer(const char* id, hzOfferAnswer_t answer, const hzOfferTerms_t* terms);

/// @}

/// \name Requirements
/// What a job wants of the provider, and what the provider grants (docs/requirements.md). The file
/// that HARMONAIZE_REQUIREMENTS names is stated with the process's first communicator of a job that
/// is made by a unique id; these functions do so at any time. Each goes to the daemon, and takes
/// some hundred microseconds.
///
///     hzSetRequirements(comm, "collectives.objective = 'latency'");
///     const char* granted;
///     hzGetGranted(comm, &granted);
///     puts(granted);
/// @{

/// Says which job this process belongs to: `name`, which all its processes share, and `kind`,
/// "training", "inference" or "batch". NULL leaves one as the environment has it. To be called
/// before the process's first communicator.
/// Errors: ncclInvalidUsage once there is, or was, a communicator; ncclInvalidArgument for a name
/// of more than 63 bytes, and for a kind that does not exist.
ncclResult_t hzSetJob(const char* name, const char* kind);

/// States requirements, in TOML, of the job that `comm` belongs to. What they name replaces what
/// was said before, key by key, at all hosts of the job, from the next operations on. A key that is
/// not granted as asked is no error: hzGetGranted tells.
/// Errors: ncclInvalidArgument, with line, column and what was expected, for a text with a mistake,
/// which changes nothing; ncclInvalidUsage while `comm` is not ready, or if the job's requirements
/// change too often; ncclSystemError when no daemon listens.
ncclResult_t hzSetRequirements(ncclComm_t comm, const char* text);

/// Stores what is granted to the job of `comm` into `*json`: the document of GET
/// /v1/jobs/{job}/granted in one line. It is valid until this thread asks again.
/// Errors: as hzSetRequirements.
ncclResult_t hzGetGranted(ncclComm_t comm, const char** json);

/// How far a job has come, and the values with which it trains. A value that is not finite counts
/// as not known. Begin with HZ_PROGRESS_INITIALIZER.
typedef struct hzProgress {
  size_t size;     ///< sizeof(hzProgress_t), so that a later library knows what it holds.
  uint64_t step;   ///< Of the job; it rises.
  double samples;  ///< Samples that were processed in all.
  double loss;
  double accuracy;                  ///< From 0 to 1.
  double batch_size;                ///< Samples of this step, of all ranks together.
  double accumulation;              ///< Backward passes between two exchanges of gradients.
  double synchronisation_interval;  ///< Steps between two exchanges.
  double learning_rate_factor;      ///< By which the job's learning rate is multiplied.
  double gradient_noise_scale;      ///< Batch size from which on larger ones bring little.
  double samples_in_all;            ///< To be processed until the job is done.
} hzProgress_t;

#define HZ_PROGRESS_INITIALIZER \
  { sizeof(hzProgress_t), 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN }

/// Tells the provider how far the job of `comm` has come: one rank's word is enough, best always
/// the same one's. From the times of these calls the provider knows how long a step takes. A job
/// that has stated ranges in [adapt], and tells here which values it uses, hears of better ones by
/// the event `adaptation.advised`.
/// Errors: ncclInvalidArgument for a size that no library has had; ncclInvalidUsage while `comm` is
/// not ready, and for a value that none can have, as a step of 2^63; ncclSystemError when no daemon
/// listens.
ncclResult_t hzReportProgress(ncclComm_t comm, const hzProgress_t* progress);

/// @}

/// \name Lost ranks
/// Which ranks to leave out of a shrink:
///
///     int lost[8], count;
///     if (hzLostRanks(comm, 8, lost, &count) == ncclSuccess && count > 0 && count <= 8) {
///       ncclCommShrink(comm, lost, count, &rest, NULL, NCCL_SHRINK_ABORT);
///     }
/// @{

/// Stores how many ranks of `comm` are gone into `*count`, and the lowest `most` of them, rising,
/// into `ranks`, which may be NULL if `most` is 0. Not more than 16000 are stored, as many as one
/// shrink can leave out. A rank is gone once it has died, has aborted or destroyed `comm`, or its
/// host's daemon is lost; it does not come back. `comm` may have failed, or been revoked. The
/// daemon that looks after `comm` is asked, so all ranks are told the same; if it does not answer
/// within a second, this is what daemons of the hosts that are left know. A question takes some
/// hundred microseconds.
/// Errors: ncclInvalidArgument for a negative `most`; ncclInvalidUsage while `comm` is not ready,
/// and where the daemon is of an earlier release; ncclRemoteError when the daemon is gone.
ncclResult_t hzLostRanks(ncclComm_t comm, int most, int* ranks, int* count);

/// @}

/// \name Tickets
/// A process that is no rank of a job yet, a newcomer, finds the job by its name and a ticket, at
/// whatever host it runs. Ranks make tickets, and admit newcomers when it suits the job:
///
///     // A rank of the job, once. The ticket is a secret: hand it over in a file of mode 0600.
///     char ticket[HZ_TICKET_BYTES];
///     hzMakeTicket(comm, 4, 3600, ticket);
///     // The newcomer.
///     hzPlace_t place = HZ_PLACE_INITIALIZER;
///     hzJoinJob("my-training", ticket, -1, &place);
///     ncclCommGrow(NULL, place.ranks, &place.id, place.rank, &comm, NULL);
///     // One rank, between two steps; it tells the others `ranks`.
///     hzAdmit(comm, 4, &ranks);
///     // All ranks, if that is more than there are.
///     ncclCommGrow(comm, ranks, NULL, -1, &grown, NULL);
///
/// A use of a ticket is spent once its newcomer has become a rank. The daemon at which the job's
/// communicator has formed keeps the tickets; if it ends, they are gone.
/// @{

/// Bytes of a ticket's text with the zero at its end.
#define HZ_TICKET_BYTES 256

/// The place of a newcomer in the communicator to which the job grows, as ncclCommGrow takes it.
/// Begin with HZ_PLACE_INITIALIZER.
typedef struct hzPlace {
  size_t size;      ///< sizeof(hzPlace_t), so that a later library knows what it holds.
  ncclUniqueId id;  ///< Of the growth.
  int ranks;        ///< Of the grown communicator.
  int rank;         ///< The newcomer's.
} hzPlace_t;

#define HZ_PLACE_INITIALIZER \
  { sizeof(hzPlace_t), {{0}}, 0, -1 }

/// Makes a ticket of the job that `comm` belongs to, and stores its text into `ticket`, which has
/// HZ_TICKET_BYTES. Up to `uses` processes of this user can join by it within `seconds` (30 days at
/// most). One rank is enough.
/// Errors: ncclInvalidArgument for such numbers that none can have; ncclInvalidUsage while `comm`
/// is not ready, and if the user has as many tickets as it may; ncclRemoteError when the daemon
/// that looks after the communicator is gone.
ncclResult_t hzMakeTicket(ncclComm_t comm, int uses, double seconds, char* ticket);

/// Burns all tickets of the job that `comm` belongs to: newcomers that wait by them are refused.
/// Those that have been admitted keep their places. ncclCommRevoke burns them as well, and so does
/// the end of the job.
/// Errors: as hzMakeTicket; ncclInvalidUsage if this user burns tickets too often.
ncclResult_t hzBurnTickets(ncclComm_t comm);

/// Waits up to `timeout_ms`, -1 for ever, until a rank of the job has admitted this process, and
/// stores its place into `*place`. Returns ncclInProgress if none has yet: a call with the same
/// ticket goes on waiting, and within five seconds the process keeps its turn. `job` is the job's
/// name, or its id as the daemon shows it. With `ticket` NULL it is read from the file that
/// HARMONAIZE_TICKET_FILE names, which must be this user's and of mode 0600 or stricter. A process
/// without a communicator belongs to the job from then on, as after hzSetJob. If the growth fails
/// the process can join again by the same ticket.
/// Errors: ncclInvalidArgument for what is no ticket; ncclInvalidUsage, with the reason, for a
/// ticket that is not valid (another user is never told why), and for a process of another job;
/// ncclRemoteError when the daemon that keeps the ticket is gone; ncclSystemError when no daemon
/// listens.
ncclResult_t hzJoinJob(const char* job, const char* ticket, int timeout_ms, hzPlace_t* place);

/// Stores into `*waiting` how many newcomers wait for a place in the job that `comm` belongs to.
/// Cheap enough for each training step of one rank: a question to this host's daemon, and from
/// there to the one that looks after the communicator.
/// Errors: as hzMakeTicket.
ncclResult_t hzNewcomers(ncclComm_t comm, int* waiting);

/// Gives up to `most` newcomers that wait places in the communicator to which `comm` grows, in the
/// order in which they came, and stores its size into `*ranks`: the size of `comm` if nobody waits.
/// All ranks of `comm` then call ncclCommGrow(comm, *ranks, NULL, -1, &newcomm, NULL). Until that
/// has ended, further calls store the same size. It fails at all ranks if a newcomer is lost
/// meanwhile; then hzAdmit begins anew.
/// Errors: as hzMakeTicket; ncclInvalidArgument for a negative `most`.
ncclResult_t hzAdmit(ncclComm_t comm, int most, int* ranks);

/// @}

/// \name Checkpoints
/// Ranks save their shards of a job's state together, and go on after a copy: the daemon keeps the
/// copy beyond their end, and harmonaize-writer stores it. Any number of ranks read it back, each
/// what it wants, from memory or from storage, whichever is nearest. docs/checkpoints.md tells all
/// of it.
///
///     hzCheckpointer_t saver;
///     hzCheckpointerConfig_t config = HZ_CHECKPOINTER_CONFIG_INITIALIZER;
///     config.folder = "/shared/checkpoints/my-training";
///     hzCheckpointerCreate(comm, &config, &saver);
///     // After every so many steps, at all ranks.
///     hzCheckpointSave(saver, step, 0, shards, count);
///
///     // After a restart, at all ranks of a new communicator.
///     hzCheckpoint_t found;
///     if (hzCheckpointOpen(comm, config.folder, -1, &found) == ncclSuccess) {
///       hzCheckpointRead(found, wanted, wanted_count);
///       hzCheckpointClose(found);
///     }
///
/// A handle is for one thread at a time. Names of tensors and objects are UTF-8 of up to 1024
/// bytes, without '/', ".." and control characters.
/// @{

/// A rank's end of the saving of checkpoints. Belongs to the process that made it and does not
/// survive fork.
typedef struct hzCheckpointer* hzCheckpointer_t;

/// Types of a tensor's elements.
typedef enum {
  hzBool = 0,
  hzUint8 = 1,
  hzInt8 = 2,
  hzUint16 = 3,
  hzInt16 = 4,
  hzUint32 = 5,
  hzInt32 = 6,
  hzUint64 = 7,
  hzInt64 = 8,
  hzFloat16 = 9,
  hzBfloat16 = 10,
  hzFloat32 = 11,
  hzFloat64 = 12,
  hzFloat8e4m3 = 13,
  hzFloat8e5m2 = 14,
  hzComplex64 = 15
} hzElementType_t;

/// What a rank has, or wants, of a tensor: a box of its elements, contiguous, row-major. Begin with
/// HZ_SHARD_INITIALIZER.
typedef struct hzShard {
  size_t size;  ///< sizeof(hzShard_t), so that a later library knows what it holds.
  const char* name;
  hzElementType_t type;
  /// 1: an object, bytes that only the program understands: a tensor of hzUint8 of one dimension,
  /// which one shard holds whole.
  int is_object;
  int dimensions;               ///< 0: a scalar.
  const int64_t* global_shape;  ///< The whole tensor's lengths.
  const int64_t* offset;        ///< Where the box begins; NULL: at the tensor's beginning.
  const int64_t* shape;         ///< The box's lengths; NULL: up to the tensor's end.
  void* data;                   ///< Its first element.
} hzShard_t;

#define HZ_SHARD_INITIALIZER \
  { sizeof(hzShard_t), NULL, hzFloat32, 0, 0, NULL, NULL, NULL, NULL }

/// In place of a folder: the provider's store. The daemon writes what all ranks have, and gives it
/// back to the same user and job, through hzCheckpointOpen alone. Not every provider has one.
#define HZ_PROVIDER_STORE "provider:"

/// How a rank saves. Begin with HZ_CHECKPOINTER_CONFIG_INITIALIZER.
typedef struct hzCheckpointerConfig {
  size_t size;  ///< sizeof(hzCheckpointerConfig_t).
  /// Absolute path of the folder that checkpoints are stored in, the same at all ranks, on a file
  /// system that all hosts share; NULL: they stay in memory. It is made where only its last part is
  /// missing. HZ_PROVIDER_STORE: the provider stores them, as many and as fast as it likes;
  /// `format`, `keep`, `most_bytes_per_second` and `linger_seconds` do not count then.
  const char* folder;
  /// "safetensors", "dcp" or "ucp": the form in which an export takes no copies. NULL: as
  /// [checkpoint] format of the job's requirements states, or else "safetensors".
  const char* format;
  /// How many checkpoints stay in the folder, the newest; 0: all. -1: as [checkpoint] keep of the
  /// job's requirements states, or else 2.
  int keep;
  double most_bytes_per_second;  ///< At which this rank's writer writes; 0: as fast as it can.
  double linger_seconds;         ///< For how long the writer goes on when the rank has ended.
  int threads;                   ///< That copy; 0: the rank's share of its processors.
} hzCheckpointerConfig_t;

#define HZ_CHECKPOINTER_CONFIG_INITIALIZER \
  { sizeof(hzCheckpointerConfig_t), NULL, NULL, -1, 0, 600, 0 }

/// Makes a rank's end of the saving, and stores it into `*saver`. `config` may be NULL. The
/// communicator has to stay until the last save. Memory for twice the rank's shards is taken with
/// the first save and soon after it.
/// Errors: ncclInvalidArgument for a configuration that none can have; ncclInvalidUsage while
/// `comm` is not ready, or for HZ_PROVIDER_STORE where there is none; ncclSystemError if there is
/// no harmonaize-writer (HARMONAIZE_WRITER names it).
ncclResult_t hzCheckpointerCreate(ncclComm_t comm, const hzCheckpointerConfig_t* config,
                                  hzCheckpointer_t* saver);

/// Gives the memory back, and forgets what was saved in it; what is on its way to the folder is
/// still stored. A process that ends without this call leaves its last checkpoint in the daemon's
/// keeping. `saver` is not valid afterwards, also when an error is returned.
ncclResult_t hzCheckpointerDestroy(hzCheckpointer_t saver);

/// Flag of a save: the end of an epoch. Such checkpoints stay in the folder, beside the newest.
#define HZ_CHECKPOINT_EPOCH_END 1

/// Saves this rank's shards of a step. All ranks of the communicator call it, in the same order
/// with the same steps, each with its own shards; elements that several ranks have may be saved by
/// any of them. Returns once the shards are copied: only this stops the job. Before, it waits until
/// the save before has been called at all ranks, and the one before that is written.
/// Errors: ncclInvalidArgument, with the shard's name, for shards that cannot be; ncclInvalidUsage
/// if a quota of the provider's is used up, or ranks save different steps; ncclRemoteError if a
/// rank is lost. What becomes of it in the folder is no error here: hzCheckpointLook tells.
ncclResult_t hzCheckpointSave(hzCheckpointer_t saver, uint64_t step, int flags,
                              const hzShard_t* shards, size_t count);

/// The two halves of hzCheckpointSave, for callers that copy by themselves, from a device, say:
/// hzCheckpointBegin stores for each shard, whose `data` does not count, where its elements are to
/// be written into `rooms`, and hzCheckpointCommit says that all of them are. The rooms are valid
/// up to there.
ncclResult_t hzCheckpointBegin(hzCheckpointer_t saver, uint64_t step, int flags,
                               const hzShard_t* shards, size_t count, void** rooms);
ncclResult_t hzCheckpointCommit(hzCheckpointer_t saver);

/// Gives up the save that has begun: not all elements could be written. Other ranks that have saved
/// the step wait with their next save until this rank has saved it, too.
/// Errors: ncclInvalidUsage if none has begun.
ncclResult_t hzCheckpointAbandon(hzCheckpointer_t saver);

/// Stores when the job of `comm` had best save, and why, into `*json`: the document of GET
/// /v1/jobs/{job}/checkpoints/advice in one line (docs/checkpoint-advice.md). It is valid until
/// this thread asks again. The same comes as the event checkpoint.advised. Errors: ncclInvalidUsage
/// while `comm` is not ready; ncclSystemError when no daemon listens.
ncclResult_t hzCheckpointAdvice(ncclComm_t comm, const char** json);

/// What has become of a save. Begin with HZ_CHECKPOINT_STATE_INITIALIZER.
typedef struct hzCheckpointState {
  size_t size;          ///< sizeof(hzCheckpointState_t).
  int is_in_memory;     ///< All ranks have it in memory.
  int is_at_peer;       ///< Other hosts have copies of all of it in memory.
  int is_stored;        ///< It is committed in the folder.
  int has_failed;       ///< It will not be: `failure` says why.
  const char* failure;  ///< Valid until the next call for the saver; "" if it has not failed.
} hzCheckpointState_t;

#define HZ_CHECKPOINT_STATE_INITIALIZER \
  { sizeof(hzCheckpointState_t), 0, 0, 0, 0, NULL }

/// Stores what has become of this rank's last save of a step into `*state`. Does not wait.
/// Errors: ncclInvalidArgument unless the step is among the last 16 that were saved.
ncclResult_t hzCheckpointLook(hzCheckpointer_t saver, uint64_t step, hzCheckpointState_t* state);

typedef enum { hzInMemory = 0, hzInStorage = 1, hzAtPeer = 2 } hzCheckpointPlace_t;

/// Waits up to `timeout_ms`, -1 for ever, until this rank's last save of a step is at a place.
/// Returns ncclInProgress if it is not there by then.
/// Errors: those of hzCheckpointLook; why it could not be stored.
ncclResult_t hzCheckpointWait(hzCheckpointer_t saver, uint64_t step, hzCheckpointPlace_t place,
                              int timeout_ms);

/// A checkpoint that is open for reading.
typedef struct hzCheckpoint* hzCheckpoint_t;

/// Opens the job's checkpoint of a step, -1 for the newest, and stores it into `*checkpoint`. All
/// ranks of the communicator call it, and get the same one: rank 0 chooses, the nearest of several
/// copies. The job's ranks may be others, and more or fewer, than those that have saved it.
/// `folder` is hzCheckpointerConfig_t's, NULL: only memory is looked at. With `comm` NULL the
/// folder alone is looked at, by this process alone.
/// Errors: ncclSystemError if there is none; ncclInvalidArgument for one that is damaged.
ncclResult_t hzCheckpointOpen(ncclComm_t comm, const char* folder, int64_t step,
                              hzCheckpoint_t* checkpoint);

/// What an open checkpoint is. Begin with HZ_CHECKPOINT_INFO_INITIALIZER.
typedef struct hzCheckpointInfo {
  size_t size;  ///< sizeof(hzCheckpointInfo_t).
  uint64_t step;
  int ranks;          ///< That have saved it.
  size_t tensors;     ///< Number of its tensors and objects.
  const char* place;  ///< Where it is read from: "memory", "peer" or "storage". Static storage.
} hzCheckpointInfo_t;

#define HZ_CHECKPOINT_INFO_INITIALIZER \
  { sizeof(hzCheckpointInfo_t), 0, 0, 0, NULL }

ncclResult_t hzCheckpointGetInfo(hzCheckpoint_t checkpoint, hzCheckpointInfo_t* info);

/// Stores the tensor of this number, in the order of names, into `*tensor`: its name, type and
/// global shape, with `offset`, `shape` and `data` NULL. They are valid until the checkpoint is
/// closed.
/// Errors: ncclInvalidArgument for a number that none has.
ncclResult_t hzCheckpointTensor(hzCheckpoint_t checkpoint, size_t index, hzShard_t* tensor);

/// Reads boxes of tensors into `data` of each, which has room for them. They may be others than
/// those that were saved. The communicator it was opened with has to be there still. Memory may be
/// saved into meanwhile: what was read of another save is never taken for this one.
/// Errors: ncclInvalidArgument, with the name, for a tensor that was not saved, or with another
/// type or shape, or not all of it; ncclSystemError, also where newer saves have taken the place of
/// this one in memory.
ncclResult_t hzCheckpointRead(hzCheckpoint_t checkpoint, const hzShard_t* wanted, size_t count);

ncclResult_t hzCheckpointClose(hzCheckpoint_t checkpoint);

/// @}

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // HARMONAIZE_H_
