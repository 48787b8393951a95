"""One server is shared by all tests that do not need their own; each of those has a workspace of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.office import Desk, Office

MANY = "1000000"  # a rate that no test reaches by itself


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    shared = Office(tmp_path_factory.mktemp("office"), "--rate", MANY).open()
    yield shared
    assert shared.close() == 0


@pytest.fixture(scope="session")
def dev_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A server that needs no credentials."""
    shared = Office(tmp_path_factory.mktemp("dev"), "--rate", MANY, "--dev").open()
    yield shared
    assert shared.close() == 0


@pytest.fixture(scope="module")
def own_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """The `office` of a module whose mailboxes have the names of others': a server of its own."""
    own = Office(tmp_path_factory.mktemp("own"), "--rate", MANY).open()
    yield own
    assert own.close() == 0


@pytest.fixture
def desk(office: Office) -> Desk:
    """A workspace of its own."""
    return office.desk()


@pytest.fixture
def other(office: Office) -> Desk:
    """Another workspace, which is somebody else's."""
    return office.desk()


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Callable[..., Office]]:
    """Founds offices that a test may stop, kill and configure; each in a folder of its own, unless it is told one."""
    made: list[Office] = []

    def make(*flags: str, folder: Path | None = None) -> Office:
        place = folder or tmp_path / f"office-{len(made)}"
        place.mkdir(exist_ok=True)
        made.append(Office(place, *flags))
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
