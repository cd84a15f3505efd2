// Package crashbutton presses the buttons of the demo's page while clients pay, and then judges what is left by the
// invariants. The demo is the program that make demo runs: a supervisor, the API and the reconciler as its children,
// its own PostgreSQL and the mock PSP. The clients are the crowd of lab/chaos.
//
// It owns the order of the presses, and the proof that each press has ended a process that had requests under way. It
// refuses to know how the demo kills: a press is an HTTP request, and the page tells that a new process serves.
//
//	button_test.go   the claim, and the presses
//	demo_test.go     the demo, its page and its buttons
//	load_test.go     the clients, and which requests a press has cut
//	calm_test.go     waits until nothing moves, and judges
package crashbutton

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// How often each button is pressed.
const (
	apiPresses        = 20
	reconcilerPresses = 3
	databasePresses   = 2
)

// stormLimit bounds all presses together.
const stormLimit = 5 * time.Minute

// seed decides the clients' errands, the order of the presses, and how many answers there are between two of them.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	return n
}

func TestCrashButtonsUnderLoadViolateNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: presses the buttons of the demo under load")
	}
	n := seed(t)
	t.Logf("SEED=%d", n)
	d := startDemo(t)
	l := newLoad(t, d, n)
	pressUnderLoad(t, d, l, rand.New(rand.NewPCG(n, pressStream)))
	l.calm(t)
	l.judge(t)
	d.stop(t)
}

// pressStream keeps the numbers of the presses apart from those of package plan.
const pressStream = 1 << 63

// pressUnderLoad presses all buttons, one press after the other, while the clients pay.
func pressUnderLoad(t *testing.T, d *demo, l *load, luck *rand.Rand) {
	t.Helper()
	began := time.Now()
	storm, end := context.WithTimeout(t.Context(), stormLimit)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer end()
	clients.Go(func() { l.crowd.Run(storm) })

	pressed := map[button]int{}
	for _, b := range presses(luck) {
		l.awaitAnswers(storm, t, 20+luck.IntN(150))
		before := d.awaitServing(t, b, pressed[b])
		underWay := l.awaitUnderWay(storm, t)
		d.press(t, b)
		pressed[b]++
		after := d.awaitServing(t, b, pressed[b])
		if after.pid == before.pid {
			t.Errorf("%s: process %d still serves", b.path, after.pid)
		}
		cut := l.cut(underWay)
		l.figures.add(b, len(underWay), cut)
		if b == killAPI && cut == 0 {
			t.Errorf("press %d: %d requests were under way, and the kill has cut none", pressed[b], len(underWay))
		}
	}
	l.awaitAnswers(storm, t, 1)
	for b, n := range pressed {
		if is := d.awaitServing(t, b, n); is.restarts != n {
			t.Errorf("%s: started again %d times after %d presses", b.process, is.restarts, n)
		}
	}
	t.Logf("the storm took %s", time.Since(began).Round(time.Second))
}

// presses are all presses in an order by chance. The reconciler's come first: a job that died with it is run again
// after 90 s, and the other presses take a part of that time.
func presses(luck *rand.Rand) []button {
	all := slices.Concat(slices.Repeat([]button{killReconciler}, reconcilerPresses),
		slices.Repeat([]button{killAPI}, apiPresses), slices.Repeat([]button{crashDatabase}, databasePresses))
	luck.Shuffle(len(all)-reconcilerPresses, func(i, j int) {
		i, j = i+reconcilerPresses, j+reconcilerPresses
		all[i], all[j] = all[j], all[i]
	})
	return all
}
