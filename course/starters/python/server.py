#!/usr/bin/env python3
"""A payment server that is wrong: it charges each request, also one that it has charged before.

It is written from docs/grade.md and docs/mock_psp.md, with the standard library only. Grade it with

    make grade TARGET=course/starters/python/server.py PROFILE=plain

or with a program of the release: grade --profile plain ./server.py
"""
import json
import os
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PSP_URL, PSP_SECRET = os.environ["PSP_URL"], os.environ["PSP_SECRET"]
TENANT = os.environ["API_KEYS"].partition("=")[2].split(",")[0]  # the profile "plain" has one tenant
PSP_TIMEOUT = 1  # seconds; a client of the grader waits for 5


def charge(order):
    """Ask the PSP. Return the status, and what it has said."""
    request = Request(PSP_URL + "/v1/charges", json.dumps(order).encode(), {
        "Authorization": "Bearer " + PSP_SECRET, "PSP-Account": TENANT, "Content-Type": "application/json",
        # Wrong: a key of its own for each request. The PSP cannot know that it is the same payment.
        "Idempotency-Key": str(uuid.uuid4()),
    })
    try:
        with urlopen(request, timeout=PSP_TIMEOUT) as answer:
            return answer.status, json.load(answer)
    except HTTPError as answer:
        return answer.code, json.load(answer)
    except (OSError, ValueError):
        return 0, {}  # no answer: was it charged?


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            order = {"amountCents": order["amount"], "currency": order["currency"], "paymentMethod": order["token"]}
        except (KeyError, TypeError, ValueError):
            return self.answer(400, {"error": "the body is no payment"})
        # self.headers["Idempotency-Key"] is the client's key, and nobody stores it.
        status, said = charge(order)
        if status not in (201, 402):
            return self.answer(502, {"error": "the PSP did not say what happened"})
        self.answer(status, {"id": said["id"], "status": said["status"]})

    def answer(self, status, body):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
