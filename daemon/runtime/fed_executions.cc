#include "daemon/runtime/fed_executions.h"

#include "daemon/runtime/guarded.h"

namespace harmonaize::daemon {
namespace {

/// Most executions that end before the engine looks at other tenants' work.
constexpr int kEndedAtOnce = 64;

}  // namespace

void FedExecutions::Expect(FedExecution* execution, FedExecutionOwner* owner, void* cookie) {
  execution->owner = owner;
  execution->cookie = cookie;
  execution->done_list = &done_;
}

void FedExecutions::Watch(FedExecution* execution) {
  if (!execution->done()) feeding_.PushBack(execution);
}

bool FedExecutions::Run() {
  const bool fed = FeedSome();
  return EndSome() || fed;
}

// An execution that is done moves itself to the other list.
bool FedExecutions::FeedSome() {
  bool progress = false;
  FedExecution* next = nullptr;
  for (FedExecution* execution = feeding_.Front(); execution != nullptr; execution = next) {
    next = feeding_.After(execution);
    bool failed = false;
    Guarded([&] { progress |= execution->Feed(); },
            [&](const Status& exception) {
              failed = true;
              execution->owner->OnException(execution, exception);
            });
    if (failed) return true;  // `next` may have been canceled along
  }
  return progress;
}

bool FedExecutions::EndSome() {
  if (done_.empty()) return false;
  // The end of an operation may begin and end others.
  for (int ended = 0; ended < kEndedAtOnce; ++ended) {
    FedExecution* const execution = done_.PopFront();
    if (execution == nullptr) break;
    FedExecutionOwner* const owner = execution->owner;
    Guarded([&] { owner->OnDone(execution); },
            [&](const Status& exception) { owner->OnException(execution, exception); });
  }
  return true;
}

bool FedExecutions::AnyToDo() const {
  if (!done_.empty()) return true;
  for (const FedExecution* execution = feeding_.Front(); execution != nullptr;
       execution = feeding_.After(execution)) {
    if (execution->CanFeed()) return true;
  }
  return false;
}

}  // namespace harmonaize::daemon
