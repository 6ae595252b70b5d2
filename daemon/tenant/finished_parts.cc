#include "daemon/tenant/finished_parts.h"

#include "daemon/tenant/member.h"
#include "daemon/tenant/rank_feed.h"
#include "daemon/tenant/session.h"
#include "daemon/tenant/stream_queue.h"

namespace harmonaize::daemon {

void FinishedParts::Finish(PostedOperation* part, const Status& outcome) {
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

// Shows the completed parts to all threads that look, which is quick, before it wakes those that
// sleep.
void FinishedParts::Publish() {
  for (const Unpublished& one : unpublished_) one.queue->Publish();
  for (const Unpublished& one : unpublished_) {
    if (one.queue->WakeReached()) one.session->CountWake();
    one.session->PublishRetired();
    one.session->TellNews();
  }
  unpublished_.clear();
}

}  // namespace harmonaize::daemon
