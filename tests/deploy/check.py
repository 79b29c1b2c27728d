"""Deploys the template with `sam deploy` to an emulator of AWS and sells with it.

    check.py [--as-shipped] [--keep]

A real Redis or Valkey cluster with TLS stands in for the cache. The stack is
built with `sam build`, created, sold with by the drill through the deployed
functions, updated while a sale is live, sold out, and deleted. Every audit must
be clean. What the emulator can't do is in bridge.py and docs/operate.md.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))

from bridge import Bridge  # noqa: E402
from drill import Drill  # noqa: E402
from emulator import Emulator  # noqa: E402
from gates import PRIMARIES, REPLICAS, Gates  # noqa: E402
from stack import Stack  # noqa: E402
from tools import Server, free_ports, say  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--as-shipped", action="store_true", help="build with the profile that is shipped")
    parser.add_argument("--keep", metavar="DIRECTORY", type=Path, help="leave logs and reports there")
    options = parser.parse_args()
    # An end from outside unwinds the stack too, so every server ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    with tempfile.TemporaryDirectory(prefix="flash-sale-") as directory:
        try:
            check(Path(directory), options.as_shipped)
        finally:
            if options.keep:
                unkept = shutil.ignore_patterns("key.pem", "s3", "ministack-*")
                shutil.copytree(directory, options.keep, dirs_exist_ok=True, ignore=unkept)


def check(directory, as_shipped):
    with Gates(directory) as gates, Emulator(directory, gates) as emulator:
        say(f"gates: {PRIMARIES} primaries, {REPLICAS} replica each, TLS; emulator: {emulator.url}")
        stack = Stack(emulator, directory, "flash", as_shipped)
        stack.build()
        say("built")
        [port] = free_ports(1)
        issuer = f"http://127.0.0.1:{port}/_dev"
        identity = [stack.program("local"), "identity", "--port", str(port)]
        with Server(identity, directory / "identity.log", port):
            sell(directory, gates, stack, issuer)
        stack.delete()
        say("deleted")


def sell(directory, gates, stack, issuer):
    # The emulator refuses two shards.
    parameters = {
        "SessionIssuer": issuer, "Rehearsal": "true", "GateShards": PRIMARIES, "GateReplicas": REPLICAS,
        "PaymentIntentSeconds": 60, "OrderRatePerSecond": 50,
    }
    stack.deploy(parameters)
    say("deployed")
    bridge = Bridge(stack)
    bridge.generate_secrets()
    bridge.correct_policies()
    gates.protect(stack.secret("Gates.Password"))
    bridge.create_api(parameters)
    routes = bridge.check(stack.program("local"), parameters)
    say(f"{routes} routes made; they are those of the template")
    bridge.prove_roles()
    say("roles hold: a function without its policy is refused")

    drill = Drill(directory, stack, bridge.url, issuer)
    try:
        with drill.sale("sale") as live:
            live.wait_for_claims()
            say("units are claimed")
            with bridge.scheduled_runs_go_on():
                update(stack, parameters | {"OrderRatePerSecond": 40})
            live.must_run()
            say("updated in the middle of the sale: other code, other rate")
            bridge.check(stack.program("local"), parameters)
            live.finish()
    finally:
        faults = stack.faults(directory / "functions.log")
        print("\n".join([f"{len(faults)} errors in the log of the functions", *faults[:10]]), flush=True)
    log = (directory / "functions.log").read_text()
    assert all(f"Version: {version}\n" in log for version in (1, 2)), "the sale knew one code only"
    started = stack.started_by_schedule()
    assert started and all(started.values()), f"not started by its schedule: {started}"
    say("the schedules started " + ", ".join(f"{name} {count} times" for name, count in started.items()))


def update(stack, parameters):
    """What a release does: every function has other code afterwards."""
    before = stack.code()
    stack.pack_anew()
    stack.deploy(parameters)
    after = stack.code()
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())


if __name__ == "__main__":
    main()
