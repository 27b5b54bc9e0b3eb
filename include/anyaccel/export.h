// Symbol visibility. All libraries are compiled with hidden visibility and export only what these
// macros mark.
#pragma once

// Exports a class or function: one of the public interface, or an internal one that several of
// AnyAccel's libraries use.
#ifndef ANYACCEL_API
#define ANYACCEL_API __attribute__((visibility("default")))
#endif

// Hides a nested class of an exported class, such as its implementation.
#define ANYACCEL_LOCAL __attribute__((visibility("hidden")))
