#pragma once

#include <string>
#include <string_view>

// Text inside of HTML and SVG.

namespace sluice {

// With everything replaced that means something in text or between quotes;
// control characters, which XML does not know, and bytes that are no UTF-8
// become "?".
std::string escape_markup(std::string_view text);

// At most so many characters, with an ellipsis for what is left out.
std::string shorten(std::string_view text, std::size_t most);

// A path as the part of a URL that a browser reads back as the same path: all
// bytes but letters, digits, '/', '-', '.', '_' and '~' are percent-encoded.
std::string encode_path(std::string_view path);

// Characters, not bytes.
std::size_t text_length(std::string_view text);

}  // namespace sluice
