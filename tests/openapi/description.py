"""The description, held against answers: each one is validated and counted."""

import copy
import json
import re
from collections import Counter, defaultdict

import jsonschema_rs
import requests
import schemathesis
import yaml
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

# What may refuse an invalid request: any refusal that comes first will do.
REFUSALS = ["400", "401", "403", "404", "409", "410", "413", "422", "425", "429", "431", "503"]


def no_fault(ctx, response, case):
    """No 5xx but 503, and no 503 of the gateway: the system is well."""
    status = response.status_code
    by_gateway = status == 503 and "problem" not in response.headers["content-type"][0]
    if status >= 500 and (status != 503 or by_gateway):
        raise Failure(
            operation=case.operation.label, title="Fault",
            message=f"{status} {response.text[:500]}",
        )


CHECKS = [
    no_fault,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


class Description:
    """A description in the form that schemathesis reads."""

    def __init__(self, document, base_url="https://api.example"):
        self.document = document
        self.base_url = base_url
        self.schema = schemathesis.openapi.from_dict(copy.deepcopy(document))
        self.schema.config.update(base_url=base_url)
        self.schema.config.checks.negative_data_rejection.expected_statuses = REFUSALS
        self.operations = {}
        for result in self.schema.get_all_operations():
            operation = result.ok()
            self.operations[operation.definition.raw["operationId"]] = operation

    @classmethod
    def read(cls, path, base_url):
        with open(path) as file:
            return cls(yaml.safe_load(file), base_url)

    def failures(self, name, response, case=None):
        """What is wrong with an answer; empty if nothing is."""
        operation = self.operations[name]
        if case is None:
            # Only the operation matters; a name in the path must be there.
            names = re.findall(r"{(\w+)}", operation.path)
            case = operation.Case(path_parameters=dict.fromkeys(names, "x"))
        checks = CHECKS + [negative_data_rejection] if case.meta else CHECKS
        try:
            case.validate_response(response, checks=checks)
        except FailureGroup as group:
            return [f"{failure.title}: {failure.message}" for failure in group.exceptions]
        return []

    def documented(self):
        """Route and status of every answer that is described."""
        return {
            (name, status): answer.get("description", "")
            for name, operation in self.operations.items()
            for status, answer in operation.definition.raw["responses"].items()
        }


class Recorder:
    """Sends requests, validates answers, and remembers what was seen."""

    def __init__(self, description):
        self.description = description
        self.session = requests.Session()
        self.seen = defaultdict(Counter)
        self.kept = {}
        self.problems = {}

    def take(self, name, response, case=None):
        """Notes an answer."""
        status = str(response.status_code)
        code = _code(response)
        self.seen[name, status][code] += 1
        self.kept.setdefault((name, status, code), response)
        for problem in self.description.failures(name, response, case):
            key = (name, status, problem.split("\n")[0])
            self.problems.setdefault(key, f"{problem}\n{_curl(response)}")

    def send(self, name, expect=None, **parts):
        """A request that was made by hand. Bodies are sent as they are."""
        operation = self.description.operations[name]
        path = operation.path
        for parameter, value in parts.get("path", {}).items():
            path = path.replace("{%s}" % parameter, value)
        headers = {k: v for k, v in parts.get("headers", {}).items() if v is not None}
        body = parts.get("body")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        response = self.session.request(
            operation.method, self.description.base_url + path, headers=headers,
            data=body, params=parts.get("query"), timeout=60,
        )
        self.take(name, response)
        expect = expect if isinstance(expect, (list, tuple)) else [expect]
        outcome = f"{response.status_code} {_code(response)}".strip()
        if expect != [None] and outcome not in expect:
            self.problems[name, outcome, "expected"] = (
                f"expected {' or '.join(expect)}, got {outcome}\n{_curl(response)}"
            )
        return response.json() if response.content else None


def _code(response):
    kind = response.headers.get("content-type", "")
    if "problem" not in (kind if isinstance(kind, str) else kind[0]):
        return "(gateway)" if response.status_code >= 400 else ""
    try:
        return str(response.json().get("error"))
    except ValueError:
        return "?"


def _curl(response):
    request = response.request
    headers = " ".join(
        f"-H '{name}: {value[:60]}'" for name, value in request.headers.items()
        if name.lower() not in ("connection", "accept", "accept-encoding", "user-agent")
    )
    body = request.body if request.body is not None else b""
    body = body.encode() if isinstance(body, str) else body
    body = f" -d {body[:300]!r}" if body else ""
    return (
        f"    {request.method} {request.url} {headers}{body}\n"
        f"    {response.status_code} {response.text[:500]}"
    )


def static_problems(description, routes, codes):
    """What is wrong with the description before anything is asked."""
    described = {f"{o.method.upper()} {o.path}": o for o in description.operations.values()}
    for route in sorted(routes.keys() ^ described.keys()):
        where = "template" if route in routes else "description"
        yield f"{route} is only in the {where}"
    for route, access in routes.items():
        raw = described[route].definition.raw if route in described else {}
        security = raw.get("security", description.document["security"])
        scopes = [] if security == [] else security[0]["session"]
        said = "public" if security == [] else " or ".join(scopes) or "session"
        if said != access:
            yield f"{route}: the template says {access}, the description {said}"
    listed = description.document["components"]["schemas"]["Problem"]["properties"]["error"]["enum"]
    for code in sorted(set(listed) ^ codes):
        yield f"the problem {code} is only in the {'description' if code in listed else 'code'}"
    yield from _examples(description.document)


def _examples(document):
    """Every example that is not what its schema says."""
    root = {"components": document["components"]}

    def validator(schema):
        # References are kept as they are, against the whole document.
        return jsonschema_rs.Draft202012Validator({**root, **schema}, validate_formats=True)

    def walk(node, where):
        if isinstance(node, list):
            for index, item in enumerate(node):
                yield from walk(item, f"{where}/{index}")
        if not isinstance(node, dict):
            return
        if isinstance(node.get("schema"), dict):
            examples = [node["example"]] if "example" in node else []
            examples += [example["value"] for example in node.get("examples", {}).values()]
            for example in examples:
                for error in validator(node["schema"]).iter_errors(example):
                    yield f"example at {where}: {error.message}"
        for key, item in node.items():
            yield from walk(item, f"{where}/{key}")

    yield from walk(document["paths"], "paths")
    yield from walk(document["components"], "components")


def self_test(recorder):
    """Proves that the check can fail. With the description as it is, what was
    kept passes; with an answer, a member, a content type or a header taken
    out, and with a fault in place of an answer, it must not."""
    document = recorder.description.document
    problems = []
    count = 0

    def must_fail(what, changed, keys):
        nonlocal count
        description = Description(changed)
        for name, status, code in keys:
            count += 1
            if not description.failures(name, recorder.kept[name, status, code]):
                problems.append(f"{what} went unnoticed: {name} {status} {code}")

    # Each status of each call, the answer removed.
    without = copy.deepcopy(document)
    for item in without["paths"].values():
        for method, operation in item.items():
            if isinstance(operation, dict) and "responses" in operation:
                operation["responses"] = {"299": {"description": "Nothing else."}}
    must_fail("a status that is not described", without, recorder.kept)

    # Each problem code, not listed any more.
    for code in {code for _, _, code in recorder.kept} - {"", "(gateway)"}:
        changed = copy.deepcopy(document)
        changed["components"]["schemas"]["Problem"]["properties"]["error"]["enum"].remove(code)
        keys = [key for key in recorder.kept if key[2] == code]
        must_fail(f"the code {code} that is not described", changed, keys)

    # One member of each object that was seen.
    for schema, member, name, status in [
        ("Sale", "commitment", "readSale", "200"),
        ("Status", "free", "readStatus", "200"),
        ("Claim", "pay_by", "createClaim", "201"),
        ("Order", "display", "readOrder", "200"),
        ("Payment", "client_secret", "createPayment", "201"),
        ("Entry", "ticket", "createEntry", "201"),
        ("Pass", "pass_id", "createPass", "201"),
        ("AdminSaleMembers", "version", "createSale", "201"),
        ("Message", "message", "listSales", "401"),
    ]:
        changed = copy.deepcopy(document)
        described = changed["components"]["schemas"][schema]
        del described["properties"][member]
        described["required"].remove(member)
        code = "(gateway)" if status == "401" else ""
        must_fail(f"{schema}.{member} that is not described", changed, [(name, status, code)])

    # A type, and the rule for caches.
    changed = copy.deepcopy(document)
    changed["components"]["headers"]["PublicSecond"]["schema"]["const"] = "no-store"
    must_fail("another Cache-Control", changed, [("readStatus", "200", "")])
    changed = copy.deepcopy(document)
    content = changed["components"]["responses"]["Session"]["content"]
    del content["application/json"]
    must_fail("a content type that is not described", changed, [("listSales", "401", "(gateway)")])

    # A fault in place of an answer, whether it is described or not.
    for status in (500, 501, 502, 503, 504):
        request = requests.Request("GET", "https://api.example/v1/sales/x").prepare()
        fault = Response(
            status_code=status, headers={"content-type": ["application/json"]},
            content=b'{"message":"Service Unavailable"}', request=request, elapsed=0.1, verify=False,
        )
        count += 1
        if not recorder.description.failures("readSale", fault):
            problems.append(f"{status} in place of an answer went unnoticed")
    return count, problems


def codes_in(source):
    """The codes that the API's own list of problems has."""
    return set(re.findall(r'^ {4}\w+ = "([a-z_]+)", [A-Z_]+, "', source, re.MULTILINE))
