"""Pays what comes on standard input, by the caller that is named: a line for each payment, and one for its outcome."""
import importlib
import json
import os
import sys

caller = importlib.import_module(sys.argv[1])


def say(**told):
    print(json.dumps(told), flush=True)


say(version=caller.VERSION)
for line in sys.stdin:
    token, key, body = line.rstrip("\n").split("\t")
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json", "Idempotency-Key": key}
    try:
        status, text = caller.pay(os.environ["URL"], headers, body)
        say(key=key, status=status, body=text)
    except Exception as error:  # whatever a caller's own program would see
        say(key=key, error=f"{type(error).__name__} {error}")
