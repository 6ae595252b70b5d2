#include "daemon/sources/cloud_dates.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

TEST(CloudDates, EachFormIsRead) {
  EXPECT_EQ(ParseRfc1123Date("Mon, 19 Sep 2016 18:29:47 GMT"), 1474309787);
  EXPECT_EQ(ParseAwsMaintenanceDate("21 Jan 2019 09:00:43 GMT"), 1548061243);
  EXPECT_EQ(ParseIso8601Date("2017-09-18T08:22:00Z"), 1505722920);
  EXPECT_EQ(ParseIso8601Date("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(ParseIso8601Date("9999-12-31T23:59:59Z"), 253402300799);
}

TEST(CloudDates, LeapDaysAreThoseOfTheCalendar) {
  EXPECT_EQ(ParseIso8601Date("2024-02-29T00:00:00Z"), 1709164800);
  EXPECT_EQ(ParseIso8601Date("2000-02-29T00:00:00Z"), 951782400);
  EXPECT_FALSE(ParseIso8601Date("2023-02-29T00:00:00Z"));
  EXPECT_FALSE(ParseIso8601Date("2100-02-29T00:00:00Z"));
}

TEST(CloudDates, AWeekdayThatIsNotThatOfTheDateIsRefused) {
  EXPECT_FALSE(ParseRfc1123Date("Tue, 19 Sep 2016 18:29:47 GMT"));
  EXPECT_FALSE(ParseRfc1123Date("Xxx, 19 Sep 2016 18:29:47 GMT"));
}

TEST(CloudDates, DaysAndTimesThatDoNotExistAreRefused) {
  for (const char* text :
       {"2017-00-18T08:22:00Z", "2017-13-18T08:22:00Z", "2017-09-00T08:22:00Z",
        "2017-09-31T08:22:00Z", "2017-09-18T24:00:00Z", "2017-09-18T08:60:00Z",
        "2017-09-18T08:22:60Z", "1969-12-31T23:59:59Z", "0000-01-01T00:00:00Z"}) {
    EXPECT_FALSE(ParseIso8601Date(text)) << text;
  }
  EXPECT_FALSE(ParseAwsMaintenanceDate("31 Feb 2019 09:00:43 GMT"));
  EXPECT_FALSE(ParseAwsMaintenanceDate("00 Jan 2019 09:00:43 GMT"));
  EXPECT_FALSE(ParseAwsMaintenanceDate("21 Jan 2019 25:00:43 GMT"));
}

TEST(CloudDates, AnyOtherFormIsRefused) {
  for (const char* text :
       {"", " ", "Z", "2017-09-18", "2017-09-18T08:22:00", "2017-09-18T08:22:00z",
        "2017-09-18 08:22:00Z", "2017-09-18T08:22:00+00:00", "2017-09-18T08:22:00.5Z",
        "2017-9-18T08:22:00Z", "2017-09-18T08:22:00ZZ", " 2017-09-18T08:22:00Z",
        "+017-09-18T08:22:00Z", "-017-09-18T08:22:00Z", "2017-09-18T 8:22:00Z",
        "Mon, 19 Sep 2016 18:29:47 GMT", "21 Jan 2019 09:00:43 GMT"}) {
    EXPECT_FALSE(ParseIso8601Date(text)) << text;
  }
  for (const char* text : {"", "Mon", "Mon, ", "19 Sep 2016 18:29:47 GMT",
                           "Mon, 19 Sep 2016 18:29:47 UTC", "Mon, 19 Sep 2016 18:29:47 GMT ",
                           "mon, 19 sep 2016 18:29:47 gmt", "Mon, 19 Sept 2016 18:29:47 GMT",
                           "Monday, 19-Sep-16 18:29:47 GMT", "Mon, 19 Sep 2016 18:29:47 +0000"}) {
    EXPECT_FALSE(ParseRfc1123Date(text)) << text;
  }
  for (const char* text :
       {"", "1 Jan 2019 09:00:43 GMT", "21 Jan 19 09:00:43 GMT", "21 January 2019 09:00:43 GMT",
        "21 Jan 2019 09:00 GMT", "2019-01-21T09:00:43Z", "21 Jan 2019 09:00:43"}) {
    EXPECT_FALSE(ParseAwsMaintenanceDate(text)) << text;
  }
}

}  // namespace
}  // namespace harmonaize::daemon
