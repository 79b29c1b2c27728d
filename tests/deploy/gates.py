"""A real Redis or Valkey cluster with TLS on loopback, as the template asks for it."""

import contextlib
import shutil
import subprocess

from tools import Server, free_ports, run, wait

PRIMARIES, REPLICAS = 3, 1


class Gates(contextlib.ExitStack):
    """Three primaries and a replica of each; no password until it is known."""

    def __init__(self, directory):
        super().__init__()
        self.directory = directory
        self.program = shutil.which("valkey-server") or shutil.which("redis-server")
        self.client = shutil.which("valkey-cli") or shutil.which("redis-cli")
        self.certificate = directory / "certificate.pem"

    def __enter__(self):
        super().__enter__()
        self._certify()
        count = PRIMARIES * (1 + REPLICAS)
        ports = free_ports(2 * count)
        self.ports = ports[:count]
        try:
            for port, bus in zip(self.ports, ports[count:]):
                self._start(port, bus)
            nodes = [f"127.0.0.1:{port}" for port in self.ports]
            run([*self._cli(self.ports[0]), "--cluster", "create", *nodes, "--cluster-replicas", str(REPLICAS),
                 "--cluster-yes"], self.directory / "gates.log")
            wait("the gates to follow their primaries", self._ready)
        except BaseException:
            self.close()
            raise
        return self

    def _certify(self):
        """One certificate for all nodes, which is its own authority."""
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=gates",
             "-keyout", str(self.directory / "key.pem"), "-out", str(self.certificate),
             "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"],
            self.directory / "gates.log")

    def _start(self, port, bus):
        directory = self.directory / str(port)
        directory.mkdir()
        self.enter_context(Server(
            [self.program, "--port", "0", "--tls-port", str(port), "--cluster-port", str(bus),
             "--bind", "127.0.0.1", "--tls-cert-file", str(self.certificate),
             "--tls-key-file", str(self.directory / "key.pem"), "--tls-ca-cert-file", str(self.certificate),
             "--tls-auth-clients", "no", "--tls-cluster", "yes", "--tls-replication", "yes",
             "--cluster-enabled", "yes", "--save", "", "--appendonly", "no",
             "--repl-diskless-sync-delay", "0", "--maxmemory-policy", "noeviction"],
            directory / "log", port, cwd=directory,
        ))

    def _cli(self, port):
        return [self.client, "--no-auth-warning", "--tls", "--cacert", str(self.certificate),
                "-h", "127.0.0.1", "-p", str(port)]

    def command(self, port, *words, given=None):
        """One command to one node; `given` is handed over out of sight of other processes."""
        command = [*self._cli(port), *(["-x"] if given else []), *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout

    def _ready(self):
        following = sum("master_link_status:up" in self.command(port, "INFO", "replication") for port in self.ports)
        whole = all("cluster_state:ok" in self.command(port, "CLUSTER", "INFO") for port in self.ports)
        return whole and following == PRIMARIES * REPLICAS

    def protect(self, password):
        """From here on only those who know the password are let in."""
        for setting in ("masterauth", "requirepass"):
            for port in self.ports:
                answer = self.command(port, "CONFIG", "SET", setting, given=password)
                assert answer.strip() == "OK", answer
        assert "NOAUTH" in self.command(self.ports[0], "PING")
