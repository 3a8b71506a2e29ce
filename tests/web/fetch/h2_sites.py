"""A site over TLS that speaks HTTP/2, honest or not, with a certificate of its own."""

import datetime as dt
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.abc
import h2.config
import h2.connection
import h2.events
import h2.exceptions
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAMES = ("a.example", "b.example")


@cache
def _certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a.example")])
    now = dt.datetime.now(dt.UTC)
    alternatives = [x509.DNSName(dns) for dns in NAMES] + [x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def trusting() -> ssl.SSLContext:
    """A context that trusts the certificate of these sites, and nobody else's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=_certificate()[0].decode())
    return context


def _serving(protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        certificate.write_bytes(_certificate()[0])
        key.write_bytes(_certificate()[1])
        context.load_cert_chain(certificate, key)
    context.set_alpn_protocols([protocol])
    return context


@dataclass
class H2Ask:
    """A request on a stream of a connection."""

    path: str
    headers: Mapping[str, str]
    stream: int
    http: h2.connection.H2Connection
    wire: anyio.abc.ByteStream
    turn: anyio.Lock
    """Whose turn it is to send."""

    async def flush(self) -> None:
        await self.send_raw(b"")

    async def send_raw(self, data: bytes) -> None:
        async with self.turn:
            await self.wire.send(self.http.data_to_send() + data)

    async def reply(self, body: bytes = b"", status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.http.send_headers(self.stream, [(":status", str(status)), *(headers or {}).items()], end_stream=not body)
        for at in range(0, len(body), 16_000):
            self.http.send_data(self.stream, body[at : at + 16_000], end_stream=at + 16_000 >= len(body))
        await self.flush()


H2Page = Callable[[H2Ask], Awaitable[None]]


@dataclass
class H2Site:
    """A running site."""

    pages: dict[str, H2Page]
    port: int = 0
    connections: int = 0
    asked: list[H2Ask] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "a.example") -> str:
        return f"https://{host}:{self.port}{path}"

    async def serve(self, wire: anyio.abc.ByteStream) -> None:
        self.connections += 1
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, validate_outbound_headers=False))
        http.initiate_connection()
        turn = anyio.Lock()
        closed = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError)
        with suppress(*closed, h2.exceptions.ProtocolError):
            async with wire, anyio.create_task_group() as tasks:
                await wire.send(http.data_to_send())
                while True:
                    for event in http.receive_data(await wire.receive()):
                        if isinstance(event, h2.events.RequestReceived):
                            tasks.start_soon(self._answer, event, http, wire, turn)
                    async with turn:
                        await wire.send(http.data_to_send())

    async def _answer(
        self,
        event: h2.events.RequestReceived,
        http: h2.connection.H2Connection,
        wire: anyio.abc.ByteStream,
        turn: anyio.Lock,
    ) -> None:
        headers = {name.decode(): value.decode() for name, value in event.headers or []}
        ask = H2Ask(headers[":path"], headers, event.stream_id or 0, http, wire, turn)
        self.asked.append(ask)
        page = self.pages.get(ask.path)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, h2.exceptions.ProtocolError):
            await (page(ask) if page else ask.reply(b"nothing here", 404))


@asynccontextmanager
async def h2_site(pages: Mapping[str, H2Page], protocol: str = "h2") -> AsyncGenerator[H2Site]:
    """A site with these pages; `protocol` is what it agrees to speak."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    here = H2Site(dict(pages), listener.extra(anyio.abc.SocketAttribute.local_port))
    secure = TLSListener(listener, _serving(protocol), standard_compatible=False)

    async def serve(wire: anyio.abc.ByteStream) -> None:
        with suppress(BaseExceptionGroup):  # What breaks a connection is what the test is about.
            await here.serve(wire)

    async with secure, anyio.create_task_group() as tasks:
        tasks.start_soon(secure.serve, serve)
        yield here
        tasks.cancel_scope.cancel()


def h2_text(body: bytes = b"hello", status: int = 200, headers: Mapping[str, str] | None = None) -> H2Page:
    async def page(ask: H2Ask) -> None:
        await ask.reply(body, status, headers)

    return page
