// The commands of the stagewire program, one file each. Each gets the arguments from its own name on and
// returns the exit status: 0, kRunError (it was tried and failed) or kUsageError (the command line or the
// configuration is wrong).
#pragma once

namespace stagewire::cli {

inline constexpr int kRunError = 1;
inline constexpr int kUsageError = 2;

int bench_command(int argc, char** argv);
int check_command(int argc, char** argv);
int doctor_command(int argc, char** argv);
int serve_command(int argc, char** argv);

}  // namespace stagewire::cli
