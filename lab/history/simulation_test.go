package history

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

const steps = 60

func TestServerThatKeepsItsPromisesIsBelieved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		history := play(flawless, steps, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "draw") })
		for _, v := range Check(history, patience) {
			t.Fatalf("%s\n%+v", v, history)
		}
	})
}

// A flaw that shows in no history at all would say that the model does not see it.
func TestServerThatBreaksAPromiseIsCaught(t *testing.T) {
	t.Parallel()
	const tries = 2000
	for _, f := range []flaw{
		rebuildsAnswers, staleBusy, staleAccepted, alwaysFirst, noFingerprint, mismatchesSame, newPayment,
		executesAgain, noFence, forgetsEnd,
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(tries) {
				source := rand.New(rand.NewPCG(seed, 5))
				if violations := Check(play(f, steps, source.IntN), patience); len(violations) > 0 {
					t.Logf("history %d: %s", seed, violations[0].Detail)
					return
				}
			}
			t.Errorf("not caught in %d histories", tries)
		})
	}
}

// The same schedules that catch the flawed servers have nothing against the one without a flaw.
func TestSameSchedulesWithoutAFlawPass(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		source := rand.New(rand.NewPCG(seed, 5))
		history := play(flawless, steps, source.IntN)
		for _, v := range Check(history, patience) {
			t.Fatalf("seed %d: %s\n%+v", seed, v, history)
		}
	}
}
