#include "daemon/checkpoint/rank_choices.h"

#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/multihost/host_group.h"

namespace harmonaize::daemon {

void RankChoices::Post(Communicator& communicator, std::string choice) {
  ChoiceBoard& board = boards_[communicator.id()];
  if (HostGroup* const group = communicator.host_group()) {
    const ChoiceMessage message = {.about = group->roster().key,
                                   .number = board.last() + 1,
                                   .choice = {choice.begin(), choice.end()}};
    if (group->is_home()) {
      group->TellHosts(message);
    } else {
      group->TellHome(message);
    }
  }
  board.Post(std::move(choice));
}

Result<std::optional<std::string>> RankChoices::Hear(const Communicator& communicator, int rank) {
  if (communicator.state() != Communicator::State::kReady) return communicator.failure();
  return boards_[communicator.id()].Hear(rank);
}

/// The home passes a choice on to the other hosts.
void RankChoices::OnMessage(transport::PeerId peer, const ChoiceMessage& message) {
  const Communicator* const communicator = communicators_->FindByKey(message.about);
  HostGroup* const group = communicator == nullptr ? nullptr : communicator->host_group();
  if (group == nullptr) return;
  const bool may_tell =
      group->is_home() ? group->MaySpeakFor(0, peer) : group->roster().home == peer;
  if (!may_tell) return;
  if (group->is_home()) group->TellHosts(message, group->roster().HostOf(peer));
  boards_[communicator->id()].Take(message.number, {message.choice.begin(), message.choice.end()});
}

void RankChoices::OnEnded(const Communicator& communicator) {
  boards_.erase(communicator.id());
}

}  // namespace harmonaize::daemon
