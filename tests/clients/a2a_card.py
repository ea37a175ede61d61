"""Signed cards, by others' means: keys made with `cryptography`, signatures checked by A2A's own Python SDK.

usage: a2a_card.py key ES256|EdDSA FILE | verify BASE_URL
"""

import asyncio
import sys

from a2a.client import A2ACardResolver
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
import httpx
from jwt import PyJWK


def make(algorithm, file):
    if algorithm == "ES256":
        key = ec.generate_private_key(ec.SECP256R1())
    else:
        key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with open(file, "wb") as out:
        out.write(pem)


def public_key(kid, jku):
    keys = httpx.get(jku).raise_for_status().json()["keys"]
    return PyJWK(next(key for key in keys if key["kid"] == kid))


async def verify(base):
    verifier = create_signature_verifier(public_key, ["ES256", "EdDSA"])
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, base).get_agent_card(signature_verifier=verifier)
    print("verified", card.name)
    card.description = "Something else."
    try:
        verifier(card)
    except SignatureVerificationError:
        print("changed, and noticed")


act, *rest = sys.argv[1:]
if act == "key":
    make(*rest)
else:
    asyncio.run(verify(*rest))
