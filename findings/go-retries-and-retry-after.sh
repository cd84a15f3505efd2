#!/usr/bin/env bash
# What two retrying transports make of Retry-After: github.com/failsafe-go/failsafe-go v0.9.8 (failsafehttp) and
# github.com/hashicorp/go-retryablehttp v0.7.8 (Go).
#
# Guess: Retry-After is honoured in both forms that HTTP has, seconds and a date. A client's own maximum for a wait
#   holds also for what a server asks for.
# Seen: - failsafehttp honours whole seconds. A date in two seconds, the other form of the standard, is not read: all
#     three requests are sent at once.
#   - retryablehttp honours both, and its RetryWaitMax does not bound them: with a maximum of 0.2 s it waits the two
#     seconds that the server asked for, so what bounds a call is the server's word. (The request's own context does end
#     the wait.)
# What follows: as a server, ask in whole seconds, and for few of them. As a client of retryablehttp, give each request
#   a context with a deadline.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
go mod init example.test/shop 2>go.log
cat >main.go <<'GO'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
)

func seconds() string { return "2" }
func date() string    { return time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat) } // has no fractions

func main() {
	own := retryablehttp.NewClient()
	own.Logger, own.RetryWaitMin, own.RetryWaitMax = nil, 100*time.Millisecond, 200*time.Millisecond
	clients := []struct {
		name string
		*http.Client
	}{
		{"failsafehttp", &http.Client{
			Transport: failsafehttp.NewRoundTripper(nil, failsafehttp.NewRetryPolicyBuilder().Build()),
		}},
		{"retryablehttp, at most 0.2 s", own.StandardClient()},
	}
	for _, client := range clients {
		for form, ask := range map[string]func() string{"seconds": seconds, "a date": date} {
			fmt.Printf("%s, Retry-After as %s: %s\n", client.name, form, call(client.Client, ask))
		}
	}
}

// call has a server that is busy for two requests, and tells how long the client waited between its requests.
func call(client *http.Client, retryAfter func() string) string {
	var mu sync.Mutex
	var at []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		if len(at) > 2 {
			w.WriteHeader(http.StatusCreated)
			return
		}
		w.Header().Set("Retry-After", retryAfter())
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	res, err := client.Post(server.URL, "text/plain", strings.NewReader("amount=100"))
	if err != nil {
		return err.Error()
	}
	res.Body.Close()
	waits := ""
	for i := range at[1:] {
		switch wait := at[i+1].Sub(at[i]); {
		case wait < 100*time.Millisecond:
			waits += " at once,"
		case wait > 1900*time.Millisecond:
			waits += " after 2 s or more,"
		default:
			waits += " " + wait.String()
		}
	}
	return fmt.Sprintf("%d requests, back%s told %d", len(at), waits, res.StatusCode)
}
GO
go get github.com/failsafe-go/failsafe-go@v0.9.8 github.com/hashicorp/go-retryablehttp@v0.7.8 >>go.log 2>&1 &&
	go mod tidy >>go.log 2>&1 || { cat go.log; exit 1; }

go run . | sort | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
failsafehttp, Retry-After as a date: 3 requests, back at once, at once, told 201
failsafehttp, Retry-After as seconds: 3 requests, back after 2 s or more, after 2 s or more, told 201
retryablehttp, at most 0.2 s, Retry-After as a date: 3 requests, back after 2 s or more, after 2 s or more, told 201
retryablehttp, at most 0.2 s, Retry-After as seconds: 3 requests, back after 2 s or more, after 2 s or more, told 201
SEEN
echo "as it was seen: a date is not read by one, and the maximum does not hold for the other"
