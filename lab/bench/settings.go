package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// settings of a run.
type settings struct {
	Quick   bool     `env:"QUICK" desc:"1: a minute instead of six; fewer and shorter slices, new payments and replays only"`
	Rows    int      `env:"BENCH_ROWS" envDefault:"100000" desc:"completed payments in the tables, up to 10000000"`
	Clients []int    `env:"BENCH_CLIENTS" envDefault:"1,8,32,64" desc:"clients at once, of new payments"`
	Rounds  int      `env:"BENCH_ROUNDS" envDefault:"5" desc:"slices of each line; fewer where three are enough"`
	Seconds int      `env:"BENCH_SECONDS" envDefault:"2" desc:"length of a slice"`
	Only    []string `env:"BENCH_ONLY" desc:"sections to run, by the names in the table, separated by commas; only so are size, fresh, events, deliveries and inflight run"`
	Ref     string   `env:"REF" desc:"another commit: its programs are built and take turns with these (section against, and no other; or, with BENCH_ONLY=fresh or webhook, that one)"`
}

const (
	smallRows  = 10_000 // what big tables are compared with
	maxRows    = 10_000_000
	maxClients = 200 // the server has connections for
)

func loadSettings(getenv func(string) string) (s settings, err error) {
	environment := map[string]string{}
	for _, name := range []string{"QUICK", "BENCH_ROWS", "BENCH_CLIENTS", "BENCH_ROUNDS", "BENCH_SECONDS", "BENCH_ONLY",
		"REF"} {
		if v := getenv(name); v != "" {
			environment[name] = v
		}
	}
	if err := env.ParseWithOptions(&s, env.Options{Environment: environment}); err != nil {
		return s, fmt.Errorf("read settings: %w; see bench --help", err)
	}
	if s.Quick {
		s.Rounds, s.Seconds = min(s.Rounds, 3), 1
		if environment["BENCH_CLIENTS"] == "" {
			s.Clients = []int{8, 64}
		}
	}
	if s.Ref != "" && len(s.Only) == 0 {
		s.Only = []string{againstSection}
	}
	return s, s.check()
}

func (s settings) check() error {
	switch {
	case s.Rows < smallRows || s.Rows > maxRows:
		return fmt.Errorf("BENCH_ROWS is %d, must be from %d to %d", s.Rows, smallRows, maxRows)
	case s.Rounds < 1 || s.Seconds < 1:
		return fmt.Errorf("BENCH_ROUNDS and BENCH_SECONDS must be positive")
	case len(s.Clients) == 0 || slices.Min(s.Clients) < 1 || slices.Max(s.Clients) > maxClients:
		return fmt.Errorf("BENCH_CLIENTS is %v, must be from 1 to %d", s.Clients, maxClients)
	}
	for i, name := range s.Only {
		s.Only[i] = strings.TrimSpace(name)
		if s.Only[i] == againstSection && s.Ref == "" {
			return fmt.Errorf("BENCH_ONLY has %q, which needs REF, the commit to measure against", againstSection)
		}
		// Nothing would be measured, and nobody told.
		if !slices.ContainsFunc(sections(), func(known section) bool { return known.name == s.Only[i] }) {
			return fmt.Errorf("BENCH_ONLY has %q, which is no section", s.Only[i])
		}
	}
	return nil
}

// wants reports whether a section is to be run: those that are named, or else those that belong to a run of this depth.
func (s settings) wants(each section) bool {
	if len(s.Only) > 0 {
		return slices.Contains(s.Only, each.name)
	}
	return each.depth == quick || each.depth == normal && !s.Quick
}

// few are enough rounds where slices agree with each other, or take long.
func (s settings) few() int { return min(s.Rounds, 3) }

func (s settings) slice() time.Duration { return time.Duration(s.Seconds) * time.Second }
