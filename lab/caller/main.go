// Command caller shows what a caller has to do so that "charge once" holds: it pays thousands of intents through real
// APIs that are killed, through a proxy that loses requests and answers, at a PSP that fails. Meanwhile the calling
// process itself is killed (SIGKILL) at each of its boundaries, and started again. Then the PSP's ledger is read: how
// often was each intent charged? `make caller` runs it.
//
// Three callers do this beside each other, in the same storm. "client" is package client. "new key per attempt" and
// "key in memory" are the usual retry loop, once with a key for each request, once with a key for each call: the first
// one charges twice when an answer is lost, the second one when the process dies.
//
//	main.go   the size of a run, and where a caller can be killed
//	storm.go  the arc of a run
//	stage.go  the programs, and what fails
//	shop.go   the parent of a caller: starts it, kills it at a boundary, starts it again
//	child.go  the calling process: this program, executed again
//	pay.go    the usual retry loop, and package client, with a hook at each boundary
//	judge.go  what the PSP's ledger says
//
// A boundary is reached by an event and not by time: the child says on a pipe where it is and waits, and the parent
// kills it there. A seed decides which intents are stopped where, and which calls the proxy loses; not how all of it
// interleaves. The package refuses to ask the API what was charged: the PSP's ledger alone decides.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"payonce/internal/cli"
	"payonce/lab/program"
)

const usage = `Usage:
  caller      pay through a storm while the calling process is killed; print what the PSP has charged

Ends with 1 unless package client was charged exactly once for each intent, and the usual retry loops were not.

Settings, as environment variables with their defaults:
`

func main() {
	if description := os.Getenv(childVariable); description != "" {
		os.Exit(child(description, os.Stdin, os.Stdout, os.Stderr))
	}
	cli.Main("caller", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if asked, err := program.Help(stdout, "caller", usage, settings{}, args); asked || err != nil {
		return err
	}
	s, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	books, err := storm(ctx, s, stderr)
	if ctx.Err() != nil {
		return errors.New("interrupted: all processes have ended, and nothing was judged")
	}
	if err != nil {
		return err
	}
	print(stdout, s, books)
	return verdict(books)
}

// settings of a run.
type settings struct {
	N     int    `env:"N" envDefault:"10000" desc:"intents of package client, from 200 to 100000; each of the usual loops has a tenth of them, at least 50"`
	Seed  uint64 `env:"SEED" desc:"of where callers are killed and what the proxy loses; 0: a new one, which is printed"`
	Quick bool   `env:"QUICK" desc:"1: 300 intents, unless N says otherwise"`
}

const (
	fewest = 200 // with fewer, a boundary might not be met
	most   = 100_000
	quickN = 300
	// The usual loops have a tenth of them: they need no more to show their harm.
	perUsual    = 10
	fewestUsual = 50
)

func loadSettings(getenv func(string) string) (settings, error) {
	s, err := program.Settings[settings]("caller", getenv)
	if err != nil {
		return s, err
	}
	if s.Quick && getenv("N") == "" {
		s.N = quickN
	}
	if s.N < fewest || s.N > most {
		return s, fmt.Errorf("intents (N) are %d, must be from %d to %d", s.N, fewest, most)
	}
	s.Seed = program.Seed(s.Seed)
	return s, nil
}

// boundary is a place between two steps of a caller, where its process can be killed.
type boundary string

// The boundaries, in the order of the steps.
const (
	made     boundary = "made"     // the key is made and not stored
	stored   boundary = "stored"   // stored and not sent
	sent     boundary = "sent"     // sent and not answered
	answered boundary = "answered" // answered and not recorded
	recorded boundary = "recorded" // recorded and not told
	nowhere  boundary = "-"
)

var boundaries = []boundary{made, stored, sent, answered, recorded}

// Shares of the intents whose caller is killed, and of those among them whose next life ends early as well.
const (
	killShare  = 0.25
	againShare = 0.3
)

// declineEvery is one intent that the PSP refuses.
const declineEvery = 20

// errand is an intent of a shop: what is to be paid, and where the caller is killed on the way, one boundary for each
// of its lives.
type errand struct {
	index int
	token string
	kills []boundary
	told  string // paid, declined or failed; empty while the caller has not told
}

// errands are what a seed decides.
func errands(r *rand.Rand, first, n int) []*errand {
	all := make([]*errand, 0, n)
	for i := range n {
		e := &errand{index: first + i, token: "pm_ok"}
		if e.index%declineEvery == 0 {
			e.token = "pm_declined"
		}
		if r.Float64() < killShare {
			e.kills = append(e.kills, boundaries[r.IntN(len(boundaries))])
			if r.Float64() < againShare {
				e.kills = append(e.kills, boundaries[2+r.IntN(len(boundaries)-2)])
			}
		}
		all = append(all, e)
	}
	return all
}

// next is where the caller is killed in its next life.
func (e *errand) next() boundary {
	if len(e.kills) == 0 {
		return nowhere
	}
	return e.kills[0]
}
