// Symbol visibility. All libraries are compiled with hidden visibility and export only what these
// macros mark.
#pragma once

// Marks classes and functions that other libraries use, including internal ones that AnyAccel's own
// libraries share.
#ifndef ANYACCEL_API
#define ANYACCEL_API __attribute__((visibility("default")))
#endif

// Hides a nested class of an exported class, such as its implementation.
#define ANYACCEL_LOCAL __attribute__((visibility("hidden")))
