#!/usr/bin/env bash
# A number of retries that repeats nothing: resty.dev/v3 v3.0.0-rc.4 (Go), beside github.com/go-resty/resty/v2 v2.17.2.
#
# Guess: SetRetryCount(3) repeats a GET after a 503 up to three times. A POST is repeated with
#   SetRetryAllowNonIdempotent(true).
# Seen: - v3 sends the GET once, with SetRetryCount(3) and also with the permission for a POST. The condition that is on
#     by default takes errors that call themselves temporary, which a lost answer does not, and no status. The call
#     returns no error either: a 503 is a response.
#   - With a condition for 503, the GET is repeated, and the POST with its body still once; both settings are needed.
#   - v2, with the same SetRetryCount(3), is the same for a 503, but repeats a POST whose answer was lost. v3 does not,
#     nor a GET. So an upgrade takes the retries of lost answers away, and no compiler says so.
# What follows: count the requests at a server of your own that fails twice. Retries that are configured may not be
#   there.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
go mod init example.test/shop 2>go.log
cat >main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	old "github.com/go-resty/resty/v2"
	"resty.dev/v3"
)

// count has a server fail twice, by a 503 or a lost answer, and counts the requests.
func count(lost bool, call func(url string) string) string {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case requests.Add(1) > 2:
			w.WriteHeader(http.StatusCreated)
		case lost:
			panic(http.ErrAbortHandler) // closes the connection
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	told := call(server.URL)
	return fmt.Sprintf("%d requests, told %s", requests.Load(), told)
}

func v3(method string, set func(*resty.Client)) func(string) string {
	return func(url string) string {
		c := resty.New().SetRetryCount(3)
		c.SetRetryWaitTime(10 * time.Millisecond).SetRetryMaxWaitTime(20 * time.Millisecond)
		defer c.Close()
		set(c)
		res, err := c.R().SetBody("amount=100").Execute(method, url)
		return told(err, func() int { return res.StatusCode() })
	}
}

func v2(url string) string {
	c := old.New().SetRetryCount(3).SetRetryWaitTime(10 * time.Millisecond).SetRetryMaxWaitTime(20 * time.Millisecond)
	c.SetLogger(quiet{})
	res, err := c.R().SetBody("amount=100").Post(url)
	return told(err, func() int { return res.StatusCode() })
}

func told(err error, status func() int) string {
	if err != nil {
		return "an error"
	}
	return fmt.Sprint(status())
}

type quiet struct{}

func (quiet) Errorf(string, ...any) {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}

func main() {
	nothing := func(*resty.Client) {}
	allow := func(c *resty.Client) { c.SetRetryAllowNonIdempotent(true) }
	on503 := func(c *resty.Client) {
		c.AddRetryConditions(func(r *resty.Response, _ error) bool { return r != nil && r.StatusCode() == 503 })
	}
	fmt.Println("v3, GET, 503, count:", count(false, v3("GET", nothing)))
	fmt.Println("v3, POST, 503, count and permission:", count(false, v3("POST", allow)))
	fmt.Println("v3, GET, 503, count and condition:", count(false, v3("GET", on503)))
	fmt.Println("v3, POST, 503, count and condition:", count(false, v3("POST", on503)))
	fmt.Println("v3, POST, 503, all three:", count(false, v3("POST", func(c *resty.Client) { allow(c); on503(c) })))
	fmt.Println("v3, GET, lost, count:", count(true, v3("GET", nothing)))
	fmt.Println("v3, POST, lost, count:", count(true, v3("POST", nothing)))
	fmt.Println("v3, POST, lost, count and permission:", count(true, v3("POST", allow)))
	fmt.Println("v2, POST, 503, count:", count(false, v2))
	fmt.Println("v2, POST, lost, count:", count(true, v2))
}
GO
go get resty.dev/v3@v3.0.0-rc.4 github.com/go-resty/resty/v2@v2.17.2 >>go.log 2>&1 && go mod tidy >>go.log 2>&1 ||
	{ cat go.log; exit 1; }

go run . 2>log | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
v3, GET, 503, count: 1 requests, told 503
v3, POST, 503, count and permission: 1 requests, told 503
v3, GET, 503, count and condition: 3 requests, told 201
v3, POST, 503, count and condition: 1 requests, told 503
v3, POST, 503, all three: 3 requests, told 201
v3, GET, lost, count: 1 requests, told an error
v3, POST, lost, count: 1 requests, told an error
v3, POST, lost, count and permission: 1 requests, told an error
v2, POST, 503, count: 1 requests, told 503
v2, POST, lost, count: 3 requests, told 201
SEEN
echo "as it was seen: a count alone repeats nothing"
