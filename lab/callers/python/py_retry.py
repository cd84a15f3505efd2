"""requests with urllib3's Retry, which repeats a POST only when told to, and an answer only when its status is named."""
import requests
import urllib3
from requests.adapters import HTTPAdapter

VERSION = f"{requests.__version__}, urllib3 {urllib3.__version__}"
retry = urllib3.Retry(total=3, backoff_factor=0.2, allowed_methods=["POST"], status_forcelist=[409, 429, 500, 502, 503, 504])
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=retry))


def pay(url, headers, body):
    answer = session.post(url, data=body, headers=headers)
    return answer.status_code, answer.text
