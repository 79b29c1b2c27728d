"""A local system of its own, and what its development identity provider gives."""

import hashlib
import hmac
import os
import re
import signal
import socket
import subprocess
import threading
import time

import requests

# Known, so that the check can speak for the payment provider.
WEBHOOK_SECRET = "a-webhook-secret-of-this-check-only"

START_LIMIT_S = 60
STOP_LIMIT_S = 20


class System:
    """Runs `local up` on a free port; ends it when the block is left."""

    def __init__(self, binary):
        self.binary = binary
        self.lines = []
        self.session = requests.Session()

    def __enter__(self):
        command = [self.binary, "up", "--port", "0", "--log", "error"]
        command += ["--secret", f"WebhookSecrets={WEBHOOK_SECRET}"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.base_url = self._announced(r"The sale is at (http://\S+)")
            # The first one is a primary, and here the only one.
            self.gate = self._announced(r"gates\s+redis://([\d.]+):(\d+)")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def _announced(self, pattern):
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found[1] if len(found.groups()) == 1 else found.groups()
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        output = "\n".join(self.lines[-20:])
        raise SystemExit(f"{self.binary} does not start:\n{output}")

    def faults(self):
        """Lines that the system logged as errors."""
        return [line for line in self.lines if '"level":"ERROR"' in line]

    def _dev(self, path, body):
        answer = self.session.post(f"{self.base_url}/_dev/{path}", json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def token(self, sub, **more):
        """A session token."""
        return self._dev("token", {"sub": sub, **more})["access_token"]

    def attestation(self, sub, sale, **facts):
        """What the store attests of a shopper."""
        return self._dev("attestation", {"sub": sub, "sale": sale, **facts})["attestation"]

    def flush_scripts(self):
        """What a failover does to the gates: their scripts are gone."""
        assert command(self.gate, "SCRIPT FLUSH").startswith("+OK")

    def primary(self):
        """The process id of the gates' primary."""
        return process_id(self.gate)

    def replica(self):
        """The process id of the gates' replica."""
        nodes = command(self.gate, "CLUSTER NODES")
        return process_id(re.search(r"([\d.]+):(\d+)@\S+ \S*slave", nodes).groups())


class Paused:
    """A process stands still within this block."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


def command(address, text):
    """One command of Redis, without a client library."""
    host, port = address
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(f"{text}\r\n".encode())
        answer = connection.recv(65536).decode()
        if answer.startswith("$"):
            head, _, rest = answer.partition("\r\n")
            while len(rest) < int(head[1:]):
                rest += connection.recv(65536).decode()
            return rest
        return answer


def process_id(address):
    """Of a server."""
    return int(re.search(r"process_id:(\d+)", command(address, "INFO server"))[1])


def signed(body, secret=WEBHOOK_SECRET, at=None):
    """A webhook's signature."""
    at = int(time.time()) if at is None else at
    mac = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    return f"t={at},v1={mac.hexdigest()}"
