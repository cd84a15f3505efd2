package main

import (
	"fmt"
	"slices"
	"strings"

	"payonce/lab/program"
)

// settings of a run.
type settings struct {
	Seed     uint64   `env:"SEED" desc:"of what the clients ask for; 0: a new one, which is printed"`
	Quick    bool     `env:"QUICK" desc:"1: fewer payments, and no webhooks, whose jobs may be taken up again a minute and a half after a failover only"`
	Only     []string `env:"ONLY" desc:"cases to run, separated by commas: sync, async, away, full"`
	Programs string   `env:"PROGRAMS" desc:"directory with the programs api, reconciler and mockpsp; they are built without it"`
	Keep     string   `env:"KEEP" desc:"where history and logs are kept when something is wrong (default: bin/failover-SEED)"`
	Report   string   `env:"REPORT" envDefault:"bin/failover.json" desc:"where the results go, as JSON"`
}

func loadSettings(getenv func(string) string) (settings, error) {
	s, err := program.Settings[settings]("failover", getenv)
	if err != nil {
		return s, err
	}
	for i, name := range s.Only {
		s.Only[i] = strings.TrimSpace(name)
		if !slices.ContainsFunc(cases(), func(c testCase) bool { return c.name == s.Only[i] }) {
			return s, fmt.Errorf("ONLY has %q, which is no case", name)
		}
	}
	s.Seed = program.Seed(s.Seed)
	if s.Keep == "" {
		s.Keep = fmt.Sprintf("bin/failover-%d", s.Seed)
	}
	return s, nil
}

func (s settings) wants(name string) bool { return len(s.Only) == 0 || slices.Contains(s.Only, name) }

// payments is how many are acknowledged before the primary is lost, and again after it.
func (s settings) payments() int {
	if s.Quick {
		return 60
	}
	return 400
}
