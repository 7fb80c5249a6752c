# One place for compiler strictness; everything of ours is compiled with it.
add_library(stagewire_warnings INTERFACE)
target_compile_options(stagewire_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wcast-align -Wimplicit-fallthrough -Werror
  -Wno-missing-field-initializers)  # a field that a designated initializer leaves out keeps its default on purpose
