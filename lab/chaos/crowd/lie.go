package crowd

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"payonce/lab/program"
)

// lie is a decision that must be refused.
type lie struct {
	what     string
	decision map[string]any
}

const (
	lieRound          = 150 * time.Millisecond
	deadLettersARound = 5
)

// LieToOperators decides wrongly about open dead letters, while others decide rightly, until ctx ends. That a lie is
// taken is complained of.
func (c *Crowd) LieToOperators(ctx context.Context) {
	luck := c.o.Plan.Carry(c.o.Plan.Clients, 3)
	for program.Wait(ctx, lieRound) {
		deadLetters := c.openDeadLetters(ctx, luck)
		luck.Shuffle(len(deadLetters), func(i, j int) {
			deadLetters[i], deadLetters[j] = deadLetters[j],
				deadLetters[i]
		})
		for _, l := range deadLetters[:min(len(deadLetters), deadLettersARound)] {
			c.lieAbout(ctx, luck, l)
		}
	}
}

func (c *Crowd) lieAbout(ctx context.Context, luck *rand.Rand, l deadLetter) {
	if c.ops(ctx, luck, http.MethodGet, "/operator/dead-letters/"+l.ID, nil, &l) != http.StatusOK {
		return
	}
	lies := c.liesAbout(ctx, luck, l)
	if len(lies) == 0 {
		return
	}
	told := slices.MinFunc(lies, func(a, b lie) int { // the one that was told least
		return c.o.Tally.Of("lie refused", a.what) - c.o.Tally.Of("lie refused", b.what)
	})
	told.decision["reason"] = "a lie: " + told.what
	switch status := c.ops(ctx, luck, http.MethodPost, "/operator/dead-letters/"+l.ID+"/resolve", told.decision,
		nil); status {
	case http.StatusOK:
		c.complain("operator", "the dead letter "+l.ID+" ("+l.Kind+", "+l.Key+") was resolved by a lie: "+told.what)
	case http.StatusConflict:
		c.o.Tally.One("lie refused", told.what)
	case 0:
	default:
		c.o.Tally.One("lie not heard", told.what)
	}
}

// liesAbout are those that are lies for sure, whatever others decide meanwhile. What the PSP says nothing about is an
// operator's to say, so that no word about it is one.
func (c *Crowd) liesAbout(ctx context.Context, luck *rand.Rand, l deadLetter) []lie {
	lies := []lie{
		{"stale-version", map[string]any{"action": "executed", "version": l.Version + 7}},
		{"stale-version", map[string]any{"action": "dismiss", "version": l.Version + 7}},
	}
	if l.Key == "" {
		return lies
	}
	if other, known := c.known[luck.IntN(len(c.known))].pick(luck.Uint64()); known && other.key != l.Key &&
		other.tenant == l.Tenant && l.Operation != refundsOnly {
		lies = append(lies, lie{"another-charge",
			map[string]any{"action": "executed", "version": l.Version, "pspId": other.ChargeID}})
	}
	found, err := c.inConsole(ctx, l)
	if err != nil {
		return lies
	}
	for _, e := range found {
		if e.Status == "succeeded" {
			return append(lies, lie{"not-executed", map[string]any{"action": "not_executed", "version": l.Version}})
		}
	}
	return lies
}
