#include "daemon/tenant/finished_parts.h"

#include "daemon/tenant/member.h"
#include "daemon/tenant/rank_feed.h"
#include "daemon/tenant/session.h"
#include "daemon/tenant/stream_queue.h"

namespace harmonaize::daemon {

void FinishedParts::Finish(PostedOperation* part, const Status& outcome) {
  if (IsMessage(*part)) return FinishMessage(part, outcome);
  Session& session = *part->member->session;
  if (!outcome.ok()) {
    part->member->slot->error.Set(outcome.message());
    part->stream->NoteFailure(outcome.code(), part->member->index);
  }
  EndSliceProgress(*part);
  if (part->stream->Finish(ReadyParts::ListOf(session.tenant()))) {
    unpublished_.push_back({part->stream, &session});
  }
  ready_->Note(session.tenant());
  session.Retire(part);
}

// Release: whoever sees the end sees the bytes, and what was received. Sessions that have several
// messages ended in a row are listed once.
void FinishedParts::FinishMessage(PostedOperation* message, const Status& outcome) {
  Session& session = *message->member->session;
  if (!outcome.ok()) message->member->slot->error.Set(outcome.message());
  MessageOutcome& word = *message->outcome_word;
  word.bytes.store(outcome.ok() ? message->moved_bytes : 0, std::memory_order_relaxed);
  word.end.store(OutcomeOf(outcome.code()), std::memory_order_release);
  const bool listed = !unpublished_.empty() && unpublished_.back().session == &session;
  if (!listed) unpublished_.push_back({nullptr, &session});
  session.Retire(message);
}

// Shows the completed parts to all threads that look, which is quick, before it wakes those that
// sleep.
void FinishedParts::Publish() {
  for (const Unpublished& one : unpublished_) {
    if (one.queue != nullptr) one.queue->Publish();
  }
  for (const Unpublished& one : unpublished_) {
    if (one.queue != nullptr && one.queue->WakeReached()) one.session->CountWake();
    one.session->PublishRetired();
    one.session->TellNews();
  }
  unpublished_.clear();
}

}  // namespace harmonaize::daemon
