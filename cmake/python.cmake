# Finds what the Python module needs: the interpreter, its headers, and the torch
# that it imports. Sets SLUICE_BUILD_PYTHON unless the user has: on where `sluice
# train` is built by the same torch.

if(NOT Python3_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python3_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
set(wanted ${SLUICE_WITH_TORCH})
if(DEFINED SLUICE_BUILD_PYTHON)
  set(wanted ${SLUICE_BUILD_PYTHON})
endif()

set(folder "")
if(wanted)
  find_package(Python3 QUIET COMPONENTS Interpreter Development.Module)
  # From its files: importing it takes seconds.
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
      "import runpy, importlib.util as u, os; f = os.path.dirname(u.find_spec('torch').origin); print(os.path.realpath(f)); print(runpy.run_path(f + '/version.py')['__version__'])"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" answer "${answer}")
  list(LENGTH answer lines)
  if(lines EQUAL 2)
    list(GET answer 0 folder)
    list(GET answer 1 SLUICE_TORCH_VERSION)
  endif()
endif()
set(problem "")
if(NOT folder AND SKBUILD)
  set(problem "sluice is built for the torch that you have, which an isolated build does not "
    "see: pip install --no-build-isolation . (with torch, scikit-build-core, cmake and ninja installed)")
elseif(NOT folder)
  set(problem "the interpreter must have torch, but ${Python3_EXECUTABLE} has none; "
    "Python3_EXECUTABLE names another")
elseif(NOT Python3_Development.Module_FOUND)
  set(problem "the headers of ${Python3_EXECUTABLE} must be there; install python3-dev")
elseif(NOT EXISTS ${folder}/include/torch/csrc/distributed/c10d/ProcessGroup.hpp)
  set(problem "the torch in ${folder} must have its headers, but has none")
elseif(SLUICE_TORCH_VERSION VERSION_LESS 2.4)
  set(problem "torch must be 2.4 or later, got ${SLUICE_TORCH_VERSION}")
elseif(Torch_FOUND)
  get_filename_component(prefix ${TORCH_INSTALL_PREFIX} REALPATH)
  if(NOT prefix STREQUAL folder)
    set(problem "the torch that is built with, ${prefix}, must be that of "
      "${Python3_EXECUTABLE}, which is ${folder}")
  endif()
endif()
set(found ${wanted})
if(NOT problem STREQUAL "")
  set(found OFF)
endif()
option(SLUICE_BUILD_PYTHON "Build the Python package (needs torch >= 2.4 and Python's headers)" ${found})
if(SLUICE_BUILD_PYTHON AND NOT found)
  string(CONCAT problem ${problem})
  message(FATAL_ERROR "[sluice] ${problem}")
endif()

# Not by torch's own CMake files: those of a torch for CUDA want a CUDA toolkit,
# which nothing of ours needs to see.
if(SLUICE_BUILD_PYTHON)
  add_library(sluice_python_torch INTERFACE)
  target_include_directories(sluice_python_torch SYSTEM INTERFACE
    ${folder}/include ${folder}/include/torch/csrc/api/include)
  foreach(part torch torch_cpu torch_python c10)
    find_library(SLUICE_LIB_${part} ${part} PATHS ${folder}/lib NO_DEFAULT_PATH REQUIRED)
    # What needs an interpreter is for the module alone.
    if(NOT part STREQUAL "torch_python")
      target_link_libraries(sluice_python_torch INTERFACE ${SLUICE_LIB_${part}})
    endif()
  endforeach()
  # Ours must have strings of the same kind as torch's, and objects of pybind11's
  # that it recognises; before 2.7 neither were those of a compiler of today.
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import torch
print('_GLIBCXX_USE_CXX11_ABI=%d' % torch._C._GLIBCXX_USE_CXX11_ABI)
for name in ('COMPILER_TYPE', 'STDLIB', 'BUILD_ABI'):
    value = getattr(torch._C, '_PYBIND11_' + name, None)
    if value: print('PYBIND11_%s=\"%s\"' % (name, value))"
    OUTPUT_VARIABLE definitions OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE said
    COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" definitions "${definitions}")
  foreach(definition IN LISTS definitions)
    if(definition STREQUAL "_GLIBCXX_USE_CXX11_ABI=0")
      add_compile_definitions(${definition})
    elseif(definition MATCHES "^PYBIND11")
      target_compile_definitions(sluice_python_torch INTERFACE ${definition})
    endif()
  endforeach()
endif()
