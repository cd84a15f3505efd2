"""http.client: it sends once."""
import http.client
import platform
import urllib.parse

VERSION = platform.python_version()
connections = {}


def pay(url, headers, body):
    host = urllib.parse.urlsplit(url).netloc
    connection = connections.setdefault(host, http.client.HTTPConnection(host))
    try:
        connection.request("POST", urllib.parse.urlsplit(url).path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except Exception:
        connection.close()
        raise
