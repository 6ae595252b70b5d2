#include "daemon/checkpoint/part_copies.h"

#include <algorithm>
#include <utility>

#include "daemon/checkpoint/part_eraser.h"
#include "daemon/runtime/event_loop.h"

namespace harmonaize::daemon {
namespace {

/// Ranges of a copy begin and end at multiples of so many bytes: each that stands alone takes some
/// of the daemon's memory, of which a reader of single bytes would have as much as it likes.
constexpr uint64_t kPieceBytes = 64 << 10;

/// Requires: `bytes` is below 2^63.
uint64_t RoundUpToPiece(uint64_t bytes) {
  return (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
}

}  // namespace

PartCopies::~PartCopies() {
  for (auto& [name, copy] : copies_) EndElsewhere(std::move(copy.source));
}

/// The end of a source may wait for its thread, which may just be connecting to a host that is
/// gone.
void PartCopies::EndElsewhere(std::shared_ptr<PartSource> source) {
  if (source == nullptr) return;
  services_.eraser->Run([owned = std::move(source)] {});
}

Status PartCopies::Begin(const PartName& name, std::shared_ptr<PartSource> source, uint64_t bytes,
                         Account& account, uint64_t now_ns) {
  if (copies_.contains(name)) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<CopiedMemory> memory,
                      CopiedMemory::Make(account, bytes, services_.eraser));
  copies_[name] = {.memory = std::move(memory), .source = std::move(source), .used_ns = now_ns};
  return Status::Ok();
}

void PartCopies::Fetch(const PartName& name, uint64_t at, uint64_t bytes, uint64_t now_ns,
                       Fetched fetched) {
  Copy& copy = copies_.at(name);
  copy.used_ns = now_ns;
  const uint64_t all = copy.memory->bytes();
  if (at > all || bytes > all - at) {
    return fetched(InvalidArgument("bytes {} to {} do not lie in the part", at, at + bytes));
  }
  if (copy.memory->Has(at, bytes)) return fetched(all);
  copy.waiting.push_back({.at = at, .bytes = bytes, .fetched = std::move(fetched)});
  ReadNext(name);
}

/// Has what is missing read of the range that waits first, and answers those of which nothing is.
void PartCopies::ReadNext(const PartName& name) {
  for (;;) {
    const auto found = copies_.find(name);
    if (found == copies_.end()) return;
    Copy& copy = found->second;
    if (copy.waiting.empty() || copy.is_reading) return;
    const Waiting& first = copy.waiting.front();
    if (!copy.memory->Has(first.at, first.bytes)) {
      const Status asked = Read(name, &copy);
      if (asked.ok()) return;
      return Fail(name, asked);
    }
    const Fetched fetched = std::move(copy.waiting.front().fetched);
    copy.waiting.pop_front();
    // It may take the copy out.
    fetched(copy.memory->bytes());
  }
}

/// Has the source read what is missing first of the range that waits first.
Status PartCopies::Read(const PartName& name, Copy* copy) {
  const Waiting& first = copy->waiting.front();
  const uint64_t begin = first.at - first.at % kPieceBytes;
  const uint64_t end = std::min(copy->memory->bytes(), RoundUpToPiece(first.at + first.bytes));
  const CopiedMemory::Range missing = copy->memory->MissingIn(begin, end);
  const uint64_t bytes = missing.end - missing.begin;
  const auto then = lifetime_.Guard(
      [this, name, missing](const Status& status) { OnRead(name, missing, status); });
  // The source writes into the memory, so it keeps it.
  HZ_RETURN_IF_ERROR(copy->source->Read(
      missing.begin, copy->memory->At(missing.begin, bytes),
      [loop = services_.loop, memory = copy->memory, then](const Status& status) {
        loop->Post([then, status] { then(status); });
      }));
  copy->is_reading = true;
  return Status::Ok();
}

void PartCopies::OnRead(const PartName& name, const CopiedMemory::Range& range,
                        const Status& status) {
  Copy& copy = copies_.at(name);
  copy.is_reading = false;
  // A range that has failed may be written in part, and the copy's end overwrites what was written.
  copy.memory->NoteWritten(range.begin, range.end - range.begin);
  if (!status.ok()) return Fail(name, status);
  ReadNext(name);
}

/// Drops a copy that cannot be read.
void PartCopies::Fail(const PartName& name, const Status& status) {
  const std::deque<Waiting> waiting = std::move(copies_.at(name).waiting);
  Drop(name);
  for (const Waiting& one : waiting) one.fetched(status);
}

PartCopies::View PartCopies::Find(const PartName& name) const {
  const auto found = copies_.find(name);
  if (found == copies_.end()) return {};
  return {.memory = found->second.memory, .bytes = found->second.memory->bytes()};
}

std::shared_ptr<CopiedMemory> PartCopies::TakeOut(const PartName& name) {
  const auto found = copies_.find(name);
  if (found == copies_.end()) return nullptr;
  std::shared_ptr<CopiedMemory> memory = std::move(found->second.memory);
  Drop(name);
  return memory;
}

void PartCopies::Drop(const PartName& name) {
  const auto found = copies_.find(name);
  if (found == copies_.end()) return;
  EndElsewhere(std::move(found->second.source));
  copies_.erase(found);
}

void PartCopies::DropUnused(uint64_t now_ns) {
  std::vector<PartName> unused;
  for (const auto& [name, copy] : copies_) {
    if (copy.used_ns + kUnusedNs < now_ns && copy.waiting.empty()) unused.push_back(name);
  }
  for (const PartName& name : unused) Drop(name);
}

}  // namespace harmonaize::daemon
