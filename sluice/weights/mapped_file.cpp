#include "sluice/weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "sluice/core/ensure.h"
#include "sluice/core/fd.h"
#include "sluice/core/input_file.h"

namespace sluice {

MappedFile::MappedFile(const std::string& path) {
  const std::string problem = why_no_file(path);
  ensure(problem.empty(), "[weights] '", path,
         "' must be a file that can be read: ", problem);
  const Fd file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  const auto check = [&](bool ok) {
    ensure(ok, "[weights] '", path,
           "' must be a file that can be read: ", std::strerror(errno));
  };
  check(file.get() >= 0 && fstat(file.get(), &status) == 0);
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // mmap refuses
  void* data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  check(data != MAP_FAILED);
  data_ = data;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace sluice
