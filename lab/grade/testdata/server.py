#!/usr/bin/env python3
"""A small payment server in Python, for the grader's own tests. With BUG set, it has a bug.

It speaks as the profile "plain" says. It keeps its keys in SQLite, and so it never uses DATABASE_URL.
"""
import hashlib
import json
import os
import sqlite3
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUG = os.environ.get("BUG", "")
LEASE = 2.0  # seconds for which one request alone may execute a key
PSP_TIMEOUT = 1.0
FILE = os.path.join(os.environ.get("STATE") or tempfile.gettempdir(), "grade-" + hashlib.sha256(os.environ["DATABASE_URL"].encode()).hexdigest()[:16])
MEMORY = {}  # for the bug that keeps keys in the process


def database():
    db = sqlite3.connect(FILE, timeout=5, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, body TEXT, state TEXT, attempt INT, until REAL, status INT, answer TEXT)")
    return db


def psp(method, path, key, body=None):
    """Returns what the PSP says, or None if nobody knows whether it has done it."""
    request = urllib.request.Request(os.environ["PSP_URL"] + path, method=method, data=body and json.dumps(body).encode())
    request.add_header("Authorization", "Bearer " + os.environ["PSP_SECRET"])
    request.add_header("PSP-Account", "acme")
    request.add_header("Content-Type", "application/json")
    if method == "POST":
        request.add_header("Idempotency-Key", str(uuid.uuid4()) if BUG == "fresh-psp-key" else key)
    try:
        with urllib.request.urlopen(request, timeout=PSP_TIMEOUT) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        if error.code == 402:
            return 402, json.loads(error.read())
        return None
    except (OSError, ValueError):
        return None


def outcome(charge):
    """The status and the body that the client gets for a charge of the PSP."""
    if charge["status"] == "succeeded":
        return 201, json.dumps({"charge": charge["id"], "amount": charge["amountCents"]})
    return 402, json.dumps({"declined": charge["id"]})


def look_up(key):
    found = psp("GET", "/v1/charges?idempotencyKey=" + key, key)
    if found is None:
        return None, False
    data = found[1].get("data", [])
    return (data[0] if data else None), True


def pay(key, body):
    if BUG == "never-asks":
        return 201, '{"charge": "none"}'
    db = database()
    try:
        return pay_with(db, key, body)
    finally:
        db.close()


def pay_with(db, key, body):
    if BUG == "memory":
        if key in MEMORY:
            return MEMORY[key]
    elif BUG == "check-then-act":
        row = db.execute("SELECT status, answer FROM keys WHERE key = ?", (key,)).fetchone()
        if row:
            return row
    text = json.dumps(body, sort_keys=True)
    now = time.time()
    attempt = 1
    if BUG not in ("memory", "check-then-act"):
        new = db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?, 'busy', 1, ?, NULL, NULL)", (key, text, now + LEASE)).rowcount
        if not new:
            known, state, attempt, until, status, answer = db.execute(
                "SELECT body, state, attempt, until, status, answer FROM keys WHERE key = ?", (key,)).fetchone()
            if known != text and BUG != "other-payload":
                return 422, '{"error": "the key belongs to another request"}'
            if state == "done":
                return status, answer
            if BUG == "stuck" or (state == "busy" and until > now):
                return 409, '{"error": "in progress"}'
            took = db.execute("UPDATE keys SET state = 'busy', attempt = attempt + 1, until = ? WHERE key = ? AND attempt = ? AND state <> 'done'",
                              (now + LEASE, key, attempt)).rowcount
            if not took:
                return 409, '{"error": "in progress"}'
            attempt += 1
            if BUG != "blind-retry":
                charge, asked = look_up(key)
                if not asked:
                    return unknown(db, key, attempt)
                if charge:
                    return done(db, key, attempt, *outcome(charge))
    answer = psp("POST", "/v1/charges", key, {
        "amountCents": body["amount"], "currency": body["currency"], "paymentMethod": body["token"], "reference": key})
    if answer is None:
        if BUG == "timeout-is-failure":
            db.execute("DELETE FROM keys WHERE key = ?", (key,))
            return 502, '{"error": "the payment has failed, try again"}'
        if BUG == "timeout-is-decline":
            return done(db, key, attempt, 402, '{"declined": "timeout"}')
        if BUG == "timeout-is-paid":
            return done(db, key, attempt, 201, '{"charge": "unknown"}')
        return unknown(db, key, attempt)
    charge = answer[1] if answer[0] == 201 else {"status": "declined", "id": answer[1].get("id", "")}
    return done(db, key, attempt, *outcome(charge))


def unknown(db, key, attempt):
    if BUG == "no-fence":
        db.execute("UPDATE keys SET state = 'unknown' WHERE key = ?", (key,))
    elif BUG not in ("memory", "check-then-act"):
        db.execute("UPDATE keys SET state = 'unknown' WHERE key = ? AND attempt = ? AND state = 'busy'", (key, attempt))
    return 202, '{"status": "processing"}'


def done(db, key, attempt, status, answer):
    if BUG == "memory":
        MEMORY[key] = (status, answer)
        return status, answer
    if BUG == "check-then-act":
        db.execute("INSERT OR IGNORE INTO keys VALUES (?, '', 'done', 1, 0, ?, ?)", (key, status, answer))
        return status, answer
    if BUG == "no-fence":
        db.execute("UPDATE keys SET state = 'done', status = ?, answer = ? WHERE key = ?", (status, answer, key))
        return status, answer
    kept = db.execute("UPDATE keys SET state = 'done', status = ?, answer = ? WHERE key = ? AND attempt = ? AND state = 'busy'",
                      (status, answer, key, attempt)).rowcount
    if kept:
        return status, answer
    row = db.execute("SELECT status, answer FROM keys WHERE key = ? AND state = 'done'", (key,)).fetchone()
    return row or (202, '{"status": "processing"}')


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, answer = pay(self.headers["Idempotency-Key"], body)
        except sqlite3.OperationalError as error:
            status, answer = 503, json.dumps({"error": str(error)})
        if BUG.startswith("again-") and self.again():
            status, answer = int(BUG.removeprefix("again-")), '{"error": "the key is known"}'
        if BUG == "nonsense":
            status, answer = 200, "<html>welcome</html>"
            self.send_response(418)
        else:
            self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        try:
            self.wfile.write(answer.encode())
        except OSError:
            pass  # the client has gone

    def again(self):
        """Whether the key has come before."""
        try:
            open(FILE + "-" + self.headers["Idempotency-Key"], "x").close()
        except FileExistsError:
            return True
        return False

    def do_GET(self):
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


if BUG == "will-not-start":
    sys.exit("the licence has run out")
if BUG == "starts-once":
    ran = FILE + "-" + os.environ["PORT"]
    if os.path.exists(ran):
        sys.exit("I have run before")
    open(ran, "w").close()
Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
