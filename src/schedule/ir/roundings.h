#pragma once

#include <vector>

#include "src/base/status.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

// Messages of a reducing collective may have a narrower format than the data has. Then two kinds
// of results are rounded to the format as they are made: those that are sent, so that every host
// goes on with the same value, and those that stand in outputs, so that all ranks get the same.
// Other results stay in scratch memory of their host, and are not rounded.

/// Where the steps of one host's program get their sources from, and which results they send. The
/// list order of a program is one in which it may be executed, so the maker of a block's content
/// is the last step before that writes it.
struct ResultUse {
  /// By step and source: the step whose result the source is; -1 for an input.
  std::vector<std::vector<int>> makers;
  /// By step: whether a step sends its result, or, for a receive, passes on what it received.
  std::vector<bool> sent;
};
/// Requires: the program is of a schedule that has passed Check.
ResultUse UseOfResults(const HostProgram& program);

/// Returns whether the step writes any output.
bool WritesOutput(const Step& step);

/// Returns the most roundings that lie on the way of any contribution to any output, where all
/// messages have a narrower format. Takes memory and time in proportion to the schedule's steps.
/// Errors: the schedule is none that passes Check.
Result<int> MostRoundings(const Schedule& schedule);

}  // namespace harmonaize
