#include "daemon/checkpoint/part_copies.h"

#include <utility>

#include "daemon/checkpoint/part_eraser.h"
#include "daemon/runtime/event_loop.h"

namespace harmonaize::daemon {

PartCopies::~PartCopies() {
  for (auto& [name, copy] : copies_) EndElsewhere(std::move(copy.fetch));
}

/// The end of a fetch waits for its thread, which may just be connecting to a host that is gone.
void PartCopies::EndElsewhere(std::shared_ptr<PartFetch> fetch) {
  if (fetch == nullptr) return;
  services_.eraser->Run([owned = std::move(fetch)] {});
}

Status PartCopies::Begin(const PartName& name, const PartPlace& place, Account& account,
                         uint64_t now_ns) {
  if (copies_.contains(name)) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<CopiedMemory> memory,
                      CopiedMemory::Make(account, place.bytes, services_.eraser));
  copies_[name] = {
      .memory = std::move(memory),
      .fetch = std::make_shared<PartFetch>(place.address, place.ticket, services_.settings),
      .used_ns = now_ns};
  return Status::Ok();
}

void PartCopies::Fetch(const PartName& name, uint64_t at, uint64_t bytes, uint64_t now_ns,
                       Done done) {
  Copy& copy = copies_.at(name);
  copy.used_ns = now_ns;
  if (at > copy.memory->bytes() || bytes > copy.memory->bytes() - at) {
    return done(InvalidArgument("bytes {} to {} do not lie in the part", at, at + bytes));
  }
  if (copy.memory->Has(at, bytes)) return done(Status::Ok());
  // The fetch writes into the memory, so it keeps it.
  const auto fetched = lifetime_.Guard([this, name, at, bytes, done](const Status& status) {
    OnFetched(name, at, bytes, status, done);
  });
  const Status asked = copy.fetch->Read(
      at, copy.memory->At(at, bytes),
      [loop = services_.loop, memory = copy.memory, fetched](const Status& status) {
        loop->Post([fetched, status] { fetched(status); });
      });
  if (!asked.ok()) return done(asked);
  ++copy.under_way;
}

void PartCopies::OnFetched(const PartName& name, uint64_t at, uint64_t bytes, const Status& status,
                           const Done& done) {
  const auto found = copies_.find(name);
  if (found == copies_.end()) return done(RemoteError("the part of a checkpoint was given back"));
  --found->second.under_way;
  if (status.ok()) {
    found->second.memory->NoteWritten(at, bytes);
  } else if (found->second.under_way == 0) {
    Drop(name);
  }
  done(status);
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
  EndElsewhere(std::move(found->second.fetch));
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
