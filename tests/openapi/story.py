"""Requests made by hand: the way of a sale, and every refusal that can be
brought about on purpose. Leaves sales, shoppers, claims and orders for the
random requests."""

import json
import time
from datetime import datetime, timedelta, timezone

from system import WEBHOOK_SECRET, Paused, signed

JSON_MAX = 10 * 1024 * 1024
BODY_MAX = 256 * 1024
INDIA = timezone(timedelta(hours=5, minutes=30))

# Of the draws. All entries below fit into it, on a slow machine too.
WINDOW_MS = 1_500

# What the story has the system log as an error on purpose, while its gates answer.
PROVOKED = ["a payment succeeded for an order that does not exist"]

# How long an environment may answer from a sale that it read.
CACHE_S = 1.1


def shown(at):
    """RFC 3339 in India's offset."""
    return datetime.fromtimestamp(at, INDIA).isoformat(timespec="milliseconds")


class Shopper:
    """A session, and what it was given for each sale."""

    def __init__(self, system, name):
        self.name = name
        self.session = {"Authorization": f"Bearer {system.token(name)}"}
        self.passes = {}
        self.entries = {}

    def headers(self, sale=None, key=None, **more):
        return {
            **self.session, "Sale-Pass": self.passes.get(sale),
            "Sale-Entry": self.entries.get(sale), "Idempotency-Key": key, **more,
        }


class Story:
    def __init__(self, system, recorder):
        self.system = system
        self.send = recorder.send
        self.admin = {"Authorization": f"Bearer {system.token('merchant', scope='sales.admin')}"}
        self.sales = {}
        self.shoppers = [Shopper(system, f"shopper-{n}") for n in range(8)]
        self.claims = []
        self.orders = []
        self.intents = []

    # What the steps are made of.

    def create(self, name, **config):
        sale = {
            "sale_id": name, "sku": "PHONE-1", "name": "Phone",
            "price": {"amount": 999_900, "currency": "INR"}, "units": 20,
            "opens_at": shown(self.opens), "mode": "race", **config,
        }
        self.sales[name] = self.send("createSale", "201", headers=self.admin, body=sale)

    def switch(self, operation, sale, expect="200", body=None):
        return self.send(operation, expect, path={"sale": sale}, headers=self.admin, body=body)

    def get_pass(self, shopper, sale, expect="201", **body):
        answer = self.send(
            "createPass", expect, path={"sale": sale}, headers=shopper.session,
            body={"device": f"device of {shopper.name}", **body},
        )
        if "pass" in answer:
            shopper.passes[sale] = answer["pass"]

    def enter(self, shopper, sale, expect="201", **more):
        answer = self.send(
            "createEntry", expect, path={"sale": sale}, headers=shopper.headers(sale, **more))
        if "entry_token" in answer:
            shopper.entries[sale] = answer["entry_token"]
        return answer

    def claim(self, shopper, sale, key, expect="201", body=None, **more):
        answer = self.send(
            "createClaim", expect, path={"sale": sale},
            headers=shopper.headers(sale, key, **more), body=body,
        )
        # A refusal may name the claim that the shopper has.
        if "order" in answer:
            self.claims.append((shopper, answer["claim_id"]))
            self.orders.append((shopper, answer["order"]["order_id"]))
        return answer

    def until(self, what, limit_s=15):
        end = time.monotonic() + limit_s
        while not (found := what()):
            if time.monotonic() > end:
                raise SystemExit("the local system does not come to what it should")
            time.sleep(0.1)
        return found

    def status(self, sale):
        return self.send("readStatus", "200", path={"sale": sale})

    def ordered(self, shopper, claim):
        """Waits until the order of a claim is written; its id."""
        def read():
            answer = self.send(
                "readClaim", "200", path={"claim": claim["claim_id"]}, headers=shopper.session)
            return answer["order"]["status"] != "CREATING"
        self.until(read)
        return claim["order"]["order_id"]

    def pay(self, shopper, order, expect="201"):
        answer = self.send(
            "createPayment", expect, path={"order": order}, headers=shopper.session)
        if "intent_id" in answer:
            self.intents.append((answer["intent_id"], answer["client_secret"]))
        return answer

    def confirm(self, payment, expect="200", **body):
        answer = self.send(
            "confirmSandboxIntent", expect, path={"intent": payment["intent_id"]},
            body={"client_secret": payment["client_secret"], "outcome": "succeed", **body},
        )
        return answer.get("event")

    def webhook(self, body, expect="200", signature=None, provider="sandbox"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.send(
            "receiveWebhook", expect, path={"provider": provider}, body=body,
            headers={"Sandbox-Signature": signature or signed(body)},
        )
        return answer.get("result")

    def deliver(self, event, expected):
        result = self.webhook(event["payload"].encode(), signature=event["signature"])
        assert result == expected, f"the webhook came to {result}, not {expected}"

    # The steps.

    def run(self):
        self.open_sales()
        self.before_the_opening()
        self.refused_at_the_gateway()
        self.merchant()
        self.draw()
        self.race()
        self.payments()
        self.over()
        self.toys()

    def open_sales(self):
        self.opens = time.time() + 8
        self.create("draw", mode="draw", draw_window_ms=WINDOW_MS, units=300, waitlist_pay_window_s=60)
        self.create("few", mode="draw", draw_window_ms=WINDOW_MS, units=1, no_show_percent=0)
        self.create("race", units=40, limit_per_customer=3)
        self.create("slow", race_rate_per_s=1)
        self.create("one", units=1)
        self.create("short", pay_window_s=1, waitlist_pay_window_s=1)
        self.create("paused")
        self.create("ended")
        self.create("later", opens_at="2127-11-11T12:00:00+05:30", closes_at="2127-11-11T06:40:00Z")
        self.create("limits", identity_limits={"device": 1, "phone": 2})

    def before_the_opening(self):
        first, second, third = self.shoppers[:3]
        for sale in self.sales:
            if sale != "limits":
                for shopper in self.shoppers:
                    self.get_pass(shopper, sale)
        self.get_pass(first, "draw", "200")

        facts = {"phone": "+91 98765 43210", "email": "a@example.org"}
        attested = self.system.attestation(first.name, "limits", **facts)
        self.get_pass(first, "limits", attestation=attested)
        others = self.system.attestation(second.name, "limits", **facts)
        same = {"device": f"device of {first.name}"}
        self.get_pass(second, "limits", "403 identity_limit", attestation=others, **same)
        self.get_pass(third, "limits", "401 invalid_attestation")
        self.get_pass(third, "limits", "401 invalid_attestation", attestation=others)
        self.get_pass(third, "draw", "422 invalid_field", device="")
        self.get_pass(third, "draw", "422 invalid_field", sub="x")

        for sale in ("draw", "later"):
            self.enter(first, sale, "425 not_open")
            self.claim(first, sale, "key-00000001", "425 not_open")
            self.send("joinWaitlist", "425 not_open", path={"sale": sale}, headers=first.headers(sale))
        for operation in ("createPass", "createEntry", "createClaim", "joinWaitlist"):
            at = {"path": {"sale": "draw"}, "headers": first.headers("draw", "key-00000001")}
            for body in (b"[]", b"{", b'{"device":"d","device":"e"}', b"\xff"):
                self.send(operation, "400 malformed_request", body=body, **at)
            at["path"] = {"sale": "nowhere"}
            body = {"device": "d"} if operation == "createPass" else None
            self.send(operation, "404 not_found", body=body, **at)
        for operation in ("createEntry", "joinWaitlist"):
            self.send(operation, "422 invalid_field", path={"sale": "draw"},
                      headers=first.headers("draw"), body={"position": 1})
        for operation in ("readSale", "readStatus"):
            for sale in ("draw", "race", "later"):
                self.send(operation, "200", path={"sale": sale})
            for sale in ("nowhere", "a%20b", "%7B%7D", "x" * 65):
                self.send(operation, "404 not_found", path={"sale": sale})
        self.send("readKeys", "200")

    def refused_at_the_gateway(self):
        """What the gateway answers by itself, and sessions that only look good."""
        somewhere = {
            "sale": "draw", "claim": f"cl_draw_000_{'0' * 32}", "order": f"ord_draw_000_{'0' * 32}",
            "provider": "sandbox", "intent": "x",
        }
        expired = {"Authorization": f"Bearer {self.system.token('ada', ttl_s=-10, scope='sales.admin')}"}
        nobody = [self.system.token(sub, scope="sales.admin") for sub in ("", "x" * 257, "a\nb")]
        operations = self.send.__self__.description.operations
        for name, operation in operations.items():
            path = {key: value for key, value in somewhere.items() if "{%s}" % key in operation.path}
            raw = operation.definition.raw
            self.send(name, "431 (gateway)", path=path, headers={"X-Padding": "x" * 10_300})
            if "requestBody" in raw:
                body = b"{" + b" " * JSON_MAX + b"}"
                self.send(name, "413 (gateway)", path=path, body=body, headers=self.admin)
                self.send(name, "413 body_too_large", path=path, body=body[-BODY_MAX - 1:], headers=self.admin)
            if path:
                self.send(name, "404 (gateway)", path=dict.fromkeys(path, ""), headers=self.admin)
            if raw.get("security") == []:
                continue
            for headers in ({}, {"Authorization": "Bearer x"}, expired):
                self.send(name, "401 (gateway)", path=path, headers=headers)
            if raw.get("security"):
                self.send(name, "403 (gateway)", path=path, headers=self.shoppers[0].session)
                continue
            for token in nobody:
                headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "key-00000001"}
                body = {"device": "d"} if name == "createPass" else None
                self.send(name, "401 unauthenticated", path=path, headers=headers, body=body)

    def merchant(self):
        sale = {key: value for key, value in self.sales["later"].items() if key in (
            "sku", "name", "price", "units", "opens_at", "mode")}
        create = lambda expect, **body: self.send(  # noqa: E731
            "createSale", expect, headers=self.admin, body={**sale, "sale_id": "other", **body})
        create("409 sale_exists", sale_id="later")
        invalid = "422 invalid_field"
        create(invalid, sale_id="a b")
        create(invalid, sale_id=None)
        create(invalid, units=0)
        create(invalid, opens_at="2020-01-01T00:00:00Z")
        create(invalid, opens_at="2027-11-11T12:00:00")
        create(invalid, closes_at=sale["opens_at"])
        create(invalid, price={"amount": 9_007_199_254_740_991, "currency": "INR"}, limit_per_customer=2)
        create(invalid, race_rate_per_s=1, mode="draw")
        create(invalid, anything="else")
        # A sale that can't be kept for a while after it has closed.
        create(invalid, opens_at="9999-12-30T21:30:00Z")
        create(invalid, opens_at="9999-12-30T22:30:00+01:00")
        create(invalid, closes_at="9999-12-30T00:00:00Z")
        self.send("createSale", invalid, headers=self.admin)
        self.send("createSale", "400 malformed_request", headers=self.admin, body=b"[]")
        for amount, currency in ((10_000, "JPY"), (10_005, "KWD")):
            create("201", sale_id=f"in-{currency}", price={"amount": amount, "currency": currency})
        self.send("listSales", "200", headers=self.admin)

        for name in ("readAdminSale", "changeSale", "loadSale", "preflight", "readReport",
                     "pauseSale", "resumeSale", "endSale", "forceSoldOut", "waitlistOnly",
                     "extendPayWindow"):
            body = {"seconds": 60} if name == "extendPayWindow" else None
            self.send(name, "404 not_found", path={"sale": "nowhere"}, headers=self.admin, body=body)
            if name in ("readAdminSale", "preflight", "readReport"):
                continue
            for body, expect in ((b"[]", "400 malformed_request"), ({"x": 1}, invalid)):
                self.send(name, expect, path={"sale": "later"}, headers=self.admin, body=body)
        self.switch("extendPayWindow", "later", invalid)
        self.switch("extendPayWindow", "later", invalid, {"seconds": 86_401})
        self.switch("extendPayWindow", "later", body={"seconds": 60})
        self.switch("forceSoldOut", "later", invalid, {"on": "yes"})
        change = lambda expect, **body: self.switch("changeSale", "later", expect, body)  # noqa: E731
        change("200", units=300)
        change("200", opens_at="2127-11-12T12:00:00+05:30")
        change("200", mode="draw")
        change("200", draw_window_ms=500)
        change(invalid, race_rate_per_s=5)
        change(invalid, sale_id="x")
        change(invalid, opens_at="2020-01-01T00:00:00Z")
        change(invalid, closes_at="9999-12-30T00:00:00Z")
        change(invalid, opens_at="9999-12-30T21:30:00Z")
        change("200", closes_at="2128-01-01T00:00:00Z")
        change(invalid, opens_at="9998-12-31T00:00:00Z")
        for name in ("loadSale", "preflight", "readReport", "readAdminSale"):
            self.switch(name, "later")
        report = lambda expect, **query: self.send(  # noqa: E731
            "readReport", expect, path={"sale": "later"}, headers=self.admin, query=query)
        report("200", bucket=0)
        for bucket in ("999", "-1", "x", ""):
            report(invalid, bucket=bucket)
        report(invalid, buckets=1)
        report("400 malformed_request", bucket=[0, 1])
        ask = lambda expect, **query: self.send(  # noqa: E731
            "preflight", expect, path={"sale": "later"}, headers=self.admin, query=query)
        ask("200", shoppers=5_000, seconds=10)
        ask(invalid, shopers=5_000)
        ask("400 malformed_request", seconds=[10, 20])
        self.send("listSales", "400 malformed_request", headers=self.admin, query={"limit": [1, 2]})

    def draw(self):
        until = self.opens - time.time()
        time.sleep(max(until, 0) + 0.05)
        *drawn, late, last = self.shoppers
        for shopper in drawn:
            for sale in ("draw", "few"):
                self.enter(shopper, sale)
        first = drawn[0]
        self.enter(first, "draw", "200")
        self.claim(first, "draw", "key-00000001", "403 not_admitted")
        # While the draw is counted nobody's place behind it is known.
        time.sleep(max(self.opens + WINDOW_MS / 1_000 + 0.05 - time.time(), 0))
        self.enter(late, "draw", ["503 unavailable", "201"])
        self.until(lambda: self.status("draw")["state"] == "LIVE")
        self.until(lambda: self.status("few")["draw"]["round"] > 0)
        time.sleep(CACHE_S)
        self.enter(late, "draw", ["200", "201"])
        self.enter(late, "draw", "200")
        self.enter(late, "few")
        self.enter(first, "draw", "401 invalid_entry", **{"Sale-Entry": "a.b.c"})
        self.enter(first, "draw", "401 invalid_pass", **{"Sale-Pass": first.passes["race"]})
        self.enter(last, "draw", "401 invalid_pass", **{"Sale-Pass": first.passes["draw"]})

        refused = [
            ("401 invalid_pass", {"Sale-Pass": None}),
            ("401 invalid_pass", {"Sale-Pass": last.passes["draw"]}),
            ("401 invalid_entry", {"Sale-Entry": None}),
            ("401 invalid_entry", {"Sale-Entry": late.entries["draw"]}),
        ]
        for expect, more in refused:
            self.claim(first, "draw", "key-00000001", expect, **more)
        for key in (None, "short", "with space", "a,b-1234567", "k" * 129):
            self.claim(first, "draw", key, "400 invalid_idempotency_key")
        for body in ({"quantity": 2}, {"quantity": "1"}, {"quantity": 0}, {"units": 1}):
            self.claim(first, "draw", "key-00000001", "422 invalid_field", body)
        claim = self.claim(first, "draw", "key-00000001")
        self.claim(first, "draw", "key-00000001", "200")
        self.claim(first, "draw", "another-key", "200")
        self.ordered(first, claim)
        self.claim(first, "draw", "key-00000001", "200")

        # One unit, and more who would have it.
        for shopper in drawn[:-1]:
            self.claim(shopper, "few", "key-00000001", ["201", "403 not_admitted", "409 sold_out"])
        self.send("joinWaitlist", "201", path={"sale": "few"}, headers=first.headers("few"))
        self.send("joinWaitlist", "200", path={"sale": "few"}, headers=first.headers("few"))
        self.send("joinWaitlist", "401 invalid_pass", path={"sale": "few"}, headers=first.session)

        # A replica that does not acknowledge in time.
        with Paused(self.system.replica()):
            confirming = self.claim(drawn[1], "draw", "key-00000001", "202")
        self.ordered(drawn[1], confirming)

    def race(self):
        first, second, third, *_ = self.shoppers
        claim = self.claim(first, "race", "key-00000001", body={"quantity": 2})
        self.claim(first, "race", "key-00000001", "422 idempotency_key_reused", {"quantity": 1})
        self.claim(first, "race", "key-00000002", "409 limit_reached", {"quantity": 2})
        self.claim(first, "race", "key-00000003", body={"quantity": 1})
        self.ordered(first, claim)

        too_many = [
            shopper for shopper in self.shoppers if "error" in
            self.claim(shopper, "slow", "key-00000001", ["201", "429 too_many_requests"])
        ]
        assert too_many, "nobody was too many"

        self.claim(first, "one", "key-00000001")
        for shopper in (second, third):
            told = self.claim(shopper, "one", "key-00000001", "409 sold_out")
            shopper.entries["one"] = told["entry_token"]
        self.until(lambda: self.status("one")["waitlist_open"])
        time.sleep(CACHE_S)
        self.claim(second, "one", "key-00000001", ["403 not_admitted", "409 sold_out"])
        self.enter(second, "one", "200")

        for operation in ("forceSoldOut", "waitlistOnly"):
            self.switch(operation, "slow", body={"on": True})
            time.sleep(CACHE_S)
            self.claim(too_many[0], "slow", "key-00000009", "409 sold_out")
            self.status("slow")
            self.switch(operation, "slow", body={"on": False})

        claim = self.claim(second, "race", "key-00000001")
        path = {"claim": claim["claim_id"]}
        self.send("giveBack", ["200", "409 order_not_ready"], path=path, headers=second.session)
        self.ordered(second, claim)
        self.send("giveBack", "200", path=path, headers=second.session)
        self.send("giveBack", "200", path=path, headers=second.session)
        self.claim(second, "race", "key-00000002")
        for operation in ("readClaim", "giveBack"):
            self.send(operation, "404 not_found", path=path, headers=third.session)
            for name in ("x", f"cl_race_000_{'0' * 32}", f"cl_race_999_{'0' * 32}", f"cl_nowhere_000_{'0' * 32}"):
                self.send(operation, "404 not_found", path={"claim": name}, headers=third.session)

        change = lambda expect, **body: self.switch("changeSale", "race", expect, body)  # noqa: E731
        change("200", units=42)
        change("200", units=30)
        change("409 units_in_use", units=1)
        change("409 sale_started", name="Other")
        change("422 invalid_field", units=5_000, buckets=1)
        self.switch("loadSale", "race", "409 sale_started")
        self.switch("preflight", "race")

    def payments(self):
        first, second, third, *_ = self.shoppers
        orders = []
        for shopper in self.shoppers[:5]:
            claim = self.claim(shopper, "race", "key-00000007", ["201", "200"])
            orders.append((shopper, self.ordered(shopper, claim)))
        (_, paid), (_, declined), (_, odd), (_, given), (_, late) = orders
        shoppers = dict((order, shopper) for shopper, order in orders)

        self.send("readOrder", "200", path={"order": paid}, headers=first.session)
        for operation in ("readOrder", "createPayment"):
            for name in (paid, "x", f"ord_race_000_{'0' * 32}"):
                self.send(operation, "404 not_found", path={"order": name}, headers=third.session)
        for body, expect in ((b"[]", "400 malformed_request"), ({"x": 1}, "422 invalid_field")):
            self.send("createPayment", expect, path={"order": paid}, headers=first.session, body=body)
        payment = self.pay(first, paid)
        self.pay(first, paid, "200")
        self.send("readOrder", "200", path={"order": paid}, headers=first.session)
        claim = {"claim": paid.replace("ord_", "cl_", 1)}
        self.send("giveBack", "409 not_cancellable", path=claim, headers=first.session)

        self.confirm(payment, "404 not_found", client_secret="x")
        self.confirm({**payment, "intent_id": "x"}, "404 not_found")
        self.confirm(payment, "422 invalid_field", outcome="maybe")
        self.confirm(payment, "422 invalid_field", captured={"amount": "1"})
        self.send("confirmSandboxIntent", "400 malformed_request", path={"intent": "x"}, body=b"[]")
        event = self.confirm(payment)
        self.confirm(payment)
        self.confirm(payment, "409 not_payable", outcome="decline")
        self.webhook(event["payload"].encode(), "400 invalid_signature", "t=1,v1=00")
        self.webhook(event["payload"].encode(), "404 not_found", provider="other")
        self.deliver(event, "paid")
        self.deliver(event, "already_applied")
        self.pay(first, paid, "409 not_payable")
        self.send("giveBack", "409 not_cancellable", path=claim, headers=first.session)
        self.send("readOrder", "200", path={"order": paid}, headers=first.session)
        self.send("readClaim", "200", path=claim, headers=first.session)

        payment = self.pay(shoppers[declined], declined)
        self.deliver(self.confirm(payment, outcome="decline"), "declined")
        self.pay(shoppers[declined], declined)

        payment = self.pay(shoppers[odd], odd)
        captured = {"amount": 1, "currency": "INR"}
        self.deliver(self.confirm(payment, captured=captured), "mismatch")
        self.send("readOrder", "200", path={"order": odd}, headers=shoppers[odd].session)

        claim = {"claim": given.replace("ord_", "cl_", 1)}
        self.send("giveBack", "200", path=claim, headers=shoppers[given].session)
        self.pay(shoppers[given], given, "409 not_payable")

        # Captured by an intent that is not the order's own.
        payment = self.pay(shoppers[late], late)
        stray = {
            "id": "evt_stray", "type": "payment_intent.succeeded", "intent": "sbx_stray",
            "amount": 999_900, "currency": "INR", "metadata": {"order_id": paid},
        }
        assert self.webhook(stray) in ("refund", "mismatch")
        nowhere = f"ord_race_000_{'0' * 32}"
        self.webhook({**stray, "id": "evt_parked", "metadata": {"order_id": nowhere}}, "404 not_found")
        assert self.webhook({"id": "evt_other", "type": "customer.created"}) == "ignored"
        for body in (b"", b"[]", b"{}", b'{"id":"evt_1","type":"refund.succeeded"}'):
            self.webhook(body, "400 malformed_request")
        body = b"{}"
        self.webhook(body, "400 invalid_signature", signed(body, WEBHOOK_SECRET, int(time.time()) - 400))

        for bucket in (None, 0):
            self.send("readReport", "200", path={"sale": "race"}, headers=self.admin,
                      query={"bucket": bucket} if bucket is not None else None)

        # A hold that lapses.
        claim = self.claim(second, "short", "key-00000001")
        order = claim["order"]["order_id"]
        time.sleep(1.3)
        self.ordered(second, claim)
        self.pay(second, order, "409 expired")
        self.until(lambda: self.send(
            "readClaim", "200", path={"claim": claim["claim_id"]}, headers=second.session,
        )["status"] == "EXPIRED")
        self.switch("extendPayWindow", "race", body={"seconds": 3_600})

    def over(self):
        first = self.shoppers[0]
        self.switch("pauseSale", "paused")
        self.switch("endSale", "ended")
        self.switch("loadSale", "ended", "410 ended")
        time.sleep(CACHE_S)
        self.status("paused")
        self.status("ended")
        self.enter(first, "paused", "503 paused")
        self.claim(first, "paused", "key-00000001", "503 paused")
        self.enter(first, "ended", "410 ended")
        self.claim(first, "ended", "key-00000001", "410 ended")
        self.send("joinWaitlist", "410 ended", path={"sale": "ended"}, headers=first.headers("ended"))
        self.get_pass(first, "ended", "410 ended")
        self.switch("resumeSale", "paused")
        time.sleep(CACHE_S)
        self.claim(first, "paused", "key-00000001")
        self.switch("pauseSale", "paused")

    def toys(self):
        """Sales for random requests of the merchant: scheduled and open."""
        self.opens = time.time() + 1.5
        self.create("toy-open", units=10)
        self.create("toy-draw", units=10, mode="draw", draw_window_ms=100)
        self.opens = time.time() + 86_400
        self.create("toy-race", units=10)
        self.create("toy-later", units=10, mode="draw")

    def gates_fail(self):
        """The last steps. A failover takes the gates' scripts with it, then
        the gates do not answer at all: what is not known is refused."""
        last = self.shoppers[-1]
        self.system.flush_scripts()
        self.claim(last, "race", "key-00000099", "503 frozen")
        self.switch("preflight", "later")
        unwell = ["503 unavailable", "503 frozen"]
        with Paused(self.system.primary()):
            self.claim(last, "race", "key-00000099", unwell)
            self.enter(last, "race", unwell, **{"Sale-Entry": None})
            self.switch("readReport", "race", unwell)
            self.switch("loadSale", "later", unwell)
            self.switch("preflight", "later")
