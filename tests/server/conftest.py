"""One server is shared by all tests that do not need their own; each of those has a workspace of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.running_server import RunningServer, WorkspaceClient

MANY = "1000000"  # a rate that no test reaches by itself


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    shared = RunningServer(tmp_path_factory.mktemp("office"), "--rate", MANY).open()
    yield shared
    assert shared.close() == 0


@pytest.fixture(scope="session")
def dev_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that needs no credentials."""
    shared = RunningServer(tmp_path_factory.mktemp("dev"), "--rate", MANY, "--dev").open()
    yield shared
    assert shared.close() == 0


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The server of a module whose mailboxes have the names of others': a server of its own."""
    own = RunningServer(tmp_path_factory.mktemp("own"), "--rate", MANY).open()
    yield own
    assert own.close() == 0


@pytest.fixture
def workspace(server: RunningServer) -> WorkspaceClient:
    """A workspace of its own."""
    return server.add_workspace()


@pytest.fixture
def other(server: RunningServer) -> WorkspaceClient:
    """Another workspace, which is somebody else's."""
    return server.add_workspace()


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Callable[..., RunningServer]]:
    """Makes servers that a test may stop, kill and configure, each in a folder of its own unless the test names one."""
    made: list[RunningServer] = []

    def make(*flags: str, folder: Path | None = None) -> RunningServer:
        place = folder or tmp_path / f"office-{len(made)}"
        place.mkdir(exist_ok=True)
        made.append(RunningServer(place, *flags))
        return made[-1]

    yield make
    for one in made:
        if one.alive():
            one.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate that this test made itself, and its key."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    cert = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    cert = cert.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    (tmp_path / "cert.pem").write_bytes(cert.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    return str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
