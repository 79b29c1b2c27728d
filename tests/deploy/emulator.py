"""AWS on loopback: ministack, which runs functions as processes of this machine."""

import os

import boto3
from botocore.config import Config

from tools import EMULATOR_VENV, VENV, Server, free_ports

ACCOUNT = "000000000000"
REGION = "us-east-1"


class Emulator:
    """Runs until the block is left. Its functions reach the gates and trust their certificate."""

    def __init__(self, directory, gates):
        self.directory = directory
        [self.port] = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        # Nobody's: the emulator takes any.
        self.credentials = {
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "AWS_ENDPOINT_URL": self.url,
        }
        own = {
            "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(self.port),
            # Functions may do what their roles allow, and nothing else.
            "AUTH": "true",
            # What the endpoint of a replication group becomes.
            "REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(gates.ports[0]),
            # Whom functions trust, beside nobody.
            "SSL_CERT_FILE": str(gates.certificate),
            "TMPDIR": str(directory), "S3_DATA_DIR": str(directory / "s3"), "IOT_MTLS_ENABLED": "0",
        }
        self.server = Server(
            [str(EMULATOR_VENV / "ministack")], directory / "emulator.log", self.port,
            env=clean_environment() | self.credentials | own, cwd=directory,
        )

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    def client(self, service):
        return boto3.client(
            service, endpoint_url=self.url, region_name=REGION,
            aws_access_key_id="test", aws_secret_access_key="test",
            config=Config(read_timeout=120, retries={"max_attempts": 1}),
        )

    def environment(self):
        """For the programs that deploy to it."""
        path = f"{VENV}:{os.environ['PATH']}"
        return clean_environment() | self.credentials | {"PATH": path, "SAM_CLI_TELEMETRY": "0"}


def clean_environment():
    """Nothing of a real account may get in."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
