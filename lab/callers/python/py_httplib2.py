"""httplib2: it sends what is lost a second time by itself, a POST too."""
import httplib2

VERSION = httplib2.__version__
client = httplib2.Http()


def pay(url, headers, body):
    answer, text = client.request(url, "POST", body=body, headers=headers)
    return answer.status, text.decode()
