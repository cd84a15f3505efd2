"""requests: it sends once."""
import requests

VERSION = requests.__version__
session = requests.Session()


def pay(url, headers, body):
    answer = session.post(url, data=body, headers=headers)
    return answer.status_code, answer.text
