# One place for compiler strictness; everything of ours is compiled with it.
add_library(stagewire_warnings INTERFACE)
target_compile_options(stagewire_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wcast-align -Wimplicit-fallthrough -Werror
  # With -O3, g++ 12 warns of overlaps and overflows that cannot be, inside of std::string and std::vector.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-restrict -Wno-stringop-overread -Wno-stringop-overflow>
  -Wno-missing-field-initializers)  # a field that a designated initializer leaves out keeps its default on purpose
