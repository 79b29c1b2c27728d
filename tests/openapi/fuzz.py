"""Random requests from the description: valid and invalid ones. Names in the
path and tokens are often real, so that what is random meets deep code."""

import tempfile
from datetime import datetime, timedelta, timezone

import hypothesis
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.core.parameters import ParameterLocation as Location
from schemathesis.generation import GenerationMode

# Calls that change a whole sale play with toys.
TOYS = ["toy-open", "toy-draw", "toy-race", "toy-later"]
UNITS_MAX = 500
BUCKETS_MAX = 20


class Fuzz:
    def __init__(self, story, recorder, examples, seed):
        self.story = story
        self.recorder = recorder
        self.examples = examples
        self.seed = seed
        self.sent = 0
        self.created = 0

    def run(self):
        with tempfile.TemporaryDirectory() as directory:
            hypothesis.configuration.set_hypothesis_home_dir(directory)
            self.operations()

    def operations(self):
        for name, operation in self.recorder.description.operations.items():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                self.operation(name, operation, mode)

    def operation(self, name, operation, mode):
        takes = operation.definition.raw
        bare = "requestBody" not in takes and not list(operation.iter_parameters())
        if bare and mode.is_negative:
            return

        @hypothesis.seed(self.seed)
        @hypothesis.settings(
            max_examples=3 if bare else self.examples, database=None, deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        def one(case, data):
            self.make_real(name, case, data.draw)
            self.sent += 1
            self.recorder.take(name, case.call(session=self.recorder.session, timeout=60), case)

        try:
            one()
        except Unsatisfiable:
            self.recorder.problems[name, mode.value, "unsatisfiable"] = "nothing can be generated"

    def make_real(self, name, case, draw):
        # True in all but one of so many cases.
        often = lambda parts: draw(st.sampled_from([True] * parts + [False]))  # noqa: E731
        invalid = lambda at: case.meta.is_negative_at(at)  # noqa: E731
        merchant = "/admin/" in case.operation.path
        pick = lambda items: draw(st.sampled_from(items))  # noqa: E731
        shopper = pick(self.story.shoppers)
        path = case.path_parameters or {}
        if path and not invalid(Location.PATH) and often(6):
            for parameter in path:
                path[parameter] = self.real(parameter, merchant, pick)
                if parameter in ("claim", "order") and often(3):
                    items = self.story.claims if parameter == "claim" else self.story.orders
                    shopper, path[parameter] = pick(items)
                if parameter == "intent" and isinstance(case.body, dict) and not invalid(Location.BODY):
                    path[parameter], case.body["client_secret"] = pick(self.story.intents)
        self.make_real_headers(case, shopper, path.get("sale"), merchant, often, invalid)
        if isinstance(case.body, dict):
            self.make_real_body(name, case.body, often, invalid(Location.BODY), pick)

    def real(self, parameter, merchant, pick):
        if parameter == "sale":
            return pick(TOYS if merchant else [*self.story.sales, "toy-later"])
        if parameter == "claim":
            return pick(self.story.claims)[1]
        if parameter == "order":
            return pick(self.story.orders)[1]
        return "sandbox" if parameter == "provider" else pick(self.story.intents)[0]

    def make_real_headers(self, case, shopper, sale, merchant, often, invalid):
        headers = case.headers
        session = self.story.admin if merchant else shopper.session
        if case.operation.definition.raw.get("security") != [] and often(9):
            headers.update(session)
        if invalid(Location.HEADER):
            return
        if "Sale-Pass" in headers and often(6):
            headers["Sale-Pass"] = shopper.passes.get(sale) or "a.b.c"
        if "Sale-Entry" in headers and often(4):
            headers.pop("Sale-Entry")
            if entry := shopper.entries.get(sale):
                headers["Sale-Entry"] = entry

    def make_real_body(self, name, body, often, is_invalid, pick):
        # No more units and buckets than this machine loads in a moment.
        for member, limit in (("units", UNITS_MAX), ("buckets", BUCKETS_MAX)):
            value = body.get(member)
            if type(value) is int and limit < value <= 100_000:
                body[member] = 1 + value % limit
        if is_invalid:
            return
        now = datetime.now(timezone(timedelta(hours=5, minutes=30)))
        if name in ("createSale", "changeSale"):
            if "opens_at" in body and often(3):
                body["opens_at"] = (now + timedelta(days=1)).isoformat()
                body.pop("closes_at", None)
            if isinstance(body.get("price"), dict) and often(3):
                body["price"].update(amount=1 + body["price"]["amount"] % 10**9, currency=pick(["INR", "JPY", "KWD"]))
            if "buckets" in body and "units" in body:
                body["buckets"] = max(body["buckets"], -(-body["units"] // 250))
        if name == "createSale" and often(6):
            self.created += 1
            body["sale_id"] = f"random-{self.created}"
        if name == "createClaim" and often(2):
            body.update(quantity=pick([1, 2]))
