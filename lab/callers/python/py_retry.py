"""requests with urllib3's Retry, which repeats a POST only when told to, and most answers only when they are named."""
import os

import requests
import urllib3
from requests.adapters import HTTPAdapter

VERSION = f"{requests.__version__}, urllib3 {urllib3.__version__}"
retry = urllib3.Retry(total=3, backoff_factor=0.2, allowed_methods=["POST"])
if os.environ.get("SET"):
    # Without the last setting, the last answer becomes an exception that has no status.
    retry = retry.new(total=5, status_forcelist=[409, 429, 500, 502, 503, 504], raise_on_status=False)
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=retry))


def pay(url, headers, body):
    answer = session.post(url, data=body, headers=headers)
    return answer.status_code, answer.text
