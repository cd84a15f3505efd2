package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// What the PSP says about another tenant's charge is evidence for an operator, and nobody else's to read.
func TestContradictionAboutAnotherTenantStaysOutOfTheTimeline(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var first []byte
	w := setup(t, func(o *options) {
		o.between = func(psp http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				psp.ServeHTTP(rec, r)
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = rec.Body.Bytes()
				}
				rw.WriteHeader(rec.Code)
				_, _ = rw.Write(first)
			})
		}
	})
	const theirs = "globex-secret-key-0001"
	w.do(call{method: "POST", path: "/payments", as: globexKey, key: theirs, body: order("pm_ok")}).expect(t,
		http.StatusCreated, "")
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	if shown := w.inspect(key, ""); strings.Contains(string(shown.body), "globex") {
		t.Errorf("acme reads of globex: %s", shown.body)
	}
	if n := w.count("SELECT count(*) FROM dead_letters WHERE key = $1 AND evidence::text LIKE '%globex%'",
		key); n != 1 {
		t.Errorf("%d dead letters hold the evidence, want 1", n)
	}
}

// A client that closes its half of the connection looks gone to the server, and still reads.
func TestHalfClosedClientIsNotToldThatAllIsWell(t *testing.T) {
	t.Parallel()
	w, g, key, owner := heldPayment(t, "pm_ok")
	for _, prefer := range []string{"wait=2", "respond-async"} {
		for _, key := range []string{key, freshKey()} {
			method := "pm_ok"
			if answer := w.halfClosed(key, prefer, order(method)); strings.HasPrefix(answer, "HTTP/1.1 200") {
				t.Errorf("a payment was answered %q", answer)
			}
		}
	}
	g.open()
	(<-owner).expect(t, http.StatusCreated, "")
}

// halfClosed sends a payment, closes its half, and reads what comes.
func (w *world) halfClosed(key, prefer, body string) string {
	w.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.api.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn,
		"POST /payments HTTP/1.1\r\nHost: payonce.test\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\nPrefer: %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", acmeKey, key, prefer, len(body), body)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		w.t.Fatal(err)
	}
	// The payment that is stopped at the PSP is answered later than anybody waits here.
	_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// Another version of the program, with the same verdict, has stored other bytes while our commit was in doubt.
func TestOwnerOfACommitInDoubtAnswersWhatIsStored(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	key := freshKey()
	inDoubt := proxy.On("CompleteKeys", pgproxy.HoldBefore)
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	inDoubt.Await(t)
	_ = pgtest.Value[string](t, w.db, `UPDATE payments SET status = 'succeeded', psp_charge_id = 'ch_stored'
		WHERE idempotency_key = $1 RETURNING id::text`, key)
	shown := w.do(call{method: "GET", path: "/payments"})
	stored := shown.body[bytes.IndexByte(shown.body, '[')+1 : bytes.LastIndexByte(shown.body, ']')]
	location := "/payments/" + reply{body: stored}.text(t, "paymentId")
	w.exec(`UPDATE idempotency_keys SET status = 'completed', locked_until = NULL, finished_at = payonce_now(), response_status = 201,
		response_content_type = 'application/json', response_location = $2, response_schema_version = 2, response_body = $3 WHERE key = $1`, key, location, stored)
	inDoubt.CutClients()
	live := <-answer
	live.expect(t, http.StatusCreated, "")
	w.pay(key, "pm_ok").same(t, live)
	if !bytes.Equal(live.body, stored) {
		t.Fatalf("the owner answers %s, stored is %s", live.body, stored)
	}
}

// A client that has hung up before the reservation wants no payment any more. A client that hangs up after it cannot be
// told from a client that waits.
func TestClientThatIsGoneBeforeTheReservationLeavesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	key := freshKey()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(order("pm_ok")))
	r.Header.Set("Authorization", "Bearer "+acmeKey)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	func() {
		defer func() { _ = recover() }() // the connection is cut
		w.app.Public.ServeHTTP(httptest.NewRecorder(), r)
	}()
	if n := w.count("SELECT count(*) FROM idempotency_keys WHERE key = $1", key); n != 0 ||
		w.pspRequests("acme", key) != 0 {
		t.Fatalf("%d keys reserved, PSP asked %d times", n, w.pspRequests("acme", key))
	}
}
