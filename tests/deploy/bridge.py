"""What the emulator lacks, made through its API after the deployment.

| lacking | made here | from |
|---|---|---|
| the body of `AWS::ApiGatewayV2::Api` is ignored, which is where SAM puts `HttpApi` events | routes, their integrations, the JWT authorizer, the CORS rules | the template as CloudFormation has it after SAM's transform |
| `ExcludePunctuation` of generated secrets is ignored, and a comma in a key makes two keys of it | the values again | `GenerateSecretString` of each secret |
| `Ref` of a secret is its name, not its ARN, so a policy of it allows nothing | the ARN in its place in the policies of the roles | the secret that bears the name |
| the cache is one server, its `AuthToken` is not set | the password of the gates (`gates.py`) | the secret that the stack made |
| an update of a function's code ends its runs, which Lambda lets go on to their end | controller and sweeper begun anew, as soon as their code is another | the code of each before and after the update |

Nothing is made that the template does not say: `check` reads back what the API
then has, and holds it against the template as the local runner reads it.
"""

import contextlib
import json
import re
import subprocess
import threading
import urllib.error
import urllib.request

from emulator import ACCOUNT, REGION

METHODS = ("get", "post", "put", "patch", "delete")


class Bridge:
    def __init__(self, stack):
        self.stack = stack
        self.api = stack.resources["Api"]
        self.client = stack.emulator.client("apigatewayv2")
        # Reached by path: a name below `localhost` is not known everywhere.
        self.url = f"{stack.emulator.url}/_aws/execute-api/{self.api}/$default"

    def generate_secrets(self):
        """Before a function reads one: the schedules start none within the first minute."""
        client = self.stack.emulator.client("secretsmanager")
        for nested, prefix in ((None, ""), ("Gates", "Gates.")):
            for logical, resource in self.stack.processed(nested)["Resources"].items():
                # One that is made on a condition may not be there.
                is_secret = resource["Type"] == "AWS::SecretsManager::Secret"
                if not is_secret or prefix + logical not in self.stack.resources:
                    continue
                value = client.get_random_password(**resource["Properties"]["GenerateSecretString"])
                client.put_secret_value(
                    SecretId=self.stack.resources[prefix + logical], SecretString=value["RandomPassword"],
                )

    def correct_policies(self):
        """Roles hold on the emulator (`AUTH`); what they allow is the template's, with ARNs in the place of names."""
        secrets = self.stack.emulator.client("secretsmanager")
        arns = {one["Name"]: one["ARN"] for page in secrets.get_paginator("list_secrets").paginate()
                for one in page["SecretList"]}
        iam = self.stack.emulator.client("iam")
        for role in (name for logical, name in self.stack.resources.items() if logical.endswith("FunctionRole")):
            for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
                document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
                for statement in document["Statement"]:
                    named = statement["Resource"]
                    named = named if isinstance(named, list) else [named]
                    statement["Resource"] = [arns.get(one, one) for one in named]
                iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))

    def prove_roles(self):
        """A control: without its policy a function can't read what it reads with it."""
        iam = self.stack.emulator.client("iam")
        role = self.stack.resources["StatusFunctionRole"]
        [policy] = iam.list_role_policies(RoleName=role)["PolicyNames"]
        document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
        with_it = self._status("/v1/sales/nosuchsale")
        iam.delete_role_policy(RoleName=role, PolicyName=policy)
        without = self._status("/v1/sales/nosuchsale2")
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))
        again = self._status("/v1/sales/nosuchsale3")
        if not (with_it == again == 404 and without >= 500):
            raise SystemExit(f"roles do not hold: {with_it} with a policy, {without} without, {again} with it again")

    def _status(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def create_api(self, parameters):
        template = self.stack.processed()
        defaults = {name: one.get("Default") for name, one in template["Parameters"].items()}
        self.parameters = defaults | parameters
        body = template["Resources"]["Api"]["Properties"]["Body"]
        authorizers = {
            name: self._authorizer(name, scheme["x-amazon-apigateway-authorizer"])
            for name, scheme in body["components"]["securitySchemes"].items()
        }
        for path, methods in body["paths"].items():
            for method in methods.keys() & METHODS:
                self._route(f"{method.upper()} {path}", methods[method], authorizers)
        cors = {name[0].upper() + name[1:]: value for name, value in body["x-amazon-apigateway-cors"].items()}
        self.client.update_api(ApiId=self.api, CorsConfiguration=cors)

    def _authorizer(self, name, given):
        jwt = given["jwtConfiguration"]
        return self.client.create_authorizer(
            ApiId=self.api, Name=name, AuthorizerType=given["type"].upper(),
            IdentitySource=[given["identitySource"]],
            JwtConfiguration={
                "Issuer": self._value(jwt["issuer"]),
                "Audience": [self._value(one) for one in jwt["audience"]],
            },
        )["AuthorizerId"]

    def _route(self, key, given, authorizers):
        integration = given["x-amazon-apigateway-integration"]
        created = self.client.create_integration(
            ApiId=self.api, IntegrationType=integration["type"].upper(),
            IntegrationMethod=integration["httpMethod"], IntegrationUri=self._value(integration["uri"]),
            PayloadFormatVersion=integration["payloadFormatVersion"],
        )
        [(name, scopes)] = given["security"][0].items()
        access = {"AuthorizationType": "NONE"}
        if name != "NONE":
            access = {"AuthorizationType": "JWT", "AuthorizerId": authorizers[name], "AuthorizationScopes": scopes}
        self.client.create_route(
            ApiId=self.api, RouteKey=key, Target=f"integrations/{created['IntegrationId']}", **access,
        )

    def _value(self, given):
        """A value of the template; only what SAM writes into the body is known."""
        if isinstance(given, str):
            return given
        [(function, argument)] = given.items()
        if function == "Ref":
            return str(self.parameters[argument])
        assert function == "Fn::Sub", given
        return re.sub(r"\$\{([^}]+)}", lambda found: self._name(found[1]), argument)

    def _name(self, name):
        known = {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT}
        if name in known:
            return known[name]
        logical, _, attribute = name.partition(".")
        physical = self.stack.resources[logical]
        if attribute == "Arn":
            return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{physical}"
        assert not attribute, name
        return physical

    @contextlib.contextmanager
    def scheduled_runs_go_on(self):
        """Within this block no update leaves a scheduled function without a run until its schedule's next minute."""
        client = self.stack.emulator.client("lambda")
        names = [self.stack.resources[logical] for logical in self.stack.scheduled()]
        over = threading.Event()

        def code(name):
            return client.get_function_configuration(FunctionName=name)["CodeSha256"]

        def watch(before):
            while not over.wait(0.3):
                for name in names:
                    if (now := code(name)) != before[name]:
                        before[name] = now
                        client.invoke(FunctionName=name, InvocationType="Event", Payload="{}")

        watcher = threading.Thread(target=watch, args=({name: code(name) for name in names},))
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def check(self, local, parameters):
        """The API has the routes of the template, with its functions and its rules; no other ones."""
        listed = subprocess.run([local, "routes"], capture_output=True, text=True, check=True).stdout
        wanted = set()
        for line in listed.splitlines():
            words = line.split()
            if words[1].startswith("/"):
                wanted.add((f"{words[0]} {words[1]}", words[2], " ".join(words[3:])))
        found = set(self._routes())
        if wanted != found:
            raise SystemExit(f"the API has other routes than the template: {sorted(wanted ^ found)}")
        for authorizer in self.client.get_authorizers(ApiId=self.api)["Items"]:
            assert authorizer["AuthorizerType"] == "JWT"
            assert authorizer["JwtConfiguration"]["Issuer"] == parameters["SessionIssuer"]
        return len(found)

    def _routes(self):
        """Key, function and access of every route that the API has, in the local runner's words."""
        logical = {physical: name for name, physical in self.stack.resources.items()}
        integrations = {
            one["IntegrationId"]: one["IntegrationUri"] for one in self._all("get_integrations")
        }
        for route in self._all("get_routes"):
            uri = integrations[route["Target"].removeprefix("integrations/")]
            function = re.search(r":function:([^:/]+)", uri)[1]
            scopes = " or ".join(route.get("AuthorizationScopes") or ["session"])
            access = scopes if route["AuthorizationType"] == "JWT" else "public"
            yield route["RouteKey"], logical[function], access

    def _all(self, call):
        token = {}
        while True:
            page = getattr(self.client, call)(ApiId=self.api, **token)
            yield from page["Items"]
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
