package mockpsp

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

func (p *running) setDisorder(rates string) {
	p.t.Helper()
	p.putFaults(`{"webhooks":{`+rates+`}}`).want(p.t, http.StatusOK, "")
}

func TestDuplicatedWebhookIsSentTwiceUnderOneID(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	p.setDisorder(`"duplicate":1`)
	p.charge("key-1", "pm_ok")
	first, second := r.next(), r.next()
	if first.id() != second.id() || first.body != second.body || first.verify(t) != nil || second.verify(t) != nil {
		t.Errorf("not the same webhook twice: %v %v", first, second)
	}
	p.awaitWebhooks(0, 1, 0, 0)
	await(t, "both are noted", func() bool {
		tries := p.webhooks().Tries
		return len(tries) == 2 && tries[0].Disorder+tries[1].Disorder == disorderDuplicate
	})
}

// The end of a copy says nothing of its webhook.
func TestOnlyTheWebhookItselfIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(arrival) int { return http.StatusInternalServerError })
	p := setup(t, toldTo(r))
	p.setDisorder(`"duplicate":1`)
	p.charge("key-1", "pm_ok")
	p.awaitWebhooks(0, 0, 1, 0)
	await(t, "the copy is noted", func() bool { return len(p.webhooks().Tries) == 4 })
}

func TestReorderedWebhookIsHeldUntilALaterOneIsSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r, func(c *Config) { c.WebhookExtraDelay = time.Hour }))
	p.setDisorder(`"reorder":1`)
	p.charge("key-1", "pm_ok")
	p.charge("key-2", "pm_ok")
	p.setDisorder(``)
	p.charge("key-3", "pm_ok")
	if got := r.next().event(t).Data.IdempotencyKey; got != "key-3" {
		t.Errorf("%s came first", got)
	}
	p.awaitWebhooks(0, 3, 0, 0)
	for range 2 {
		if got := r.next(); got.verify(t) != nil {
			t.Errorf("got %s", got.body)
		}
	}
	if tries := p.webhooks().Tries; tries[0].Disorder != disorderReorder || tries[2].Disorder != "" {
		t.Errorf("tries: %+v", tries)
	}
}

func TestHeldAndDelayedWebhooksGoAfterABoundedTime(t *testing.T) {
	t.Parallel()
	const pause = 30 * time.Millisecond
	for rates, pauses := range map[string]time.Duration{`"reorder":1`: pause, `"delay":1`: pause,
		`"reorder":1,"delay":1`: 2 * pause} {
		r := newReceiver(t, receive204)
		p := setup(t, toldTo(r, func(c *Config) { c.WebhookExtraDelay = pause }))
		p.setDisorder(rates)
		began := time.Now()
		p.charge("key-1", "pm_ok")
		if took := r.next().at.Sub(began); took < pauses {
			t.Errorf("%s: sent after %v", rates, took)
		}
		if tries := p.awaitWebhooks(0, 1, 0, 0).Tries; tries[0].Disorder == "" {
			t.Errorf("%s: tries %+v", rates, tries)
		}
	}
}

func TestDroppedWebhookIsNeverSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r))
	p.setDisorder(`"drop":1,"duplicate":1,"forge":1,"reorder":1,"delay":1`)
	p.charge("key-1", "pm_ok")
	view := p.awaitWebhooks(0, 0, 0, 1)
	if len(view.Tries) != 1 || view.Tries[0].Disorder != disorderDrop || view.Tries[0].Status != 0 {
		t.Errorf("tries: %+v", view.Tries)
	}
	p.setDisorder(``)
	p.charge("key-2", "pm_ok")
	if got := r.next().event(t).Data.IdempotencyKey; got != "key-2" {
		t.Errorf("webhook of %s", got)
	}
}

func TestForgedWebhookComesBeforeTheTrueOne(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(a arrival) int {
		if a.event(t).Data.AmountCents != 1000 {
			return http.StatusUnauthorized
		}
		return http.StatusNoContent
	})
	p := setup(t, toldTo(r))
	p.setDisorder(`"forge":1`)
	p.charge("key-1", "pm_ok")
	forged, genuine := r.next(), r.next()
	if forged.event(t).Data.AmountCents != 1001 || forged.verify(t) == nil || forged.id() != genuine.id() {
		t.Errorf("forged: %+v", forged)
	}
	if genuine.event(t).Data.AmountCents != 1000 || genuine.verify(t) != nil {
		t.Errorf("genuine: %+v", genuine)
	}
	tries := p.awaitWebhooks(0, 1, 0, 0).Tries
	if len(tries) != 2 || tries[1].Disorder != disorderForge || tries[1].Status != 401 || tries[0].Disorder != "" {
		t.Errorf("tries: %+v", tries)
	}
}

func TestDisordersAreDrawnEachByItselfAndBySeed(t *testing.T) {
	t.Parallel()
	const draws = 4000
	count := func(seed uint64, rates map[string]float64) (alone map[string]int, both int) {
		d := newDisorderRates(rand.New(rand.NewPCG(seed, seed)))
		d.set(rates)
		alone = map[string]int{}
		for range draws {
			drawn := d.each()
			for name := range drawn {
				alone[name]++
			}
			if drawn[disorderDuplicate] && drawn[disorderForge] {
				both++
			}
		}
		return alone, both
	}
	all := map[string]float64{}
	for _, name := range disorderNames() {
		all[name] = 0.5
	}
	alone, both := count(1, all)
	for _, name := range disorderNames() {
		if got := alone[name]; got < draws*4/10 || got > draws*6/10 {
			t.Errorf("%s was drawn %d times", name, got)
		}
	}
	if both < draws/5 || both > draws*3/10 {
		t.Errorf("two of them were drawn together %d times", both)
	}
	same, _ := count(1, map[string]float64{"forge": 0.5})
	if same[disorderForge] != alone[disorderForge] || len(same) != 1 {
		t.Errorf("forged %d times alone, %d times among others", same[disorderForge], alone[disorderForge])
	}
}

// Chaos runs replay their faults from a seed, with or without disorder among the webhooks.
func TestDisorderDoesNotDisturbTheFaultsOfASeed(t *testing.T) {
	t.Parallel()
	run := func(disorders string) (faults []fault) {
		r := newReceiver(t, receive204)
		p := setup(t, toldTo(r, impatient(3)))
		p.setDisorder(disorders)
		p.putFaults(`{"rates":{"declined":0.3,"500_charged":0.3}}`)
		for i := range 30 {
			key := "key-" + string(rune('A'+i))
			p.charge(key, "pm_ok")
			faults = append(faults, p.calls(key).Requests[0].Fault)
		}
		return faults
	}
	calm, wild := run(``), run(`"duplicate":0.5,"drop":0.5`)
	for i := range calm {
		if calm[i] != wild[i] {
			t.Fatalf("call %d meets %s, and with disorder %s", i, calm[i], wild[i])
		}
	}
}

// Calls do not end in the order of their entries: a held one of them may have been overtaken already.
func TestReorderedWebhookIsNotHeldForWhatWasSentBefore(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, receive204)
	p := setup(t, toldTo(r, func(c *Config) { c.WebhookExtraDelay = time.Hour }))
	p.setDisorder(`"reorder":1`)
	first := p.psp.webhooks.Expect(&record{Entry: entry{ID: "ch_1"}})
	p.setDisorder(``)
	p.psp.webhooks.Expect(&record{Entry: entry{ID: "ch_2"}})()
	r.next()
	p.awaitWebhooks(1, 1, 0, 0)
	first()
	r.next()
	p.awaitWebhooks(0, 2, 0, 0)
}
