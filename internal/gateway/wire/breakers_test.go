package wire

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"payonce/internal/gateway"
)

func testBreakers(most int) *breakers {
	return newBreakers(gateway.Limits{BreakerFailures: 2, BreakerOpen: time.Minute}, time.Now, most)
}

// request makes one request of an account, and reports whether it was healthy.
func (b *breakers) request(t *testing.T, account string, healthy bool) {
	t.Helper()
	report, ok := b.allow(account)
	if !ok {
		t.Fatalf("%s is refused", account)
	}
	report(healthy)
}

func (b *breakers) trip(t *testing.T, account string) {
	t.Helper()
	for range b.limits.BreakerFailures {
		b.request(t, account, false)
	}
	if !b.open(account) {
		t.Fatalf("the breaker of %s is closed", account)
	}
}

func TestAccountsWithoutFailuresTakeNoRoom(t *testing.T) {
	t.Parallel()
	b := testBreakers(3)
	for i := range 100 {
		b.request(t, fmt.Sprint("account-", i), true)
	}
	b.request(t, "acme", false)
	if len(b.byAccount) != 1 {
		t.Fatalf("%d breakers, want that of acme", len(b.byAccount))
	}
	b.request(t, "acme", true)
	if len(b.byAccount) != 0 {
		t.Fatal("a success does not end the row of failures")
	}
}

// While a request is under way, its breaker stays: what comes of it counts.
func TestBreakerThatIsInUseIsKept(t *testing.T) {
	t.Parallel()
	b := testBreakers(1)
	report, _ := b.allow("acme")
	b.request(t, "globex", false) // finds no room
	report(false)
	b.request(t, "acme", false)
	if !b.open("acme") || b.open("globex") {
		t.Fatalf("acme %t, globex %t", b.open("acme"), b.open("globex"))
	}
}

// However many accounts fail, an open breaker stays open, and the map stays small. Who finds no room is not refused for
// it.
func TestOpenBreakerIsNeverEvicted(t *testing.T) {
	t.Parallel()
	b := testBreakers(3)
	for i := range b.most {
		b.trip(t, fmt.Sprint("bad-", i))
	}
	for i := range 100 {
		account := fmt.Sprint("flood-", i)
		for range 5 {
			b.request(t, account, false)
		}
		if b.open(account) || len(b.byAccount) > b.most {
			t.Fatalf("%s is refused: %t; %d breakers", account, b.open(account), len(b.byAccount))
		}
	}
	for i := range b.most {
		if !b.open(fmt.Sprint("bad-", i)) {
			t.Fatalf("breaker %d has been closed by others' failures", i)
		}
	}
}

// A closed breaker makes room before one that has been open, and the one longest out of use before the others.
func TestWhatStopsNobodyMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := testBreakers(3)
		b.trip(t, "half-open")
		<-time.After(2 * b.limits.BreakerOpen) // fake time
		b.trip(t, "open")
		b.request(t, "closed", false)
		b.trip(t, "next")
		if b.byAccount["closed"] != nil || b.byAccount["half-open"] == nil || b.byAccount["open"] == nil {
			t.Fatalf("kept are %v", b.byAccount)
		}
		b.request(t, "last", false)
		if b.byAccount["half-open"] != nil || !b.open("open") || !b.open("next") || b.byAccount["last"] == nil {
			t.Fatalf("kept are %v", b.byAccount)
		}
	})
}

// The more accounts there are, the less may the order of a map decide whose failures are forgotten.
func TestOfManyTheOneLongestOutOfUseMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each = 20
		b := testBreakers(2 * each)
		for i := range each {
			b.trip(t, fmt.Sprint("half-open-", i))
			<-time.After(time.Second) // fake time
		}
		<-time.After(b.limits.BreakerOpen)
		for i := range each {
			b.request(t, fmt.Sprint("closed-", i), false)
			<-time.After(time.Second)
		}
		for _, kind := range []string{"closed-", "half-open-"} {
			for i := range each {
				b.trip(t, fmt.Sprint("next-", kind, i)) // and is open, so it makes no room itself
				if gone := fmt.Sprint(kind, i); b.byAccount[gone] != nil || len(b.byAccount) != b.most {
					t.Fatalf("%s is still among %d", gone, len(b.byAccount))
				}
			}
		}
	})
}

// A success that comes while another request is under way does not separate that request from its account.
func TestFailureOfARequestThatIsStillUnderWayCounts(t *testing.T) {
	t.Parallel()
	b := testBreakers(3)
	first, _ := b.allow("acme")
	second, _ := b.allow("acme")
	first(true)
	second(false)
	b.request(t, "acme", false)
	if !b.open("acme") {
		t.Fatal("two failures in a row have not opened the breaker")
	}
}
