"""Verifies Payonce's events with Python's standard library. It reads the deliveries as JSON, and ends with an error if
one is not verified, or if one is that was changed."""
import base64
import hashlib
import hmac
import json
import sys
import time


def verify(body, headers, secret):
    sent = headers["webhook-timestamp"]
    if abs(time.time() - int(sent)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    text = f"{headers['webhook-id']}.{sent}.{body}".encode()
    want = "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(want, got) for got in headers["webhook-signature"].split())


for delivery in json.load(sys.stdin):
    body, headers, secrets = delivery["body"], delivery["headers"], delivery["secrets"]
    for i, secret in enumerate(secrets, 1):
        event = json.loads(body)
        assert verify(body, headers, secret), event["id"]
        assert not verify(body + " ", headers, secret), "a changed body"
        print(f"Python {sys.version.split()[0]}: verified {event['type']} {event['id']}, secret {i} of {len(secrets)}")
