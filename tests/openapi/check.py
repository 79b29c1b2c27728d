"""Holds the running API against infra/openapi.yaml.

    check.py target/debug/local

Starts a local system of its own, walks through a sale and its refusals, then
sends random requests, and holds every answer against the description: its
status, content type, headers and body. No answer may be a fault. Then proves
that all this can fail, with descriptions from which something was taken out.
"""

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))

from description import Description, Recorder, codes_in, self_test, static_problems  # noqa: E402
from fuzz import Fuzz  # noqa: E402
from story import PROVOKED, Story  # noqa: E402
from system import System  # noqa: E402

ROOT = Path(__file__).parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("local", help="the built program `local`")
    parser.add_argument("--examples", type=int, default=30, help="random requests of each kind and call")
    parser.add_argument("--seed", type=int, default=1111, help="of the random requests")
    parser.add_argument("--table", action="store_true", help="list every route and status")
    options = parser.parse_args()
    # An end from outside unwinds the stack too, so the system ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    begun = time.monotonic()

    with System(str(Path(options.local).resolve())) as system:
        description = Description.read(ROOT / "infra/openapi.yaml", system.base_url)
        problems = list(static_problems(description, routes(options.local), own_codes()))
        recorder = Recorder(description)
        story = Story(system, recorder)
        story.run()
        told = sum(sum(counts.values()) for counts in recorder.seen.values())
        fuzz = Fuzz(story, recorder, options.examples, options.seed)
        fuzz.run()
        # Before the gates go: without them, errors are what should be logged.
        logged = system.faults()
        story.gates_fail()
    tried, unnoticed = self_test(recorder)

    report(recorder, options.table)
    problems += recorder.problems.values()
    problems += unnoticed
    problems += [f"nothing logged {text!r}" for text in PROVOKED if not any(text in line for line in logged)]
    # What was provoked explains nothing, unless something is wrong.
    faults = system.faults() if problems else [line for line in logged if not any(text in line for text in PROVOKED)]
    print(f"{told} requests by hand, {fuzz.sent} random ones, {tried} controls, "
          f"{time.monotonic() - begun:.0f} s")
    if faults:
        print("\nWhat the system logged as errors:\n  " + "\n  ".join(faults[:10]))
    if problems:
        print(f"\n{len(problems)} problems:\n")
        print("\n\n".join(problems[:40]))
        sys.exit(1)


def routes(local):
    """Who may call each route, as the template says it."""
    listed = subprocess.run([local, "routes"], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listed.splitlines():
        words = line.split()
        if words and words[0].isupper() and words[1].startswith("/"):
            found[f"{words[0]} {words[1]}"] = " ".join(words[3:])
    return found


def own_codes():
    return codes_in((ROOT / "shared/api/src/problem.rs").read_text())


def report(recorder, table):
    """Which answers were seen, by route and status."""
    documented = recorder.description.documented()
    names = list(recorder.description.operations)
    missing = []
    for name in names:
        operation = recorder.description.operations[name]
        seen, unseen = [], []
        for status in sorted(status for other, status in documented if other == name):
            counts = recorder.seen.get((name, status))
            if counts:
                codes = ", ".join(code for code in sorted(counts) if code)
                seen.append(f"{status} x{sum(counts.values())}" + (f" ({codes})" if codes else ""))
            else:
                unseen.append(status)
        missing += [(name, status) for status in unseen]
        if table:
            print(f"{operation.method.upper()} {operation.path}\n    " + "; ".join(seen))
            if unseen:
                print("    not seen: " + " ".join(unseen))
    reached = len(documented) - len(missing)
    # A system that is well throttles nobody and has no faults.
    left = [pair for pair in missing if pair[1] not in ("429", "500")]
    print(f"{reached} of {len(documented)} documented answers (route and status) seen; "
          f"beside 429 and 500 not: " + (", ".join(" ".join(pair) for pair in left) or "none"))


if __name__ == "__main__":
    main()
