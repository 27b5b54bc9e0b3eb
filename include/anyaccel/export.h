// Which symbols our libraries export: they are compiled with hidden visibility.
#pragma once

// Marks classes and functions that other libraries use. Other libraries of ours count: internal
// headers mark what they share.
#ifndef ANYACCEL_API
#define ANYACCEL_API __attribute__((visibility("default")))
#endif

// Hides a nested class of an exported class, such as its implementation.
#define ANYACCEL_LOCAL __attribute__((visibility("hidden")))
