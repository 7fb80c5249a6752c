// What this process costs its machine.
#pragma once

namespace stagewire::bench {

/// User and system time of all threads so far, microseconds.
double process_cpu_us();
/// Proportional set size, bytes: memory that two processes share counts half in each.
double resident_bytes();

}  // namespace stagewire::bench
