// The one file in which fmt's functions are compiled. Debian has them as a shared library, which
// must not be loaded into a tenant's process. Header-only use would compile them again in every
// file, which takes longer than most files of ours do.

#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;
template FMT_API void vformat_to<char>(buffer<char>&, string_view,
                                       basic_format_args<buffer_context<char>>, locale_ref);
template FMT_API auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal<double>(double) noexcept
    -> dragonbox::decimal_fp<double>;
template FMT_API void buffer<char>::append<char>(const char*, const char*);

}  // namespace detail
FMT_END_NAMESPACE
