package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/internal/payments"
	"payonce/test/wait"
)

const ofDeliveries = `SELECT concat_ws(' ', count(*), sum(attempts), count(*) FILTER (WHERE delivered_at IS NOT NULL),
	count(*) FILTER (WHERE due_at IS NOT NULL)) FROM event_deliveries`

// wantDeliveries compares how many there are, their tries, how many are delivered, and how many are due again.
func (p *post) wantDeliveries(all, tries, delivered, due int) {
	p.t.Helper()
	p.want(fmt.Sprintf("%d %d %d %d", all, tries, delivered, due), ofDeliveries)
}

func verifies(t *testing.T, key []byte, s sent) bool {
	t.Helper()
	w, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		t.Fatal(err)
	}
	return w.Verify(s.body, s.header) == nil
}

func TestReceiverGetsTheEventSigned(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, nil)
	endpoint := p.endpoint("acme", server.URL+"/in")
	name := p.event("acme", "payment.succeeded")
	p.dispatch()
	p.deliver(endpoint)
	p.deliver(endpoint) // There is nothing more.
	server.wantRequests(t, 1)
	got := server.requests()[0]
	if !verifies(t, secret, got) || verifies(t, earlierSecret, got) {
		t.Errorf("the signature is %s", got.header)
	}
	kept, err := p.d.Books.Events(t.Context(), "acme", []payments.EventName{name})
	if err != nil {
		t.Fatal(err)
	}
	body, err := BodyOf(kept[name]).JSON()
	if err != nil || !bytes.Equal(body, got.body) {
		t.Errorf("the body is %s, want %s, %v", got.body, body, err)
	}
	for header, want := range map[string]string{"Webhook-Id": IDOf(name), "Content-Type": "application/json",
		"User-Agent": userAgent, "Accept-Encoding": ""} {
		if v := got.header.Get(header); v != want {
			t.Errorf("%s is %q, want %q", header, v, want)
		}
	}
	p.wantDeliveries(1, 1, 1, 0)
	p.want("204 0 f", `SELECT concat_ws(' ', d.last_status, w.failures, w.rest_until > payonce_now())
		FROM event_deliveries AS d, webhook_endpoints AS w`)
	if n := p.counted("payonce_event_deliveries_total", "delivered"); n != 1 {
		t.Errorf("%v deliveries were counted", n)
	}
}

// Until the end of a rotation, the merchant's server may know either secret.
func TestBothSecretsSignDuringARotation(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, nil)
	endpoint := p.endpoint("acme", server.URL)
	for i, until := range []string{"1 hour", "-1 second"} {
		p.exec("UPDATE webhook_endpoints SET previous_secret = $1, previous_until = payonce_now() + $2::text::interval",
			earlierSecret, until)
		p.events(1)
		p.deliver(endpoint)
		got := server.requests()[i]
		if !verifies(t, secret, got) || verifies(t, earlierSecret, got) != (i == 0) {
			t.Errorf("%s: the signature is %s", until, got.header)
		}
	}
}

// The signature is of the time of the try, and a receiver refuses an old one. The id and the body are the same.
func TestEachTryIsSignedAndSaysTheSame(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, answering(http.StatusInternalServerError))
	endpoint := p.endpoint("acme", server.URL)
	p.events(1)
	p.d.Now = func() time.Time { return time.Unix(1_900_000_000, 0) }
	p.deliver(endpoint)
	p.d.Now = func() time.Time { return time.Unix(1_900_000_100, 0) }
	p.exec("UPDATE event_deliveries SET due_at = payonce_now()")
	p.deliver(endpoint)
	server.wantRequests(t, 2)
	first, second := server.requests()[0], server.requests()[1]
	if first.header.Get("Webhook-Timestamp") != "1900000000" || second.header.Get("Webhook-Timestamp") != "1900000100" {
		t.Errorf("the times are of %s and %s", first.header, second.header)
	}
	if first.header.Get("Webhook-Id") != second.header.Get("Webhook-Id") || !bytes.Equal(first.body, second.body) {
		t.Error("the second try says something else")
	}
}

func TestOnlyAnAnswerOf2xxIsASuccess(t *testing.T) {
	t.Parallel()
	for status, delivered := range map[int]bool{200: true, 202: true, 204: true, 299: true, 301: false, 307: false,
		308: false, 400: false, 404: false, 429: false, 500: false, 503: false} {
		p := setup(t)
		server := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		})
		endpoint := p.endpoint("acme", server.URL+"/in")
		p.events(1)
		p.deliver(endpoint)
		server.wantRequests(t, 1) // A redirect is not followed.
		p.want(fmt.Sprintf("%d %t", status, delivered),
			"SELECT concat_ws(' ', last_status, (delivered_at IS NOT NULL)::text) FROM event_deliveries")
		p.want(fmt.Sprint(!delivered), "SELECT (failing_since IS NOT NULL AND failures = 1)::text FROM webhook_endpoints")
	}
}

// The answer is shown to people. It may be anything.
func TestAnswerIsReadToALimitAndMadeReadable(t *testing.T) {
	t.Parallel()
	p := setup(t)
	read := make(chan int, 1)
	server := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		for range 1 << 14 { // 64 MiB, if somebody reads it
			m, err := w.Write(bytes.Repeat([]byte("\x00\xff\u00e4\n"), 1<<10))
			if n += m; err != nil {
				break
			}
		}
		read <- n
	})
	endpoint := p.endpoint("acme", server.URL)
	p.events(1)
	p.deliver(endpoint)
	if n := wait.For(t, "the end of the answer", read); n > 32<<20 {
		t.Errorf("%d bytes of the answer were taken", n)
	}
	p.want("1000 1", `SELECT concat_ws(' ', char_length(last_answer), position(E'\uFFFDä\n' IN last_answer))
		FROM event_deliveries`)
}

// hanging is a receiver that does not answer before the test ends.
func hanging(t *testing.T) *receiver {
	t.Helper()
	over := make(chan struct{})
	server := receive(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(over) })
	return server
}

// It gets no more requests than were under way, so it costs one timeout. Later it gets one at a time.
func TestEndpointThatHangsCostsOneTimeout(t *testing.T) {
	t.Parallel()
	p := setup(t)
	p.d.Timeout = 50 * time.Millisecond
	server := hanging(t)
	endpoint := p.endpoint("acme", server.URL)
	p.events(2 * batchSize)
	p.deliver(endpoint)
	tried := p.count("SELECT sum(attempts) FROM event_deliveries")
	if tried < 1 || tried > atOnce {
		t.Fatalf("%d requests", tried)
	}
	p.want("no answer within 50ms", "SELECT max(last_error) FROM event_deliveries")
	p.want("1 t", `SELECT concat_ws(' ', failures, rest_until BETWEEN payonce_now() AND payonce_now() + interval '1 second')
		FROM webhook_endpoints`)
	p.deliver(endpoint)
	if n := p.count("SELECT sum(attempts) FROM event_deliveries"); n != tried+1 {
		t.Fatalf("%d requests more", n-tried)
	}
	p.want("2 t", `SELECT concat_ws(' ', failures, rest_until > payonce_now() + interval '1 second')
		FROM webhook_endpoints`)
	if n := p.counted("payonce_event_deliveries_total", "failed"); n != float64(tried+1) {
		t.Errorf("%v failures were counted", n)
	}
}

func TestManyAreDeliveredInOneRunAFewAtATime(t *testing.T) {
	t.Parallel()
	p := setup(t)
	var mu sync.Mutex
	now, most := 0, 0
	server := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		w.WriteHeader(http.StatusOK)
		mu.Lock()
		now--
		mu.Unlock()
	})
	endpoint := p.endpoint("acme", server.URL)
	p.events(2*batchSize + 1)
	p.deliver(endpoint)
	p.wantDeliveries(2*batchSize+1, 2*batchSize+1, 2*batchSize+1, 0)
	if most > atOnce {
		t.Errorf("%d requests at once", most)
	}
}

// A run that finds nothing more leaves the endpoint to the next job at once, also if its last batch was a full one, and
// if what was due has gone before it began.
func TestEndpointDoesNotRestWhenNothingIsDue(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, batchSize - 1, batchSize, 2 * batchSize} {
		p := setup(t)
		endpoint := p.endpoint("acme", receive(t, nil).URL)
		p.events(max(n, 1))
		if got := p.enqueued(); len(got) != 1 {
			t.Fatalf("%d: jobs for %v", n, got)
		}
		if n == 0 {
			p.exec("UPDATE event_deliveries SET due_at = NULL")
			p.exec("UPDATE webhook_endpoints SET failures = 1, failing_since = payonce_now(), last_failure = 'answered 500'")
		}
		p.deliver(endpoint)
		p.want(fmt.Sprint(n), "SELECT sum(attempts)::text FROM event_deliveries")
		if n == 0 { // It has not succeeded, either.
			p.want("1 t answered 500",
				"SELECT concat_ws(' ', failures, failing_since IS NOT NULL, last_failure) FROM webhook_endpoints")
		}
		p.events(1)
		if got := p.enqueued(); len(got) != 1 {
			t.Errorf("after a run with %d deliveries, the next event waits until the lease is over", n)
		}
	}
}

// Another process goes on at once.
func TestRunThatIsStoppedFreesItsEndpoint(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, nil)
	endpoint := p.endpoint("acme", server.URL)
	p.events(2 * batchSize)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	now := time.Now()
	p.d.Now = func() time.Time {
		if len(server.requests()) == batchSize {
			stop()
		}
		return now
	}
	if err := p.d.Deliver(ctx, "acme", endpoint); !errors.Is(err, context.Canceled) {
		t.Errorf("the run has ended with %v", err)
	}
	p.wantDeliveries(2*batchSize, batchSize, batchSize, batchSize)
	if got := p.enqueued(); len(got) != 1 {
		t.Error("what is left waits until the lease is over")
	}
}

// Otherwise a database in trouble would be asked again by each dispatch.
func TestRunThatCannotReadKeepsItsLease(t *testing.T) {
	t.Parallel()
	p := setup(t)
	endpoint := p.endpoint("acme", receive(t, nil).URL)
	p.events(1)
	p.enqueued()
	p.exec("ALTER TABLE event_deliveries RENAME TO event_deliveries_away")
	if err := p.d.Deliver(t.Context(), "acme", endpoint); err == nil {
		t.Error("a run that could read nothing has not failed")
	}
	p.want("true", "SELECT (rest_until > payonce_now())::text FROM webhook_endpoints")
}

// Then its worker is another endpoint's, and the next job goes on at once.
func TestRunEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	p := setup(t)
	began := time.Now()
	now := began
	p.d.Now = func() time.Time { return now }
	server := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		now = began.Add(longestRun)
		w.WriteHeader(http.StatusOK)
	})
	endpoint := p.endpoint("acme", server.URL)
	p.exec("UPDATE webhook_endpoints SET failures = 1, failing_since = payonce_now()") // one request at a time
	p.events(batchSize + 1)
	p.deliver(endpoint)
	p.wantDeliveries(batchSize+1, 1, 1, batchSize)
	p.want("true", `SELECT (rest_until <= payonce_now() AND failures = 0 AND failing_since IS NULL)::text
		FROM webhook_endpoints`)
}

// An endpoint that is going away says so by 410 (Standard Webhooks).
func TestEndpointThatIsGoneIsDisabled(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, answering(http.StatusGone))
	endpoint := p.endpoint("acme", server.URL)
	p.events(1)
	p.deliver(endpoint)
	p.want("the server has answered 410 Gone", "SELECT disabled_reason FROM webhook_endpoints WHERE disabled_at IS NOT NULL")
	p.exec("UPDATE event_deliveries SET due_at = payonce_now()")
	p.deliver(endpoint)
	server.wantRequests(t, 1)
	if n := p.counted("payonce_webhook_endpoints_disabled_total", ""); n != 1 {
		t.Errorf("%v were counted", n)
	}
	// It is enabled again. What has waited is delivered.
	p.exec("UPDATE webhook_endpoints SET disabled_at = NULL, disabled_reason = NULL")
	p.deliver(endpoint)
	server.wantRequests(t, 2)
}

func TestEndpointThatFailsForThreeDaysIsDisabled(t *testing.T) {
	t.Parallel()
	for failing, disabled := range map[string]bool{"71 hours 59 minutes": false, "72 hours": true} {
		p := setup(t)
		server := receive(t, answering(http.StatusBadGateway))
		endpoint := p.endpoint("acme", server.URL)
		p.events(1)
		p.exec("UPDATE webhook_endpoints SET failures = 20, failing_since = payonce_now() - $1::text::interval", failing)
		p.deliver(endpoint)
		p.want(fmt.Sprint(disabled), "SELECT (disabled_at IS NOT NULL)::text FROM webhook_endpoints")
		p.want("true", `SELECT (failing_since <= payonce_now() - $1::text::interval)::text FROM webhook_endpoints`, failing)
		if disabled {
			p.want("true", `SELECT (disabled_reason ~
				'^no delivery has succeeded since 20.*Z; the last one: answered 502$')::text FROM webhook_endpoints`)
		}
	}
}

// One event that the receiver cannot read does not disable an endpoint that takes the others.
func TestEndpointThatTakesSomethingIsNotDisabled(t *testing.T) {
	t.Parallel()
	p := setup(t)
	var mu sync.Mutex
	asked := 0
	server := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked > 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	endpoint := p.endpoint("acme", server.URL)
	p.events(2)
	p.exec("UPDATE webhook_endpoints SET failures = 20, failing_since = payonce_now() - interval '80 hours'")
	p.deliver(endpoint)
	p.wantDeliveries(2, 2, 1, 1)
	p.want("1 true", `SELECT concat_ws(' ', failures, (disabled_at IS NULL AND
		failing_since > payonce_now() - interval '1 minute')::text) FROM webhook_endpoints`)
}

func TestDeliveryIsTriedForThreeDays(t *testing.T) {
	t.Parallel()
	for age, due := range map[string]bool{"71 hours 59 minutes": true, "72 hours": false} {
		p := setup(t)
		server := receive(t, answering(http.StatusInternalServerError))
		endpoint := p.endpoint("acme", server.URL)
		p.events(1)
		p.exec("UPDATE event_deliveries SET attempts = 20, first_at = payonce_now() - $1::text::interval", age)
		p.deliver(endpoint)
		p.want(fmt.Sprint(due), `SELECT coalesce(due_at BETWEEN payonce_now() + interval '7 hours' AND
			payonce_now() + interval '8 hours', false)::text FROM event_deliveries`)
		given := p.counted("payonce_event_deliveries_total", "given_up")
		if (given == 1) == due {
			t.Errorf("%s: %v were counted as given up", age, given)
		}
	}
}

// An endpoint is disabled because of a delivery that has been tried for three days, too. When it is enabled again, this
// delivery is due at once, and one more failure does not end it.
func TestWhatWaitsAtADisabledEndpointIsTriedAsIfNew(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, answering(http.StatusServiceUnavailable))
	endpoint := p.endpoint("acme", server.URL)
	p.events(1)
	p.exec("UPDATE event_deliveries SET attempts = 20, first_at = payonce_now() - interval '80 hours'")
	p.exec("UPDATE webhook_endpoints SET failures = 20, failing_since = payonce_now() - interval '80 hours'")
	p.deliver(endpoint)
	p.want("true true", `SELECT concat_ws(' ', (w.disabled_at IS NOT NULL)::text,
		(d.due_at > payonce_now() + interval '6 hours')::text) FROM webhook_endpoints AS w, event_deliveries AS d`)
	if got := p.enqueued(); len(got) != 0 {
		t.Errorf("a job for a disabled endpoint: %v", got)
	}
	registry := &Registry{DB: p.d.DB}
	if _, _, err := registry.Enable(t.Context(), "acme", EndpointID(endpoint), ""); err != nil {
		t.Fatal(err)
	}
	if got := p.enqueued(); len(got) != 1 {
		t.Fatalf("jobs after it was enabled: %v", got)
	}
	p.deliver(endpoint)
	server.wantRequests(t, 2)
	p.want("1 true", `SELECT concat_ws(' ', attempts, (due_at < payonce_now() + interval '1 minute')::text)
		FROM event_deliveries`)
	p.exec("UPDATE webhook_endpoints SET rest_until = payonce_now()")
	if got := p.enqueued(); len(got) != 0 { // It waits for its time, as any other.
		t.Errorf("jobs after the next failure: %v", got)
	}
}

// A merchant hears how the last try has failed, until one succeeds. The operator's words have addresses of our network,
// and the merchant's have none.
func TestMerchantIsToldOfTheFailureAndNotOfOurNetwork(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	secure := httptest.NewTLSServer(answering(http.StatusNoContent))
	t.Cleanup(secure.Close)
	const inTime, soon = patience, 50 * time.Millisecond
	for name, c := range map[string]struct {
		url      string
		timeout  time.Duration
		merchant string
		operator string // is part of this
	}{
		"error":           {receive(t, answering(500)).URL, inTime, "answered 500", ""},
		"redirect":        {receive(t, answering(302)).URL, inTime, "answered 302: redirects are not followed", ""},
		"no answer":       {hanging(t).URL, soon, "no answer within 50ms", "no answer within 50ms"},
		"no server":       {closed.URL, inTime, "connection failed", "127.0.0.1"},
		"own certificate": {secure.URL, inTime, "certificate refused", "certificate"},
	} {
		p := setup(t)
		p.d.Timeout = c.timeout
		endpoint := p.endpoint("acme", c.url)
		p.events(1)
		p.exec("UPDATE webhook_endpoints SET failures = 20, failing_since = payonce_now() - interval '80 hours'")
		p.deliver(endpoint)
		if e, err := p.operators().Endpoint(t.Context(), "acme", EndpointID(endpoint)); err != nil ||
			e.LastFailure != c.merchant || !strings.HasSuffix(e.DisabledReason, "; the last one: "+c.merchant) {
			t.Errorf("%s: it is %+v, %v", name, e, err)
		}
		p.want("true", "SELECT (coalesce(last_error, '') LIKE '%' || $1 || '%')::text FROM event_deliveries", c.operator)
	}
}

// A name that only our network knows is refused by its address. It is as a name that nobody knows.
func TestMerchantDoesNotLearnWhichNamesOurNetworkKnows(t *testing.T) {
	t.Parallel()
	server, _ := counting(t)
	known := get(t, Addresses{AllowHTTP: true}, strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	unknown := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x.internal", IsNotFound: true}}
	const want = "name not found, or its address is not reachable from the internet"
	if a, b := failureOf(known), failureOf(unknown); a != want || b != want {
		t.Errorf("of a name that is known (%v): %q; of another: %q", known, a, b)
	}
}

func TestLastFailureIsToldUntilOneSucceeds(t *testing.T) {
	t.Parallel()
	p := setup(t)
	var status atomic.Int64
	server := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	endpoint := p.endpoint("acme", server.URL)
	for _, c := range []struct {
		status int64
		want   string
	}{{500, "answered 500"}, {503, "answered 503"}, {204, ""}, {502, "answered 502"}} {
		p.events(1)
		p.exec("UPDATE event_deliveries SET due_at = payonce_now() WHERE due_at IS NOT NULL")
		status.Store(c.status)
		p.deliver(endpoint)
		p.want(c.want, "SELECT coalesce(last_failure, '') FROM webhook_endpoints")
	}
	if _, _, err := p.operators().Enable(t.Context(), "acme", EndpointID(endpoint), ""); err != nil {
		t.Fatal(err)
	}
	p.want("answered 502", "SELECT last_failure FROM webhook_endpoints") // It was enabled, so nothing was changed.
	p.exec("UPDATE webhook_endpoints SET disabled_at = payonce_now(), disabled_reason = 'test'")
	if _, _, err := p.operators().Enable(t.Context(), "acme", EndpointID(endpoint), ""); err != nil {
		t.Fatal(err)
	}
	p.want("true", "SELECT (last_failure IS NULL)::text FROM webhook_endpoints")
}

// A merchant asks for an event once more, while it is being delivered. It is sent once more.
func TestDeliveryThatIsAskedForMeanwhileIsSentAgain(t *testing.T) {
	t.Parallel()
	p := setup(t)
	var once sync.Once
	server := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { p.exec("UPDATE event_deliveries SET due_at = payonce_now(), attempts = 0, first_at = NULL") })
		w.WriteHeader(http.StatusOK)
	})
	endpoint := p.endpoint("acme", server.URL)
	p.events(1)
	p.deliver(endpoint)
	p.wantDeliveries(1, 0, 0, 1)
	p.deliver(endpoint)
	p.wantDeliveries(1, 1, 1, 0)
	server.wantRequests(t, 2)
}

func TestOutcomeThatIsLostIsSentAgain(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, nil)
	endpoint := p.endpoint("acme", server.URL)
	p.events(1)
	over := p.failOn("UPDATE", "event_deliveries")
	if err := p.d.Deliver(t.Context(), "acme", endpoint); err == nil {
		t.Fatal("there was no trouble")
	}
	over()
	p.deliver(endpoint)
	p.wantDeliveries(1, 1, 1, 0)
	server.wantRequests(t, 2)
	if a, b := server.requests()[0], server.requests()[1]; !bytes.Equal(a.body, b.body) {
		t.Errorf("%s, then %s", a.body, b.body)
	}
}

// A process that ends gives up its requests. The receiver has not failed, and what was answered before is written.
func TestEndOfTheProcessIsNoFailure(t *testing.T) {
	t.Parallel()
	p := setup(t)
	ctx, end := context.WithCancel(t.Context())
	var mu sync.Mutex
	asked := 0
	server := receive(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		last := asked == 2
		mu.Unlock()
		if last {
			end()
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	endpoint := p.endpoint("acme", server.URL)
	p.events(3)
	p.exec("UPDATE webhook_endpoints SET failures = 1, failing_since = payonce_now()") // one request at a time
	if err := p.d.Deliver(ctx, "acme", endpoint); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	p.wantDeliveries(3, 1, 1, 2)
	p.want("0 t", "SELECT concat_ws(' ', failures, rest_until <= payonce_now()) FROM webhook_endpoints")
}

// What a merchant changes applies to the next batch.
func TestNothingMoreGoesToAnEndpointThatIsOver(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		"disabled_at = payonce_now(), disabled_reason = 'test'", "deleted_at = payonce_now()",
	} {
		p := setup(t)
		server := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			p.exec("UPDATE webhook_endpoints SET " + change)
			w.WriteHeader(http.StatusOK)
		})
		endpoint := p.endpoint("acme", server.URL)
		p.events(batchSize + 1)
		p.deliver(endpoint)
		server.wantRequests(t, batchSize)
		p.want("true", "SELECT (rest_until < payonce_now())::text FROM webhook_endpoints") // Its row is left alone.
	}
}

// A delivery may be older than its event, which a backup does not have, or the pruner has deleted.
func TestDeliveryWithoutItsEventIsGivenUp(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, nil)
	endpoint := p.endpoint("acme", server.URL)
	p.events(1)
	p.exec("DELETE FROM events")
	p.exec("UPDATE webhook_endpoints SET failures = 3, failing_since = payonce_now()")
	p.deliver(endpoint)
	server.wantRequests(t, 0)
	p.want("the event is not kept any more", "SELECT last_error FROM event_deliveries WHERE due_at IS NULL")
	p.want("3 f", "SELECT concat_ws(' ', failures, failing_since IS NULL) FROM webhook_endpoints") // It has not answered.
}

// A URL was registered, and then the settings have changed.
func TestURLIsCheckedAgainWhenItIsUsed(t *testing.T) {
	t.Parallel()
	for want, allowed := range map[string]Addresses{
		"write a URL that begins with https://":                                         {Allow: loopback},
		"write the name or the address of a server that is reachable from the internet": {AllowHTTP: true},
	} {
		p := setup(t)
		p.d.Addresses = allowed
		server := receive(t, nil)
		endpoint := p.endpoint("acme", server.URL)
		p.events(1)
		p.deliver(endpoint)
		server.wantRequests(t, 0)
		p.want("the URL is not allowed any more: "+want, "SELECT last_error FROM event_deliveries WHERE attempts = 1")
		p.want("the URL is not allowed any more", "SELECT last_failure FROM webhook_endpoints")
	}
}

func TestWaitsGrowAndAreSpread(t *testing.T) {
	t.Parallel()
	var total time.Duration
	for attempts := range int32(20) {
		wait := waitAfter(attempts, 0)
		if early := waitAfter(attempts, 0.999); early < wait*8/10 || early >= wait {
			t.Errorf("after %d attempts: %s to %s", attempts, early, wait)
		}
		total += wait
	}
	if waitAfter(0, 0) != 5*time.Second || waitAfter(100, 0) != 8*time.Hour || total < 72*time.Hour {
		t.Errorf("the first wait is %s, the last one %s, all together %s", waitAfter(0, 0), waitAfter(100, 0), total)
	}
	var rests []time.Duration
	for _, failures := range []int32{0, 1, 8, 9, 1 << 30} {
		rests = append(rests, restAfter(failures, 0))
	}
	want := []time.Duration{time.Second, 2 * time.Second, 256 * time.Second, longestRest, longestRest}
	if !slices.Equal(rests, want) {
		t.Errorf("rests are %s, want %s", rests, want)
	}
}

func TestTextsAreOfTheirLength(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "abc": "abc", "abcdef": "abcd", "ääääa": "ääää",
		"a\x00b": "ab", "a\xffb": "a\uFFFDb", strings.Repeat("\x00", 9) + "abcde": "abcd"} {
		if got := cut(text, 4); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
