#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/cli/shared/table.h"
#include "sluice/report/plot.h"

// What `sluice study` leaves in its folder: study.json, which says all that a
// page needs to show it, CSV files and pictures.

namespace sluice {

// A line of a picture. Those with the same panel belong into one chart.
struct Series {
  std::string name;
  std::string panel;
  std::string x_label;
  std::string y_label;
  std::vector<double> x;
  std::vector<double> y;  // as many; NaN, in JSON null, where there is nothing
};

// Rows are objects; columns say which of their keys people see, and how.
struct StudyTable {
  std::string title;
  std::string legend;  // what the columns are, in a line or two
  std::vector<Column> columns;
  std::vector<nlohmann::ordered_json> rows;
};

struct StudyFile {
  std::string kind;      // gradients or convergence
  std::string title;     // what was studied
  std::string subtitle;  // job, workers, steps
  std::vector<Series> series;
  std::vector<StudyTable> tables;
};

// study.json is an object with
//
//   kind, title, subtitle
//   series  list of {name, panel, x_label, y_label, log_x, log_y, x, y}
//   tables  list of {title, legend, columns, rows}: columns is a list of
//   titles,
//           each row a list of as many cells, numbers or text or null
//   files   list of the other files of the folder, CSV and SVG
nlohmann::ordered_json to_json(const StudyFile& study,
                               const std::vector<std::string>& files);

// The tables with their legends, for people.
std::string print_study(const StudyFile& study);

// The points of a curve, added one by one.
class SeriesSet {
 public:
  // Appends to the series of that panel and name, which it makes if need be.
  void add(const Series& like, double x, double y);
  const std::vector<Series>& all() const { return series_; }

 private:
  std::vector<Series> series_;
};

// A picture of all series whose panel begins with `prefix`, a chart per panel,
// whose title is the rest of its name. Empty if there is none.
std::string draw_series(const StudyFile& study, const std::string& prefix,
                        const std::string& title);

// Whether values of that label are drawn on a logarithmic axis.
bool is_log(const std::string& label);

// The folder of a study, which must be new, empty, or a study that may be
// replaced. Throws std::invalid_argument otherwise.
void open_study_folder(const std::string& out, bool overwrite);

// Writes study.json and what `files` has, as name and content; says where.
void write_study(const std::string& out, const StudyFile& study,
                 const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace sluice
