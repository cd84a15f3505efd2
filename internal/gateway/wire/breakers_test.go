package wire

import (
	"context"
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

// fill takes places for an account until it would have to wait, and tells how many it got.
func (p *places) fill(account string) (got int) {
	for {
		turn := p.ask(account)
		if turn != nil {
			p.giveUp(account, turn)
			return got
		}
		got++
	}
}

func TestAccountHoldsAtMostHalfOfWhatIsFree(t *testing.T) {
	t.Parallel()
	for total, want := range map[int][]int{
		64:  {21, 14, 10, 6, 4, 3, 2, 1, 1, 1, 1, 0},
		3:   {1, 1, 1, 0},
		2:   {1, 1, 0},
		1:   {1, 0},
		300: {100, 67, 44},
	} {
		p := newPlaces(total)
		for i, most := range want {
			if got := p.fill(fmt.Sprint("account-", i)); got != most {
				t.Errorf("of %d places, account %d got %d, want %d", total, i, got, most)
			}
		}
		if p.taken() > total || len(p.accounts) > p.taken() {
			t.Errorf("of %d places %d are taken, by %d accounts", total, p.taken(), len(p.accounts))
		}
	}
}

// A place that is given back goes to an account that may have it. An account that waits because of its own share does
// not block the others.
func TestPlaceGoesToTheAccountThatHoldsTheFewest(t *testing.T) {
	t.Parallel()
	p := newPlaces(4)
	p.fill("greedy") // 1
	for _, other := range []string{"a", "b", "c"} {
		p.fill(other)
	}
	greedy, poor := p.ask("greedy"), p.ask("poor")
	if greedy == nil || poor == nil {
		t.Fatal("there are more than four places")
	}
	p.leave("a")
	if !p.giveUp("greedy", greedy) || p.giveUp("poor", poor) {
		t.Fatal("the place went to an account that holds one already")
	}
	for _, account := range []string{"greedy", "b", "c", "poor"} {
		p.leave(account)
	}
	if p.taken() != 0 || len(p.accounts) != 0 {
		t.Fatalf("%d places are taken, and %d accounts known", p.taken(), len(p.accounts))
	}
}

// Two accounts may take the place. It goes to the account that holds none, whatever the order of the map.
func TestAccountWithoutAPlaceComesBeforeOneThatHasOne(t *testing.T) {
	t.Parallel()
	for range 30 {
		p := newPlaces(8)
		p.fill("greedy") // 3
		for _, account := range []string{"acme", "globex"} {
			if p.ask(account) != nil {
				t.Fatalf("there is no place for %s", account)
			}
		}
		acme, globex := p.ask("acme"), p.ask("globex") // each waits for a second one
		p.leave("acme")
		if p.giveUp("acme", acme) || !p.giveUp("globex", globex) {
			t.Fatal("the place went to an account that holds one already")
		}
	}
}

func TestCallersOfOneAccountAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	p := newPlaces(1)
	p.fill("acme")
	first, second := p.ask("acme"), p.ask("acme")
	p.leave("acme")
	if third := p.ask("acme"); third == nil {
		t.Fatal("a newcomer has overtaken those who wait")
	}
	if p.giveUp("acme", first) || !p.giveUp("acme", second) {
		t.Fatal("the second has overtaken the first")
	}
}

// A place that comes at the very end of the wait is used or given back, and never lost.
func TestNoPlaceIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(3)
		const patience = time.Second
		for i := range 300 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*patience/4)
				defer cancel()
				leave, refusal := p.enter(ctx, fmt.Sprint("account-", i%5), patience)
				if refusal != "" {
					return
				}
				if n := p.taken(); n > 3 {
					t.Errorf("%d places are taken", n)
				}
				<-time.After(patience / 4) // fake time: it passes when all others wait
				leave()
			}()
		}
		synctest.Wait()
		<-time.After(300 * patience)
		if p.taken() != 0 || len(p.accounts) != 0 {
			t.Fatalf("%d places are taken, and %d accounts known", p.taken(), len(p.accounts))
		}
	})
}
