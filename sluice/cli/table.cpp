#include "sluice/cli/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

std::string cell(const nlohmann::ordered_json& value, const Column& column) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer() && column.scale == 1) {
    return fmt::format("{}", value.get<std::int64_t>());
  }
  return fmt::format(fmt::runtime(column.spec),
                     value.get<double>() * column.scale);
}

std::string table(const std::vector<nlohmann::ordered_json>& rows,
                  const std::vector<Column>& columns) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& c : columns) lines[0].emplace_back(c.title);
  for (const auto& row : rows) {
    lines.emplace_back();
    for (const Column& c : columns) {
      const auto it = row.find(std::string(c.key));
      lines.back().push_back(it == row.end() ? "-" : cell(*it, c));
    }
  }
  std::vector<std::size_t> widths(columns.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      widths[c] = std::max(widths[c], line[c].size());
    }
  }
  std::string out;
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      // Names to the left, numbers to the right.
      const bool left = columns[c].spec.empty();
      out += left ? fmt::format("{:<{}}", line[c], widths[c])
                  : fmt::format("{:>{}}", line[c], widths[c]);
      out += c + 1 < line.size() ? "  " : "\n";
    }
  }
  return out;
}

std::string csv(const std::vector<nlohmann::ordered_json>& rows) {
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string keys;
    std::string values;
    for (const auto& [key, value] : rows[r].items()) {
      keys += (keys.empty() ? "" : ",") + key;
      values += values.empty() && keys == key ? "" : ",";
      values += value.is_string() ? value.get<std::string>() : value.dump();
    }
    if (r == 0) out += keys + "\n";
    out += values + "\n";
  }
  return out;
}

}  // namespace

std::string print_rows(const std::vector<nlohmann::ordered_json>& rows,
                       const std::vector<Column>& columns, Format format) {
  switch (format) {
    case Format::kTable:
      return table(rows, columns);
    case Format::kCsv:
      return csv(rows);
    case Format::kJson:
      return nlohmann::ordered_json(rows).dump(2) + "\n";
  }
  return {};
}

}  // namespace sluice
