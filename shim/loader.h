#pragma once

namespace harmonaize::shim {

using DlopenFunction = void* (*)(const char* file, int mode);

/// Returns the dlopen behind our own: the loader's, or that of another library in between. May be
/// called before any constructor of ours has run.
DlopenFunction LoadersDlopen() noexcept;

}  // namespace harmonaize::shim
