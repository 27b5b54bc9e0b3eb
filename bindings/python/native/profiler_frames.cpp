// Finds the source line that called an op.
//
// Torch's Python functions release the GIL before they call an op. Reacquiring the GIL for each op
// would make programs with several Python threads wait. The calling thread's frames are therefore
// read without the GIL. This is safe, because only that thread changes its frames, and it is busy
// with the op.
#include <frameobject.h>

#include <mutex>
#include <unordered_map>

#include "profiler.h"

namespace anyaccel::python::profiler {

namespace {

struct Place {
  PyCodeObject* code = nullptr;
  int offset = 0;  // offset in bytes from the start of the code
  bool operator==(const Place&) const = default;
};

struct PlaceHash {
  std::size_t operator()(const Place& place) const noexcept {
    return reinterpret_cast<std::size_t>(place.code) * 31 + static_cast<std::size_t>(place.offset);
  }
};

constexpr int kMostFrames = 200;

#if defined(Py_GIL_DISABLED) || PY_VERSION_HEX >= 0x030E0000
#define ANYACCEL_READS_FRAMES 0
#elif PY_VERSION_HEX < 0x030B0000
#define ANYACCEL_READS_FRAMES 1
/// Calls `visit` with each frame's place, innermost first, until it returns true.
template <typename Visit>
void visit_frames(PyThreadState* state, Visit visit) {
  int count = 0;
  for (auto* frame = state->frame; frame != nullptr && count < kMostFrames; ++count) {
    if (visit(Place{frame->f_code, frame->f_lasti * 2})) return;
    frame = frame->f_back;
  }
}
#else
#define ANYACCEL_READS_FRAMES 1
/// The fields that these versions of CPython's interpreter frames have in common.
struct FrameView {
#if PY_VERSION_HEX < 0x030C0000
  void* unused[4];
  PyObject* code;
  void* frame_object;
  FrameView* previous;
#else
  PyObject* code;
  FrameView* previous;
  void* unused[5];
#endif
  char* instruction;
};

FrameView* innermost(PyThreadState* state) {
#if PY_VERSION_HEX < 0x030D0000
  return reinterpret_cast<FrameView*>(state->cframe->current_frame);
#else
  return reinterpret_cast<FrameView*>(state->current_frame);
#endif
}

template <typename Visit>
void visit_frames(PyThreadState* state, Visit visit) {
  int count = 0;
  for (auto* frame = innermost(state); frame != nullptr && count < kMostFrames; ++count) {
    if (frame->code != nullptr && PyCode_Check(frame->code)) {
      auto* code = reinterpret_cast<PyCodeObject*>(frame->code);
      const auto offset = frame->instruction - reinterpret_cast<char*>(code->co_code_adaptive);
      if (visit(Place{code, static_cast<int>(offset)})) return;
    }
    frame = frame->previous;
  }
}
#endif

std::mutex lines_mutex;
std::vector<std::string>& lines() {
  static auto* texts = new std::vector<std::string>;
  return *texts;
}

// Requires the GIL, like all Python objects. Never freed. A known code object stays alive, so that
// its address remains unique.
struct Known {
  PyObject* classify = nullptr;
  // "" for files of torch and AnyAccel
  std::unordered_map<PyCodeObject*, std::string> files;
  std::unordered_map<Place, std::uint32_t, PlaceHash> places;
};
Known& known() {
  static auto* instance = new Known;
  return *instance;
}

const std::string& file_of(PyCodeObject* code) {
  auto& files = known().files;
  if (const auto found = files.find(code); found != files.end()) return found->second;
  Py_INCREF(code);
  std::string name;
  if (known().classify != nullptr) try {
      name = py::handle(known().classify)(py::handle(code->co_filename)).cast<std::string>();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("anyaccel.profiler");
    } catch (const py::cast_error&) {
    }
  return files.emplace(code, std::move(name)).first->second;
}

std::uint32_t number_of(const Place& place, const std::string& file) {
  auto& places = known().places;
  if (const auto found = places.find(place); found != places.end()) return found->second;
  const int line = PyCode_Addr2Line(place.code, place.offset);
#if PY_VERSION_HEX >= 0x030B0000
  PyObject* name = place.code->co_qualname;
#else
  PyObject* name = place.code->co_name;
#endif
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) PyErr_Clear();
  const std::lock_guard lock(lines_mutex);
  const auto number = static_cast<std::uint32_t>(lines().size());
  lines().push_back(file + ":" + std::to_string(line) + " in " + (text != nullptr ? text : "?"));
  places.emplace(place, number);
  return number;
}

#if !ANYACCEL_READS_FRAMES
template <typename Visit>
void visit_frames(PyThreadState* state, Visit visit) {
  auto frame =
      py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(state)));
  for (int count = 0; frame && count < kMostFrames; ++count) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    if (visit(Place{reinterpret_cast<PyCodeObject*>(code.ptr()), PyFrame_GetLasti(raw)})) return;
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
}
#endif

/// Returns the number of the line that called the op, or kNoFrame, and caches it. Requires the GIL.
std::uint32_t find_line(PyThreadState* state) {
  std::uint32_t number = kNoFrame;
  // The thread may be about to raise an exception.
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  visit_frames(state, [&](const Place& place) {
    const auto& file = file_of(place.code);
    if (file.empty()) return false;
    number = number_of(place, file);
    return true;
  });
  PyErr_Restore(type, value, trace);
  return number;
}

bool use_frames = false;

#if ANYACCEL_READS_FRAMES
/// This thread's copies of entries of `known()`, which it can read without the GIL.
struct Seen {
  std::unordered_map<PyCodeObject*, bool> outside;
  std::unordered_map<Place, std::uint32_t, PlaceHash> places;
};
Seen& seen() {
  static thread_local Seen instance;
  return instance;
}

/// Returns false if a code object or a place is new to this thread.
bool find_seen(PyThreadState* state, std::uint32_t& number) {
  auto& here = seen();
  bool complete = true;
  visit_frames(state, [&](const Place& place) {
    const auto code = here.outside.find(place.code);
    if (code == here.outside.end()) return complete = false, true;
    if (!code->second) return false;
    const auto found = here.places.find(place);
    if (found == here.places.end()) return complete = false, true;
    number = found->second;
    return true;
  });
  return complete;
}

/// Requires the GIL.
void remember(PyThreadState* state) {
  auto& here = seen();
  visit_frames(state, [&](const Place& place) {
    const auto& file = file_of(place.code);
    here.outside[place.code] = !file.empty();
    if (file.empty()) return false;
    here.places[place] = number_of(place, file);
    return true;
  });
}
#endif

}  // namespace

std::uint32_t current_line() {
  // Threads that Python did not start have no state, and neither does any thread once the
  // interpreter shuts down.
  auto* state = PyGILState_GetThisThreadState();
  if (state == nullptr || !use_frames) return kNoFrame;
  std::uint32_t number = kNoFrame;
#if ANYACCEL_READS_FRAMES
  if (find_seen(state, number)) return number;
#endif
  const py::gil_scoped_acquire gil;
  number = find_line(state);
#if ANYACCEL_READS_FRAMES
  remember(state);
#endif
  return number;
}

void set_line_classifier(const py::object& classify) {
  known().classify = py::object(classify).release().ptr();
  use_frames = ANYACCEL_READS_FRAMES == 0 || reads_frames_without_gil();
}

std::vector<std::string> line_texts(std::size_t first) {
  const std::lock_guard lock(lines_mutex);
  return {lines().begin() + static_cast<std::ptrdiff_t>(std::min(first, lines().size())),
          lines().end()};
}

bool reads_frames_without_gil() {
#if ANYACCEL_READS_FRAMES
  // Compares the frames that were read with those that CPython's functions return, in case the
  // layout differs.
  std::vector<PyCodeObject*> read;
  visit_frames(PyThreadState_Get(), [&](const Place& place) {
    read.push_back(place.code);
    return false;
  });
  std::size_t count = 0;
  auto frame = py::reinterpret_steal<py::object>(
      reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  for (; frame && count < read.size(); ++count) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    if (code.ptr() != reinterpret_cast<PyObject*>(read[count])) break;
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  // CPython adds its own frame between its C functions and Python code. It is not visible to
  // programs, but ends the comparison only if it comes first.
  return count > 0;
#else
  return false;
#endif
}

}  // namespace anyaccel::python::profiler
