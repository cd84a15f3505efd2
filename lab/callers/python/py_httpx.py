"""httpx with retries=3, which are for connecting only: it sends once."""
import httpx

VERSION = httpx.__version__
client = httpx.Client(transport=httpx.HTTPTransport(retries=3), timeout=30)


def pay(url, headers, body):
    answer = client.post(url, content=body, headers=headers)
    return answer.status_code, answer.text
