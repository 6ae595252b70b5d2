#include "daemon/communicator/pipes.h"

namespace harmonaize::daemon {

Result<std::optional<Pipes::Match>> Pipes::Add(PostedOperation* message) {
  const PipeId id = PipeOf(*message);
  const bool sends = message->descriptor.collective == Collective::kSend;
  const uint64_t name = message->descriptor.sequence;
  const auto there = pipes_.find(id.AtPeer());
  const auto here = pipes_.find(id);
  if (here != pipes_.end() && here->second.closed) {
    return InvalidUsage("a message in a pipe that this process has closed");
  }
  if (there != pipes_.end()) {
    if (there->second.closed) return RemoteError("the other process has closed the pipe");
    auto& waiting = sends ? there->second.receives : there->second.sends;
    const auto half = waiting.extract(name);
    if (!half.empty()) {
      if (there->second.empty()) pipes_.erase(there);
      return std::optional<Match>(sends ? Match{message, half.mapped()}
                                        : Match{half.mapped(), message});
    }
  }
  End& end = pipes_[id];
  if (end.sends.size() + end.receives.size() >= kMostMessagesOfPipe) {
    return InvalidUsage("more than {} messages under way in one pipe", kMostMessagesOfPipe);
  }
  if (!(sends ? end.sends : end.receives).try_emplace(name, message).second) {
    return InvalidUsage("a message was posted twice under one name");
  }
  return std::optional<Match>();
}

std::vector<PostedOperation*> Pipes::Close(const PipeId& id) {
  std::vector<PostedOperation*> taken;
  End& end = pipes_[id];
  end.closed = true;
  TakeFrom(&end, &taken);
  const auto there = pipes_.find(id.AtPeer());
  if (there == pipes_.end()) return taken;
  TakeFrom(&there->second, &taken);
  const bool both = there->second.closed;
  pipes_.erase(there);
  if (both) pipes_.erase(id);
  return taken;
}

std::vector<PostedOperation*> Pipes::TakeWith(int rank) {
  std::vector<PostedOperation*> taken;
  for (auto next = pipes_.begin(); next != pipes_.end();) {
    const bool concerned = next->first.rank == rank || next->first.peer == rank;
    if (concerned) TakeFrom(&next->second, &taken);
    next = concerned ? pipes_.erase(next) : std::next(next);
  }
  return taken;
}

std::vector<PostedOperation*> Pipes::TakeAll() {
  std::vector<PostedOperation*> taken;
  for (auto& [id, end] : pipes_) TakeFrom(&end, &taken);
  pipes_.clear();
  return taken;
}

void Pipes::TakeFrom(End* end, std::vector<PostedOperation*>* taken) {
  for (auto* const messages : {&end->sends, &end->receives}) {
    for (const auto& [name, message] : *messages) taken->push_back(message);
    messages->clear();
  }
}

}  // namespace harmonaize::daemon
