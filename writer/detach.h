#pragma once

#include "src/base/status.h"

namespace harmonaize::writer {

/// Makes this process one of its own, in the background, that takes from the job only what the job
/// leaves over: the caller is told by the end of the first process, and goes on. All descriptors
/// but the standard ones and kWriterSocket are closed. What goes wrong is written to the file that
/// HARMONAIZE_WRITER_LOG names, if there is one. Returns in the process that goes on. Errors:
/// kSystemError.
Status Detach();

}  // namespace harmonaize::writer
