#!/usr/bin/env bash
# A POST that nobody asked to repeat: Python's httplib2 0.20.4, wget 1.21.3 and Apache HttpClient 5.2.1 (Java), all of
# Debian 12, on their defaults.
#
# Guess: a client repeats GET by itself, and never a POST, because the server may have executed it. A setting that
#   repeats a POST has to be switched on. HttpClient 4.5 was so.
# Seen: - httplib2 sends a POST whose connection was closed without an answer a second time at once. If the second
#     answer arrives, the program hears of nothing.
#   - wget --post-data repeats such a POST after 1, 2, 3 … seconds, up to twenty times, and prints the last answer.
#   - HttpClient 5 repeats a POST after 503 and 429, when Retry-After says so. It does not repeat a lost one.
#   - None of the three makes a key, and none says afterwards that it has sent more than one request.
# What follows: a server that takes money demands a key. Set httplib2.RETRIES = 1, wget --tries=1,
#   disableAutomaticRetries().
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download python3-httplib2=0.20.4-3+deb12u1 python3-pyparsing=3.0.9-1 wget=1.21.3-1+deb12u1 \
	libhttpclient5-java=5.2.1-1 libhttpcore5-java=5.2.1-1 libslf4j-java=1.7.32-1 >apt.log 2>&1 || { cat apt.log; exit 1; }
for package in *.deb; do dpkg -x "$package" packages; done
jars=packages/usr/share/java

cat >server.py <<'PY'
# Answers the first request of each path with what the path says, and the next ones of that path with 201.
import collections, http.server, socket, sys
seen = collections.Counter()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get('Content-Length', 0)))
        seen[self.path] += 1
        first = seen[self.path] <= int(self.path.split('/')[3])
        if first and self.path.split('/')[2] == 'lost':
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(int(self.path.split('/')[2]) if first else 201)
        self.send_header('Retry-After', '1')
        self.send_header('Content-Length', '0')
        self.end_headers()
    def do_GET(self):
        body = str(seen[self.path]).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
/usr/bin/python3 server.py >port 2>server.log &
server=$!
trap 'kill "$server"; rm -rf "$work"' EXIT
until [[ -s port ]]; do sleep 0.1; done
url=http://127.0.0.1:$(cat port)

cat >pay.py <<'PY'
import sys, httplib2
print(httplib2.Http().request(sys.argv[1], 'POST', body='amount=100')[0].status)
PY
cat >Pay.java <<'JAVA'
import org.apache.hc.client5.http.classic.methods.HttpPost;
import org.apache.hc.client5.http.impl.classic.HttpClients;
import org.apache.hc.core5.http.io.entity.StringEntity;

public class Pay {
    public static void main(String[] args) throws Exception {
        try (var client = HttpClients.createDefault()) {
            var post = new HttpPost(args[0]);
            post.setEntity(new StringEntity("amount=100"));
            int status = client.execute(post, answer -> answer.getCode());
            System.out.println(status);
        } catch (java.io.IOException e) {
            System.out.println(e.getClass().getSimpleName());
        }
    }
}
JAVA

with_httplib2() { PYTHONPATH=packages/usr/lib/python3/dist-packages /usr/bin/python3 pay.py "$1"; }
with_wget() { packages/usr/bin/wget -q -S -O answer --post-data amount=100 "$1" 2>&1 | awk '/^ *HTTP\// { print $2 }'; }
with_httpclient5() {
	java -cp "$jars/httpclient5.jar:$jars/httpcore5.jar:$jars/httpcore5-h2.jar:$jars/slf4j-api.jar" Pay.java "$1"
}
try() { # a client, how the server fails, and how many times
	local told
	told=$("with_$1" "$url/$1/$2/$3" 2>errors) || told=nothing
	echo "$1, $2 $3 times: $(curl -s "$url/$1/$2/$3") requests, told $told"
}
{
	try httplib2 lost 1
	try httplib2 503 1
	try wget lost 1
	try wget lost 3
	try wget 503 1
	try httpclient5 lost 1
	try httpclient5 503 1
	try httpclient5 429 1
	try httpclient5 500 1
} | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
httplib2, lost 1 times: 2 requests, told 201
httplib2, 503 1 times: 1 requests, told 503
wget, lost 1 times: 2 requests, told 201
wget, lost 3 times: 4 requests, told 201
wget, 503 1 times: 1 requests, told nothing
httpclient5, lost 1 times: 1 requests, told NoHttpResponseException
httpclient5, 503 1 times: 2 requests, told 201
httpclient5, 429 1 times: 2 requests, told 201
httpclient5, 500 1 times: 1 requests, told 500
SEEN
echo "as it was seen: a POST is sent again without a key"
