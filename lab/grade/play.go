package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"payonce/lab/grade/judge"
	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
	"payonce/lab/grade/stand"
	"payonce/lab/invariants"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// player plays cases against the server, many at a time where they do not disturb each other.
type player struct {
	profile profile.Profile
	stand   *stand.Stand
	client  *http.Client

	mu      sync.Mutex
	amounts *rand.Rand
	used    map[int64]bool
	owners  map[int64]*performance // who is told of a call to the PSP, by its amount
	unclear map[string]int         // answers without a meaning in the profile
}

// Amounts are drawn from here, and no two payments have the same one. By its amount a charge is told apart, however the
// server names it at the PSP.
const (
	leastAmount = 1_00
	mostAmount  = 10_000_00
)

func newPlayer(p profile.Profile) *player {
	return &player{
		profile: p,
		client: &http.Client{
			// A new connection for each request: a broken one must not make the client send a request twice.
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		amounts: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), // new, not secret
		used:    map[int64]bool{}, owners: map[int64]*performance{}, unclear: map[string]int{},
	}
}

// arrived is told of each call to the PSP.
func (p *player) arrived(c httpproxy.Call) {
	if c.Name != stand.Charge {
		return
	}
	amount := amountOf(c)
	p.mu.Lock()
	owner := p.owners[amount]
	p.mu.Unlock()
	if owner != nil {
		owner.event("PSP", fmt.Sprintf("charge of %s asked for", money(amount)))
	}
}

func amountOf(c httpproxy.Call) int64 {
	var body struct {
		AmountCents int64 `json:"amountCents"`
	}
	_ = json.Unmarshal(c.Body, &body) // what is not a charge has none
	return body.AmountCents
}

func webhookAmount(c httpproxy.Call) int64 {
	var body struct {
		Data struct {
			AmountCents int64 `json:"amountCents"`
		} `json:"data"`
	}
	_ = json.Unmarshal(c.Body, &body)
	return body.Data.AmountCents
}

func money(minor int64) string { return fmt.Sprintf("%d.%02d USD", minor/100, minor%100) }

// performance is one case while it is played.
type performance struct {
	player *player
	run    judge.Run
	keys   []string
	lives  []int

	pausedAt time.Time

	mu       sync.Mutex
	closed   bool
	held     map[int]*httpproxy.Event // charges
	reports  map[int]*httpproxy.Event // webhooks
	done     map[int]string           // what others have made last at the PSP, by its id there
	pending  []sync.WaitGroup
	hangUp   []func() // by intent
	contexts []context.Context
}

// play plays a case. An error is one of the grader itself, or of the machine.
func (p *player) play(ctx context.Context, c plan.Case) (judge.Run, error) {
	f := &performance{player: p, run: judge.Run{Case: c, Unfollowed: map[int]string{}},
		held: map[int]*httpproxy.Event{}, reports: map[int]*httpproxy.Event{}, done: map[int]string{}}
	f.run.NotShown = p.notShown(c)
	if f.run.NotShown != "" {
		return f.run, nil
	}
	n := len(c.Intents)
	f.pending, f.hangUp = make([]sync.WaitGroup, n), make([]func(), n)
	f.contexts, f.lives = make([]context.Context, n), make([]int, n)
	p.mu.Lock()
	for i, intent := range c.Intents {
		key := uuid.NewString()
		if intent.SameKey > 0 {
			key = f.keys[intent.SameKey-1]
		}
		f.keys = append(f.keys, key)
		amount, other := p.amount(), p.amount()
		f.run.Amounts, f.run.Others = append(f.run.Amounts, amount), append(f.run.Others, other)
		p.owners[amount], p.owners[other] = f, f
		f.contexts[i], f.hangUp[i] = context.WithCancel(ctx)
	}
	p.mu.Unlock()
	err := f.play(ctx)
	return f.close(), err
}

// play does the steps, and reads what the PSP has charged.
func (f *performance) play(ctx context.Context) error {
	for _, s := range f.run.Case.Steps {
		if err := f.step(ctx, s); err != nil {
			f.doesNotServe(err)
			return err
		}
		if f.cannotBeShown() {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for i := range f.pending {
		f.pending[i].Wait()
	}
	f.quiet(ctx)
	ledger, err := f.player.stand.Ledger(ctx)
	if err != nil {
		return err
	}
	return f.player.setCharges(&f.run, ledger.Charges)
}

func (f *performance) cannotBeShown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run.NotShown != ""
}

// close waits for what is still under way. From then on, nothing is added to the run.
func (f *performance) close() judge.Run {
	f.letGo()
	for i := range f.pending {
		f.pending[i].Wait()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.run
}

// amount is one that nobody has, nor has had: the mock PSP of a server that runs may have an old ledger.
func (p *player) amount() int64 {
	for {
		amount := leastAmount + p.amounts.Int64N(mostAmount-leastAmount)
		if !p.used[amount] {
			p.used[amount] = true
			return amount
		}
	}
}

// notShown is why a case cannot be played with this server.
func (p *player) notShown(c plan.Case) string {
	s := p.stand
	switch ours := s.Ours(); {
	case c.NeedsTokens() && !p.profile.NamesToken():
		return "the profile does not name $TOKEN, which picks what goes wrong at the PSP"
	case !ours && c.Has(plan.Kill, plan.Pause, plan.Crash, plan.ShortLives):
		return "the server runs at a URL, so that it cannot be stopped"
	case !ours && c.Has(plan.HoldAnswer, plan.HoldRequest, plan.Reported, plan.Forge):
		return "the server runs at a URL, so that nothing stands between it and the PSP"
	case !ours && c.Has(plan.Disorder, plan.Silence, plan.RefundElsewhere, plan.Dispute):
		return "the server runs at a URL, and its PSP is left as it is"
	case c.Has(plan.Look) && p.profile.Read == nil:
		return "the profile has no read"
	case c.Has(plan.Disorder, plan.Silence, plan.Reported, plan.Forge) && p.profile.Webhooks == "":
		return "the profile has no webhooks"
	case c.Has(plan.Expire) && p.profile.Expiry == nil:
		return "the profile has no expiry"
	case c.Level == levelOthers && p.profile.Others == nil:
		return "the profile has no others"
	case c.NeedsTwo() && len(s.Servers) < 2: //nolint:mnd // the one that is stopped, and another one
		return "the profile has one instance, and nobody can take over from it"
	case c.Has(plan.Crash) && !s.UsesDatabase():
		return "the server has never connected to DATABASE_URL"
	case c.Level == levelTenants && len(p.profile.Tenants) < 2: //nolint:mnd // two tenants
		return "the profile has one tenant"
	}
	return ""
}

const levelTenants, levelOthers = 10, 11

// letGo releases what is still held, and closes what waits.
func (f *performance) letGo() {
	for _, e := range f.held {
		f.player.stand.Unhold(e)
	}
	for _, e := range f.reports {
		f.player.stand.UnholdWebhook(e)
	}
	for _, cancel := range f.hangUp {
		cancel()
	}
	f.player.mu.Lock()
	defer f.player.mu.Unlock()
	for i := range f.run.Amounts {
		delete(f.player.owners, f.run.Amounts[i])
		delete(f.player.owners, f.run.Others[i])
	}
}

func (f *performance) event(where, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return // a late call to the PSP
	}
	f.run.Events = append(f.run.Events, judge.Event{At: time.Now(), Where: where, Text: text})
}

// doesNotServe has a server that does not come up again break the promise that each key comes to an end.
func (f *performance) doesNotServe(err error) {
	if down, ok := errors.AsType[*world.NotServingError](err); ok {
		f.event("server", down.Error())
		for i := range f.run.Amounts {
			f.note(&f.run.NotFinal, i)
		}
	}
}

// charges is how often the PSP has charged a payment by now.
func (f *performance) charges(ctx context.Context, intent int) int {
	ledger, err := f.player.stand.Ledger(ctx)
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range ledger.Charges {
		if e.AmountCents == f.run.Amounts[intent] && e.Executed() {
			n++
		}
	}
	return n
}

// setCharges puts the charges of a run into it.
func (p *player) setCharges(run *judge.Run, entries []invariants.Entry) error {
	tenants := p.profile.Tenants
	run.Charges = nil
	for _, e := range entries {
		for i := range run.Amounts {
			if len(tenants) > 1 && e.Account != tenants[run.Case.Intents[i].Tenant].Name {
				continue // it was not this tenant's customer who has paid there
			}
			own := e.AmountCents == run.Amounts[i]
			if !own && e.AmountCents != run.Others[i] {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, e.CreatedAt)
			if err != nil {
				return fmt.Errorf("read the PSP's ledger: %w", err)
			}
			run.Charges = append(run.Charges, judge.Charge{At: at, ID: e.ID, Intent: i, Other: !own,
				Succeeded: e.Executed(), Amount: e.AmountCents})
		}
	}
	return nil
}
