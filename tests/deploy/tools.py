"""Programs of this machine: where they are, how they are run and ended."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv-sam/bin"
EMULATOR_VENV = ROOT / ".venv-emulator/bin"
STOP_LIMIT_S = 20
BEGUN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGUN:6.1f} s] {text}", flush=True)


def free_ports(count):
    """Ports of 127.0.0.1 that nobody has. All are held at once, so that none is given twice."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def run(command, log, **more):
    """Runs a program to its end, what it says goes to a file; its last lines are shown if it fails."""
    with open(log, "a") as out:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, **more
        ).returncode
    if code:
        raise SystemExit(f"{command[0]} ended with {code}; the end of {log}:\n{tail(log)}")


def tail(file, lines=30):
    return "\n".join(Path(file).read_text(errors="replace").splitlines()[-lines:])


def wait(what, done, limit_s=60):
    end = time.monotonic() + limit_s
    while not (found := done()):
        if time.monotonic() > end:
            raise SystemExit(f"waited {limit_s} s in vain for {what}")
        time.sleep(0.2)
    return found


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A program that runs until the block is left, with all that it started."""

    def __init__(self, command, log, port, **more):
        self.command, self.log, self.port, self.more = command, Path(log), port, more

    def __enter__(self):
        with open(self.log, "a") as out:
            # A session of its own: its children end with it.
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True, **self.more,
            )
        try:
            wait(f"{self.command[0]} to listen", self._serves)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _serves(self):
        if self.process.poll() is not None:
            raise SystemExit(f"{self.command[0]} ended by itself:\n{tail(self.log)}")
        return listens(self.port)

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
