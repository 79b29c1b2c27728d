"""localstripe with what Stripe documents and it lacks, for tests on one machine.

localstripe keeps the books: intents, charges, refunds, events, signed webhooks.
Added here, each as Stripe's reference has it, and nothing that decides whether
money moves:

- Idempotency-Key: the first answer again, 409 while that is being made, 400 for
  other parameters.
- A shopper's client confirms an intent with a publishable key and the intent's
  client secret, and again after a decline.
- Lists of intents are newest first and can be asked for a time.
- An intent says what it received; cancelling and refunding send their events.

A page of a hundred intents would take it seconds: what newer versions of the API
don't show is left out, and refunds are found by their charge.

It forgets everything at its end, and ends when its standard input does.
"""

import argparse
import asyncio
import collections
import re
import sys

from aiohttp import web
from localstripe import resources, server, webhooks
from localstripe.errors import UserError
from localstripe.resources import Charge, Event, PaymentIntent, PaymentMethod, Refund

CONFIRM = re.compile(r"^/v1/payment_intents/(pi_\w+)/confirm$")
CANCEL = re.compile(r"^/v1/payment_intents/(pi_\w+)/cancel$")
BOUNDS = {
    "gt": lambda created, bound: created > bound,
    "gte": lambda created, bound: created >= bound,
    "lt": lambda created, bound: created < bound,
    "lte": lambda created, bound: created <= bound,
}

answers = {}
returned = collections.defaultdict(list)
make_refund = Refund.__init__


def failure(status, kind, code):
    return server.json_response({"error": {"type": kind, "code": code}}, status=status)


@web.middleware
async def once_for_a_key(request, handler):
    key = request.headers.get("Idempotency-Key")
    if request.method != "POST" or key is None:
        return await handler(request)
    asked = (request.path, await request.read())
    if key in answers:
        known, answer = answers[key]
        if known != asked:
            return failure(400, "idempotency_error", "idempotency_key_reused")
        if answer is None:
            return failure(409, "idempotency_error", "idempotency_key_in_use")
        status, text = answer
        headers = {"Idempotent-Replayed": "true"}
        return web.Response(status=status, text=text, headers=headers, content_type="application/json")
    answers[key] = (asked, None)
    try:
        answer = await handler(request)
    except BaseException:
        # Refused before anything was done: not kept.
        del answers[key]
        raise
    answers[key] = (asked, (answer.status, answer.text))
    return answer


@web.middleware
async def shoppers_client(request, handler):
    path = CONFIRM.match(request.path)
    data = await server.get_post_data(request, remove_auth=False) if path else {}
    if not str(data.get("key", "")).startswith("pk_"):
        return await handler(request)
    intent = PaymentIntent._api_retrieve(path[1])
    if data.get("client_secret") != intent.client_secret:
        raise UserError(404, contents={"code": "resource_missing"})
    if intent.status != "requires_payment_method":
        raise UserError(400, contents={"code": "payment_intent_unexpected_state"})
    intent.payment_method = PaymentMethod._api_retrieve(data["payment_method"]).id
    intent.latest_charge = None
    intent._confirm(on_failure_now=intent._report_failure)
    return server.json_response(intent._export())


@web.middleware
async def events(request, handler):
    refunds = request.path == "/v1/refunds"
    before = set(resources.store) if refunds else ()
    answer = await handler(request)
    if request.method == "POST" and answer.status == 200:
        if path := CANCEL.match(request.path):
            intent = PaymentIntent._api_retrieve(path[1])
            webhooks.schedule_webhook(Event("payment_intent.canceled", intent))
        elif refunds:
            for name in set(resources.store) - before:
                if isinstance(made := resources.store[name], Refund):
                    webhooks.schedule_webhook(Event("refund.updated", made))
    return answer


def list_intents(cls, url, created=None, limit=None, starting_after=None):
    found = resources.List(url, limit=limit, starting_after=starting_after)
    bounds = {name: int(bound) for name, bound in (created or {}).items()}
    found._list = [
        one for one in reversed(list(resources.store.values()))
        if isinstance(one, PaymentIntent)
        and all(BOUNDS[name](one.created, bound) for name, bound in bounds.items())
    ]
    return found


def received(intent):
    charge = intent.latest_charge
    return charge.amount if charge is not None and charge.status == "succeeded" else 0


def refund(made, **data):
    make_refund(made, **data)
    returned[made.charge].append(made)


def refunds_of(charge):
    found = resources.List(f"/v1/charges/{charge.id}/refunds")
    found._list = returned[charge.id]
    return found


def complete():
    # It would write all it has to a file of this machine, for every object.
    resources.Store.dump_to_disk = lambda store: None
    PaymentIntent._api_list_all = classmethod(list_intents)
    PaymentIntent.amount_received = property(received)
    del PaymentIntent.charges
    Refund.__init__ = refund
    Charge.refunds = property(refunds_of)
    # Behind the one that turns errors into answers, before authentication.
    server.app.middlewares[1:1] = [once_for_a_key, shoppers_client, events]


async def serve(webhook):
    if webhook:
        url, secret = webhook
        webhooks.register_webhook("tests", url, secret, None)
    runner = web.AppRunner(server.app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--webhook", nargs=2, metavar=("URL", "SECRET"))
    complete()
    asyncio.run(serve(arguments.parse_args().webhook))
