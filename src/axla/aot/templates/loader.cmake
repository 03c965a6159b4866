# Loads weights and variables from files.
add_library(FILL_PREFIX_loader STATIC FILL_PREFIX_loader.c)
target_include_directories(FILL_PREFIX_loader PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}>)
set_target_properties(FILL_PREFIX_loader PROPERTIES C_STANDARD 99)
target_link_libraries(FILL_PREFIX INTERFACE FILL_PREFIX_loader)
set(FILL_PREFIX_LOADER FILL_PREFIX_loader)
set(FILL_PREFIX_LOADER_H FILL_PREFIX_loader.h)
