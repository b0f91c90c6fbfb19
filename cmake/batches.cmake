# With CMAKE_UNITY_BUILD, the files of a folder are compiled as one. By folder,
# and not so many at a time, so that a new file meets its neighbours only.
function(sluice_batch_by_folder target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "^\\$<")
      get_filename_component(folder ${source} DIRECTORY)
      string(MAKE_C_IDENTIFIER "of_${folder}" group)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()
