"""Shoppers of the deployed sale: the project's own drill, with its audit."""

import contextlib
import json
import os
import re
import subprocess
import urllib.request

from tools import say, tail, wait

# Low rates, since the emulator takes 100 ms for a call, whoever makes it. One
# pass a second makes the sale a minute before its opening: the schedule starts
# controller and sweeper once a minute, and they find it in time. Some never
# pay, and who waits gets their units.
CROWD = [
    "--shoppers", "60", "--units", "15", "--buckets", "3", "--connections", "8",
    "--passes-per-s", "1", "--entries-per-s", "4",
    "--pay-window-s", "90", "--waitlist-pay-window-s", "20",
    "--never-pay-percent", "40", "--lost-webhook-percent", "0",
]
CLAIM_LIMIT_S = 180
SALE_LIMIT_S = 600


class Drill:
    def __init__(self, directory, stack, base_url, issuer):
        self.directory, self.program = directory, stack.program("drill")
        self.base_url, self.token_url = base_url, f"{issuer}/token"

    def _merchant(self):
        body = json.dumps({"sub": "merchant", "scope": "sales.admin"}).encode()
        with urllib.request.urlopen(self.token_url, body, timeout=10) as answer:
            return json.load(answer)["access_token"]

    @contextlib.contextmanager
    def sale(self, name):
        """A sale that is under way within the block; `finish` waits for its end."""
        log, report = self.directory / f"{name}.log", self.directory / f"{name}.json"
        command = [self.program, "run", "--base-url", self.base_url, "--token-url", self.token_url,
                   "--json", str(report), *CROWD]
        with open(log, "w") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=os.environ | {"DRILL_ADMIN_TOKEN": self._merchant()},
            )
        try:
            yield Live(process, log, report)
        finally:
            process.kill()
            process.wait()


class Live:
    def __init__(self, process, log, report):
        self.process, self.log, self.report = process, log, report

    def must_run(self):
        if self.process.poll() is not None:
            raise SystemExit(f"the drill ended too early:\n{tail(self.log, 60)}")

    def wait_for_claims(self):
        """Until somebody holds a unit and nobody knows yet who gets the last one."""
        def claimed():
            self.must_run()
            return re.search(r"claims yes [1-9]", self.log.read_text())

        wait("the first claim", claimed, CLAIM_LIMIT_S)

    def finish(self):
        """The audit is clean, and the sale had what it is here to show."""
        try:
            code = self.process.wait(SALE_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"the sale does not end:\n{tail(self.log)}") from None
        print(tail(self.log, 60))
        if code:
            raise SystemExit(f"the drill ended with {code}")
        outcome = json.loads(self.report.read_text())
        audit = outcome["audit"]
        assert all(check["ok"] for check in audit["checks"])
        assert audit["release"]["count"] > 0, "no hold lapsed: the sweeper had nothing to do"
        say(f"the audit is clean: {len(audit['checks'])} checks, {audit['release']['count']} units released")
