#include "src/transport/bulk_queue.h"

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

Request* BulkQueue::Pop() {
  while (Row* row = rows_.PopFront()) {
    Request* send = row->requests.PopFront();
    // Also one whose last request has left by itself.
    (row->requests.empty() ? free_ : rows_).PushBack(row);
    if (send != nullptr) return send;
  }
  return nullptr;
}

}  // namespace harmonaize::transport
