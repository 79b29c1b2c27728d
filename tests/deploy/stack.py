"""The stack: built with `sam build`, deployed with `sam deploy`, deleted."""

import os
import shutil
import time

from samtranslator.yaml_helper import yaml_parse

from emulator import REGION
from tools import ROOT, VENV, run, wait

SAM = str(VENV / "sam")
BUILD = ROOT / ".aws-sam/build"

# A build that takes minutes, not half an hour: the same code, less optimised.
# The sizes and times of what is deployed are measured elsewhere.
CHEAP_PROFILE = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_DEBUG": "0",
    "CARGO_PROFILE_RELEASE_STRIP": "symbols",
}


class Stack:
    def __init__(self, emulator, directory, name, as_shipped):
        self.emulator, self.name = emulator, name
        self.log = directory / "sam.log"
        self.cloudformation = emulator.client("cloudformation")
        self.environment = emulator.environment() | ({} if as_shipped else CHEAP_PROFILE)

    def build(self):
        """All functions, and the programs of this test: one build directory, so nothing is compiled twice."""
        cargo = shutil.which("cargo")
        run([cargo, "lambda", "build", "--release", "--workspace", "--bins"], self.log, env=self.environment)
        run([SAM, "build"], self.log, env=self.environment)

    def program(self, name):
        """One of the workspace's own programs, as it was built."""
        target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
        return os.path.join(target, "lambda", name, "bootstrap")

    def pack_anew(self):
        """Makes other code of every function, as a new release would be: a file is added to each package."""
        for bootstrap in BUILD.glob("*/bootstrap"):
            (bootstrap.parent / "release").write_text(str(time.time()))

    def code(self):
        """The checksum of each function's code, by the function's name."""
        functions = self.emulator.client("lambda").list_functions()["Functions"]
        return {one["FunctionName"]: one["CodeSha256"] for one in functions}

    def secret(self, resource):
        """The value of a secret that the stack made."""
        client = self.emulator.client("secretsmanager")
        return client.get_secret_value(SecretId=self.resources[resource])["SecretString"]

    def faults(self, file):
        """Writes what the functions logged to a file; the errors among it."""
        client = self.emulator.client("logs")
        pages = client.get_paginator("filter_log_events").paginate(logGroupName=self.resources["Logs"])
        lines = [event["message"].rstrip() for page in pages for event in page["events"]]
        file.write_text("\n".join(lines))
        return [line for line in lines if '"level":"ERROR"' in line]

    def scheduled(self):
        """Functions with a schedule, by logical id."""
        logical = {physical: name for name, physical in self.resources.items()}
        schedules = self.emulator.client("scheduler").list_schedules()["Schedules"]
        return sorted(logical[one["Target"]["Arn"].split(":")[6]] for one in schedules)

    def started_by_schedule(self):
        """How often the emulator's scheduler started each scheduled function."""
        log = self.emulator.server.log.read_text(errors="replace")
        return {
            name: log.count(f"EventBridge → Lambda {self.resources[name]}: dispatched")
            for name in self.scheduled()
        }

    def deploy(self, parameters):
        """Creates or updates the stack. All that the template does not default is a parameter."""
        run([SAM, "deploy", "--stack-name", self.name, "--region", REGION, "--resolve-s3", "--no-confirm-changeset",
             "--no-fail-on-empty-changeset", "--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND",
             "--parameter-overrides", *(f"{name}={value}" for name, value in parameters.items())],
            self.log, env=self.environment)
        self.resources = self._resources(self.name)
        status = self.status()
        if not status.endswith("_COMPLETE") or "ROLLBACK" in status:
            raise SystemExit(f"the stack is {status}")

    def status(self):
        return self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]["StackStatus"]

    def outputs(self):
        [stack] = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def _resources(self, name):
        """Physical ids by logical id; those of a nested stack as `Stack.Id`."""
        found = {}
        pages = self.cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
        for resource in (one for page in pages for one in page["StackResourceSummaries"]):
            logical, physical = resource["LogicalResourceId"], resource["PhysicalResourceId"]
            found[logical] = physical
            if resource["ResourceType"] == "AWS::CloudFormation::Stack":
                nested = self._resources(physical)
                found |= {f"{logical}.{inner}": value for inner, value in nested.items()}
        return found

    def processed(self, nested=None):
        """The template, or a nested one, as CloudFormation has it after SAM's transform."""
        name = self.resources[nested] if nested else self.name
        body = self.cloudformation.get_template(StackName=name, TemplateStage="Processed")["TemplateBody"]
        return yaml_parse(body) if isinstance(body, str) else body

    def delete(self):
        """As `sam delete` does it; that itself can't read the URLs of nested templates that an emulator has."""
        name = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]["StackId"]
        self.cloudformation.delete_stack(StackName=name)

        def deleted():
            status = self.cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
            if status == "DELETE_FAILED":
                raise SystemExit("the stack can't be deleted")
            return status == "DELETE_COMPLETE"

        wait("the stack to be deleted", deleted)
