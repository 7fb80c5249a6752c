// How a function gets the name that verbs has for it.
#pragma once

#define FAKE_VERBS extern "C" __attribute__((visibility("default")))
