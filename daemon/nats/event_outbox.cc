#include "daemon/nats/event_outbox.h"

#include <algorithm>
#include <utility>

namespace harmonaize::daemon {

// The texts may have been allocated apart from the entry.
size_t EventOutbox::BytesOf(const Entry& entry) {
  return sizeof(Entry) + entry.subject.size() + entry.id.size() + entry.content.size();
}

EventOutbox::Queues::iterator EventOutbox::QueueOf(uint32_t tenant) {
  const auto found = places_.find(tenant);
  if (found != places_.end()) return found->second;
  const auto queue = queues_.insert(queues_.end(), Queue{.tenant = tenant, .entries = {}});
  places_.emplace(tenant, queue);
  return queue;
}

void EventOutbox::Add(Entry entry) {
  const auto queue = QueueOf(entry.tenant);
  const size_t bytes = BytesOf(entry);
  queue->entries.push_back(std::move(entry));
  queue->bytes += bytes;
  bytes_ += bytes;
  ++events_;
  KeepWithinLimits(queue);
}

void EventOutbox::PutBack(Entry entry) {
  const auto queue = QueueOf(entry.tenant);
  const size_t bytes = BytesOf(entry);
  queue->entries.push_front(std::move(entry));
  queue->bytes += bytes;
  bytes_ += bytes;
  ++events_;
  KeepWithinLimits(queue);
}

std::optional<EventOutbox::Entry> EventOutbox::Take() {
  if (queues_.empty()) return std::nullopt;
  const auto queue = queues_.begin();
  queues_.splice(queues_.end(), queues_, queue);
  return RemoveFirst(queue);
}

EventOutbox::Entry EventOutbox::RemoveFirst(Queues::iterator queue) {
  Entry entry = std::move(queue->entries.front());
  queue->entries.pop_front();
  const size_t bytes = BytesOf(entry);
  queue->bytes -= bytes;
  bytes_ -= bytes;
  --events_;
  if (queue->entries.empty()) {
    places_.erase(queue->tenant);
    queues_.erase(queue);
  }
  return entry;
}

void EventOutbox::GiveUpFirst(Queues::iterator queue) {
  static_cast<void>(RemoveFirst(queue));
  ++given_up_;
}

// A tenant keeps its newest event in any case: one event is smaller than the tenant's limit.
void EventOutbox::KeepWithinLimits(Queues::iterator queue) {
  while (queue->entries.size() > 1 && (queue->entries.size() > limits_.events_of_tenant ||
                                       queue->bytes > limits_.bytes_of_tenant)) {
    GiveUpFirst(queue);
  }
  while (events_ > limits_.events || bytes_ > limits_.bytes) {
    GiveUpFirst(std::max_element(queues_.begin(), queues_.end(),
                                 [](const Queue& a, const Queue& b) { return a.bytes < b.bytes; }));
  }
}

}  // namespace harmonaize::daemon
