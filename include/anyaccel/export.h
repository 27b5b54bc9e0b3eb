// Symbol visibility. All libraries are compiled with hidden visibility and export only what these
// macros mark.
#pragma once

// Exports a class or function that is part of the public API, or internal but shared by several
// libraries.
#ifndef ANYACCEL_API
#define ANYACCEL_API __attribute__((visibility("default")))
#endif

// Hides a nested class of an exported class, such as its implementation.
#define ANYACCEL_LOCAL __attribute__((visibility("hidden")))
