#include "src/ipc/ticket.h"

#include <gtest/gtest.h>

#include <string>

namespace harmonaize {
namespace {

TEST(Ticket, IsTextThatComesBackAsItWas) {
  UniqueId home;
  home.token.fill(0xa5);
  home.reserved.fill(0x5a);
  const Result<Ticket> made = MakeTicket(home);
  ASSERT_TRUE(made.ok());
  const std::string text = TextOfTicket(*made);
  EXPECT_LT(text.size(), kTicketTextBytes);
  EXPECT_EQ(
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
      std::string::npos);
  const Result<Ticket> read = ParseTicket(text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->secret, made->secret);
  EXPECT_EQ(read->home, home);
  EXPECT_NE(MakeTicket(home)->secret, made->secret);
}

TEST(Ticket, OfOtherTextIsRefusedWithoutRepeatingIt) {
  const std::string text = TextOfTicket(*MakeTicket({}));
  for (const std::string& wrong :
       {std::string(), std::string("hzt1_"), text.substr(1), text + "A", text.substr(0, 100),
        "hzt2_" + text.substr(5), text.substr(0, 20) + " " + text.substr(21)}) {
    const Status refused = ParseTicket(wrong).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << wrong;
    if (wrong.size() <= 5) continue;
    EXPECT_EQ(refused.message().find(wrong), std::string::npos);
  }
}

}  // namespace
}  // namespace harmonaize
