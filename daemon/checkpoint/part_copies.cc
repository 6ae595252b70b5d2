#include "daemon/checkpoint/part_copies.h"

#include <utility>

#include "daemon/checkpoint/part_eraser.h"
#include "daemon/runtime/event_loop.h"

namespace harmonaize::daemon {

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
  if (at > copy.memory->bytes() || bytes > copy.memory->bytes() - at) {
    return fetched(InvalidArgument("bytes {} to {} do not lie in the part", at, at + bytes));
  }
  if (copy.memory->Has(at, bytes)) return fetched(copy.memory->bytes());
  // The source writes into the memory, so it keeps it.
  const auto then = lifetime_.Guard([this, name, at, bytes, fetched](const Status& status) {
    OnFetched(name, at, bytes, status, fetched);
  });
  const Status asked =
      copy.source->Read(at, copy.memory->At(at, bytes),
                        [loop = services_.loop, memory = copy.memory, then](const Status& status) {
                          loop->Post([then, status] { then(status); });
                        });
  if (!asked.ok()) return fetched(asked);
  ++copy.under_way;
}

void PartCopies::OnFetched(const PartName& name, uint64_t at, uint64_t bytes, const Status& status,
                           const Fetched& fetched) {
  const auto found = copies_.find(name);
  if (found == copies_.end()) {
    return fetched(RemoteError("the part of a checkpoint was given back"));
  }
  --found->second.under_way;
  if (status.ok()) {
    found->second.memory->NoteWritten(at, bytes);
    return fetched(found->second.memory->bytes());
  }
  if (found->second.under_way == 0) Drop(name);
  fetched(status);
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

void PartCopies::DropUnusedSince(uint64_t since_ns) {
  std::vector<PartName> unused;
  for (const auto& [name, copy] : copies_) {
    if (copy.used_ns < since_ns && copy.under_way == 0) unused.push_back(name);
  }
  for (const PartName& name : unused) Drop(name);
}

}  // namespace harmonaize::daemon
