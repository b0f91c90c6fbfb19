#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

enum class Format { kTable, kMarkdown, kCsv, kJson };

// How a column is shown to people; machines get every key of a row.
struct Column {
  std::string_view key;
  std::string_view title;
  std::string_view spec;  // of fmt, such as "{:.3f}"
  double scale = 1;       // numbers are multiplied by it first
};

// Rows (JSON objects with equal keys) as an aligned table, as one in Markdown,
// as CSV or as a JSON array.
std::string print_rows(const std::vector<nlohmann::ordered_json>& rows,
                       const std::vector<Column>& columns, Format format);

// --json and --csv, which exclude each other.
struct OutputOptions {
  bool json = false;
  bool csv = false;
  Format format() const {
    return json ? Format::kJson : csv ? Format::kCsv : Format::kTable;
  }
};

}  // namespace sluice
