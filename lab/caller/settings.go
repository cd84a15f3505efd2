package main

import (
	"fmt"

	"payonce/lab/program"
)

// settings of a run.
type settings struct {
	N        int    `env:"N" envDefault:"10000" desc:"intents of package client, from 200 to 100000; each of the usual loops has a tenth of them, at least 50"`
	Seed     uint64 `env:"SEED" desc:"of where callers are killed and what the proxy loses; 0: a new one, which is printed"`
	Quick    bool   `env:"QUICK" desc:"1: 300 intents, unless N says otherwise"`
	Programs string `env:"PROGRAMS" desc:"directory of api, reconciler and mockpsp, instead of building them"`
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
