package wire

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

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
