// Standard input, output and error of the program as it is started.
#pragma once

namespace stagewire::cli {

/// Opens /dev/null for those that are closed, so that no file that is opened later gets their number, and
/// what is meant for a terminal. First of all in main(). False when that cannot be done.
bool open_missing_streams();

/// Last of all in main(): what is still to be written is, and what could not be is said. The exit status:
/// `status`, or that of a failed run when all went well but the writing.
int finish_output(int status);

}  // namespace stagewire::cli
