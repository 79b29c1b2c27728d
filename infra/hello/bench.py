"""How large functions are and how fast they start, beside the least that one
can be: `hello-function`, measured in the same run on the same machine.

Starts each binary as Lambda does, with a runtime API on this machine, several
times and in turn, and prints a table: the size of the archive that would be
deployed, the time from the start of the process until it asks for work and
until its first answer, and each as a multiple of hello's. Times are medians.

Functions that a schedule starts answer after a minute, by design; of them only
the first time is known.
"""

import argparse
import io
import json
import os
import pathlib
import queue
import ssl
import statistics
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HELLO = "hello-function"
# The aims of a release: an archive in MB, a start as a multiple of hello's.
ZIP_MB_MAX = 5.0
RATIO_MAX = 2.0
PATIENCE_S = 20
ROOTS = ssl.get_default_verify_paths().openssl_cafile

ROUTE = "GET /nothing"
HTTP_EVENT = {
    "version": "2.0", "routeKey": ROUTE, "rawPath": "/nothing", "rawQueryString": "",
    "headers": {"host": "localhost"}, "isBase64Encoded": False,
    "requestContext": {
        "accountId": "1", "apiId": "a", "domainName": "d", "domainPrefix": "d", "requestId": "r",
        "routeKey": ROUTE, "stage": "$default", "time": "01/Jan/2026:00:00:00 +0000",
        "timeEpoch": 1767225600000,
        "http": {"method": "GET", "path": "/nothing", "protocol": "HTTP/1.1",
                 "sourceIp": "192.0.2.1", "userAgent": "bench"},
    },
}
EVENTS = {"HttpApi": HTTP_EVENT, "SQS": {"Records": []}}


class Template(yaml.SafeLoader):
    """Reads a template; what CloudFormation would put in is left out."""


def reference(loader, suffix, node):
    if suffix == "Ref" and isinstance(node, yaml.ScalarNode):
        return {"Ref": node.value}
    return None


Template.add_multi_constructor("!", reference)


def functions():
    """Binary, kind of event and variables of each function."""
    template = yaml.load((ROOT / "template.yaml").read_text(), Template)
    parameters = template["Parameters"]
    found = []
    for resource in template["Resources"].values():
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        properties = resource["Properties"]
        kinds = {event["Type"] for event in properties["Events"].values()}
        own = properties.get("Environment", {}).get("Variables", {})
        binary = resource["Metadata"]["BuildProperties"]["Binary"]
        found.append((binary, kinds.pop(), variables(own, parameters)))
    return found


def variables(own, parameters):
    """Values that a function starts with and no service is asked for."""
    values = {"TABLE_NAME": "ledger", "METRICS_NAMESPACE": "bench"}
    for name, value in own.items():
        if name.endswith("_SECRET"):
            # A secret that is given directly is not fetched.
            values[name.removesuffix("_SECRET")] = "k" * 64
        elif name == "GATE_URL":
            values[name] = "redis://127.0.0.1:1"
        elif name.endswith("_URL"):
            values[name] = "http://127.0.0.1:1/queue"
        elif isinstance(value, dict):
            default = parameters.get(value["Ref"], {}).get("Default")
            if default is not None:
                values[name] = str(default)
    return values


class RuntimeApi:
    """Hands one event over, and notes when it is asked for and answered."""

    def __init__(self, event):
        self.event = json.dumps(event).encode()
        self.seen = queue.Queue()
        self.handed = threading.Lock()
        self.end = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if not api.handed.acquire(blocking=False):
                    # The second event never comes.
                    api.end.wait(PATIENCE_S)
                    self.close_connection = True
                    return
                api.seen.put(("ready", time.perf_counter(), ""))
                self.send_response(200)
                deadline = int(time.time() * 1000) + 10_000
                for name, value in [
                    ("Lambda-Runtime-Aws-Request-Id", "00000000-0000-0000-0000-000000000001"),
                    ("Lambda-Runtime-Deadline-Ms", str(deadline)),
                    ("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:0:function:f"),
                    ("Content-Type", "application/json"),
                    ("Content-Length", str(len(api.event))),
                ]:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(api.event)

            def do_POST(self):
                at = time.perf_counter()
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                kind = "answer" if self.path.endswith("/response") else "error"
                api.seen.put((kind, at, body.decode(errors="replace")))
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A process that is ended takes its connections with it.
        self.server.handle_error = lambda *_: None
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def stop(self):
        self.end.set()
        self.server.shutdown()
        self.server.server_close()


def start(binary, event, values):
    """Milliseconds until the process asks for work, and until it answers."""
    api = RuntimeApi(event or {})
    environment = {
        "AWS_LAMBDA_RUNTIME_API": api.address, "AWS_LAMBDA_FUNCTION_NAME": "f",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256", "AWS_LAMBDA_FUNCTION_VERSION": "1",
        "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none",
        # Whoever calls a service hears at once that there is none.
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        # Amazon Linux keeps the roots that are trusted in one file. Debian has each
        # once more in a directory, and a start here would read these too.
        "SSL_CERT_FILE": ROOTS, **values,
    }
    began = time.perf_counter()
    process = subprocess.Popen([binary], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        times = []
        for wanted in ["ready"] + (["answer"] if event else []):
            try:
                kind, at, body = api.seen.get(timeout=PATIENCE_S)
            except queue.Empty:
                kind, at, body = "nothing", 0, ""
            if kind != wanted:
                process.kill()
                said = process.stderr.read().decode(errors="replace")[-500:]
                sys.exit(f"{binary.name}: no {wanted} but {kind}: {body[:300]} {said}")
            times.append((at - began) * 1000)
        return times[0], times[1] if event else None
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        api.stop()


def zip_mb(binary):
    """The size of the archive that SAM makes of a function."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.write(binary, "bootstrap")
    return len(archive.getvalue()) / 1e6


def build(names, profile):
    """Each by itself, as SAM does: features of others are not in it."""
    for name in names:
        subprocess.run(["cargo", "build", "-q", "--profile", profile, "-p", name], cwd=ROOT, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="release", help="profile of cargo to build with")
    parser.add_argument("--functions", default="", help="binaries, separated by commas; all by default")
    parser.add_argument("--runs", type=int, default=15, help="starts of each")
    parser.add_argument("--no-build", action="store_true", help="measure what is there")
    options = parser.parse_args()
    chosen = [name for name in options.functions.split(",") if name]
    measured = [one for one in functions() if not chosen or one[0] in chosen]
    if unknown := set(chosen) - {one[0] for one in measured}:
        sys.exit(f"there is no {', '.join(sorted(unknown))}")
    measured.insert(0, (HELLO, "HttpApi", {}))
    if not options.no_build:
        build([one[0] for one in measured], options.profile)
    folder = "debug" if options.profile == "dev" else options.profile
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / folder

    times = {one[0]: [] for one in measured}
    # In turn, so that whatever else the machine does falls on all alike; the
    # first round reads the files and does not count.
    for round in range(options.runs + 1):
        for name, kind, values in measured:
            seen = start(target / name, EVENTS.get(kind), values)
            if round > 0:
                times[name].append(seen)

    print(f"profile {options.profile}, medians of {options.runs} starts")
    row = "{:<20} {:>7} {:>9} {:>7} {:>10} {:>7}"
    print(row.format("function", "zip MB", "ready ms", "x hello", "answer ms", "x hello"))
    base = None
    missed = []
    for name, _, _ in measured:
        ready = statistics.median(one[0] for one in times[name])
        answers = [one[1] for one in times[name] if one[1] is not None]
        answer = statistics.median(answers) if answers else None
        base = base or (ready, answer)
        size = zip_mb(target / name)
        ratio = answer / base[1] if answer else ready / base[0]
        shown = (f"{answer:.1f}", f"{answer / base[1]:.2f}") if answer else ("-", "-")
        print(row.format(name, f"{size:.2f}", f"{ready:.1f}", f"{ready / base[0]:.2f}", *shown))
        if size > ZIP_MB_MAX or ratio > RATIO_MAX:
            missed.append(name)
    print(f"aims: {ZIP_MB_MAX:g} MB, {RATIO_MAX:g} x hello; "
          + (f"missed by {', '.join(missed)}" if missed else "all met"))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
