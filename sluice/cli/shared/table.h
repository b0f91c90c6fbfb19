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
  bool wide = false;      // only where there is room for it: --wide
};

// What people see of rows, and what its titles mean: no table is printed
// without a legend, which stands below it.
struct Table {
  std::vector<Column> columns;
  std::string legend;
};

// Rows (JSON objects with equal keys) as an aligned table, as one in Markdown,
// as CSV or as a JSON array. Columns that are wide are in it only if asked for.
std::string print_rows(const std::vector<nlohmann::ordered_json>& rows,
                       const Table& table, Format format, bool wide = false);

// As print_rows does, of rows that no table shows.
std::string print_csv(const std::vector<nlohmann::ordered_json>& rows);

// --json and --csv, which exclude each other, and --wide.
struct OutputOptions {
  bool json = false;
  bool csv = false;
  bool wide = false;
  Format format() const {
    return json ? Format::kJson : csv ? Format::kCsv : Format::kTable;
  }
};

// Prints rows to standard output, with titles that stand out on a terminal.
void show_rows(const std::vector<nlohmann::ordered_json>& rows,
               const Table& table, const OutputOptions& output = {});

}  // namespace sluice
