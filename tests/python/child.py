"""Runs each test program in its own process without importing torch each time.

`run` forks the process from a server process that has imported torch and anyaccel but has not
chosen an accelerator. Tests of the import itself must start a new interpreter instead.

The child's environment is set before its code runs. If the environment contains variables that are
only read at startup (`_EARLY`), `run` starts a new interpreter. The child exits like any
interpreter: it joins threads and calls exit functions.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile

# Prefixes of variables that are read at startup by the interpreter, the loader or libraries.
_EARLY = ("PYTHON", "LD_", "OMP_", "GOMP_", "KMP_", "MKL_", "TORCH_", "CUDA_")
_server = None


def run(code, environment, timeout=300):
    """Run `code` as a program with exactly this environment. Return a subprocess.CompletedProcess
    with text output.
    """
    if _early(environment) != _early(os.environ):
        return subprocess.run([sys.executable, "-B", "-c", code], env=environment, capture_output=True, text=True, timeout=timeout)
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        ends = _Server.running().start(code, environment, stdout, stderr)
        ends.settimeout(timeout)
        try:
            status = int(ends.makefile().readline())
        except TimeoutError:
            raise subprocess.TimeoutExpired(code, timeout) from None
        finally:
            ends.close()  # makes the server kill a child that is still running
        texts = []
        for stream in (stdout, stderr):
            stream.seek(0)
            texts.append(stream.read().decode())
    return subprocess.CompletedProcess(["forked", code], status, *texts)


def _early(environment):
    return {key: value for key, value in environment.items() if key.startswith(_EARLY)}


class _Server:
    """The process that forks children. It starts on first use and ends with this process."""

    def __init__(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._requests = ours
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("DS_", "SIM_", "ANYACCEL_", "LOCAL_"))}
        self._process = subprocess.Popen([sys.executable, "-B", __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=clean,
                                         stdin=subprocess.DEVNULL)
        theirs.close()
        self.owner = os.getpid()
        atexit.register(self._end)

    @staticmethod
    def running():
        global _server
        if _server is None or _server.owner != os.getpid():
            _server = _Server()
        return _server

    def start(self, code, environment, stdout, stderr):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        request = json.dumps({"code": code, "environment": dict(environment), "folder": os.getcwd()}).encode()
        with theirs:
            socket.send_fds(self._requests, [len(request).to_bytes(8, "little")], [stdout.fileno(), stderr.fileno(), theirs.fileno()])
            self._requests.sendall(request)
        return ours

    def _end(self):
        if self.owner == os.getpid():
            self._requests.close()
            self._process.wait(timeout=60)


def _serve(requests):
    """Fork a child for each request. In a child, return its code; in the server, return None after
    the last request.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # each child is reaped by its watcher
    while True:
        head, fds, _, _ = socket.recv_fds(requests, 8, 3)
        if not head:
            return None
        request = json.loads(_exactly(requests, int.from_bytes(head, "little")))
        if os.fork() == 0:
            requests.close()
            code = _watched(request, *fds)
            if code is not None:
                return code
            os._exit(0)
        for fd in fds:
            os.close(fd)


def _exactly(stream, count):
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise EOFError("the request ended early")
        data += more
    return data


def _watched(request, stdout, stderr, ends):
    """Fork the child. In the child, return its code. In the watcher, return None after the child
    has exited, or was killed because the requester gave up.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(ends)
        os.setpgid(0, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.close(stdout)
        os.close(stderr)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        return request["code"]
    report = socket.socket(fileno=ends)
    report.setblocking(False)
    pidfd = os.pidfd_open(child)
    ready, _, _ = select.select([pidfd, report], [], [])
    if pidfd not in ready:
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        report.send(f"{status}\n".encode())
    except OSError:
        pass  # the requester gave up
    return None


def _main():
    import anyaccel  # noqa: F401
    code = _serve(socket.socket(fileno=int(sys.argv[1])))
    if code is None:
        return
    sys.argv = ["-c"]
    program = type(sys)("__main__")
    program.__builtins__ = __builtins__
    sys.modules["__main__"] = program
    exec(compile(code, "<string>", "exec"), program.__dict__)


if __name__ == "__main__":
    _main()
