"""A stand-in for an OpenID Connect provider: an HTTP server of this process that signs with an RSA key of its own.

It keeps to the standard until a test has it do otherwise. Its tokens are signed by hand and not by the library under
test.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT_ID: Final = "lockhouse-tests"
CLIENT_SECRET: Final = "a-secret-of-the-client-9d3f"
SUBJECT: Final = "Subject-7"
MAIL: Final = "vera@elsewhere.example"


def b64(data: bytes) -> str:
    """Return base64 for addresses, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Key:
    """An RSA key with the id by which a token names it."""

    def __init__(self, kid: str) -> None:
        """Make one."""
        self.kid = kid
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def public(self) -> dict[str, str]:
        """Return what the provider publishes."""
        numbers = self.private.public_key().public_numbers()
        parts = {
            name: b64(value.to_bytes((value.bit_length() + 7) // 8))
            for name, value in (("n", numbers.n), ("e", numbers.e))
        }
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid, **parts}

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a token that is signed by RS256."""
        head = _head("RS256", self.kid, claims)
        return f"{head}.{b64(self.private.sign(head.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def unsigned(claims: dict[str, Any]) -> str:
    """Return a token that says it needs no signature."""
    return _head("none", "k1", claims) + "."


def shared(claims: dict[str, Any], secret: bytes = CLIENT_SECRET.encode()) -> str:
    """Return a token that is signed with a secret which the client has too."""
    head = _head("HS256", "k1", claims)
    return f"{head}.{b64(hmac.digest(secret, head.encode(), 'sha256'))}"


def _head(algorithm: str, kid: str, claims: dict[str, Any]) -> str:
    header = {"alg": algorithm, "typ": "JWT", "kid": kid}
    return ".".join(b64(json.dumps(part).encode()) for part in (header, claims))


class Provider:
    """The server, what it said, and what a test has it say.

    Attributes:
        subject: Who is signed in there.
        changes: Claims that a token has otherwise than it should; None takes one away.
        write: Makes a token of its claims, in place of its own key.
        published: The keys that it publishes.
        described: What its own description has otherwise than it should.
        answers: Whether it answers as a provider; if not, with a page of somebody else's.
        said: Everything secret that it gave out or was given.
    """

    def __init__(self) -> None:
        """Start it."""
        self.key = Key("k1")
        self.subject = SUBJECT
        self.changes: dict[str, Any] = {}
        self.write: Callable[[dict[str, Any]], str] | None = None
        self.published: list[Key] = [self.key]
        self.described: dict[str, Any] = {}
        self.answers = True
        self.said: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = False
        self.issuer = f"http://127.0.0.1:{self._server.server_port}/realm"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def stop(self) -> None:
        """Stop it; a second time does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def describe(self) -> dict[str, Any]:
        """Return its description."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            **self.described,
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Return where somebody who is signed in there is sent: back, with a code."""
        assert (asked["client_id"], asked["response_type"]) == (CLIENT_ID, "code")
        assert (asked["scope"], asked["code_challenge_method"]) == ("openid", "S256")
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        self.said += [code, asked["state"], asked["nonce"], asked["code_challenge"]]
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, sent: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return a token for a code, once, to the client that can prove itself and that it asked."""
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        asked = self._codes.pop(sent.get("code", ""), None)
        self.said.append(sent.get("code_verifier", ""))
        challenge = b64(hashlib.sha256(sent.get("code_verifier", "").encode()).digest())
        if asked is None or (asked["code_challenge"], asked["redirect_uri"]) != (challenge, sent["redirect_uri"]):
            return 400, {"error": "invalid_grant", "error_description": "canary-description-of-the-provider"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": self.subject,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "email": MAIL,
            "preferred_username": "vera",
            **self.changes,
        }
        write = self.write or self.key.sign
        token = write({name: value for name, value in claims.items() if value is not None})
        access = secrets.token_urlsafe(16)
        self.said += [token, access]
        return 200, {"access_token": access, "token_type": "Bearer", "expires_in": 300, "id_token": token}


def _handler_of(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers as the standard says, on any path but its own with 404."""

        def do_GET(self) -> None:
            place = urlsplit(self.path)
            if place.path == "/realm/authorize":
                asked = {name: values[0] for name, values in parse_qs(place.query).items()}
                self.send_response(302)
                self.send_header("Location", provider.authorize(asked))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            answers: dict[str, dict[str, Any]] = {
                "/realm/.well-known/openid-configuration": provider.describe(),
                "/realm/keys": {"keys": [key.public() for key in provider.published]},
            }
            self._say(200 if place.path in answers else 404, answers.get(place.path, {}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            sent = {name: values[0] for name, values in parse_qs(body).items()}
            self._say(*provider.token(sent, self.headers.get("Authorization", "")))

        def _say(self, status: int, value: dict[str, Any]) -> None:
            text = json.dumps(value) if provider.answers else "<h1>Back soon</h1>"
            self.send_response(status if provider.answers else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    return Handler
