#include "src/transport/queue/bulk_queue.h"

namespace harmonaize::transport {

BulkQueue::Row* BulkQueue::RowOf(uint64_t operation) {
  for (Row* row = rows_.Front(); row != nullptr; row = rows_.After(row)) {
    if (row->operation == operation) return row;
  }
  if (free_.empty()) free_.PushBack(&all_.emplace_back());
  Row* row = free_.PopFront();
  row->operation = operation;
  rows_.PushBack(row);
  return row;
}

Request* BulkQueue::Front() {
  while (Row* row = rows_.Front()) {
    if (!row->requests.empty()) return row->requests.Front();
    free_.PushBack(row);  // its last request has left by Unlink
  }
  return nullptr;
}

Request* BulkQueue::Pop() {
  if (Front() == nullptr) return nullptr;
  Row* row = rows_.PopFront();
  Request* send = row->requests.PopFront();
  (row->requests.empty() ? free_ : rows_).PushBack(row);
  return send;
}

}  // namespace harmonaize::transport
