package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// settings of a run.
type settings struct {
	Quick   bool    `env:"QUICK" desc:"1: a minute instead of five; fewer and shorter slices, nothing but the main lines"`
	Long    bool    `env:"BENCH_LONG" desc:"1: all sections, in a quarter of an hour"`
	Rows    int     `env:"BENCH_ROWS" envDefault:"100000" desc:"completed payments in the tables, up to 10000000"`
	Clients []int   `env:"BENCH_CLIENTS" envDefault:"1,8,32,64" desc:"clients at once, of new payments"`
	PSPms   int     `env:"BENCH_PSP_MS" envDefault:"50" desc:"how long the PSP takes, in the section about latency"`
	Rounds  int     `env:"BENCH_ROUNDS" envDefault:"5" desc:"slices of each line; fewer where three are enough"`
	Seconds int     `env:"BENCH_SECONDS" envDefault:"2" desc:"length of a slice"`
	Only    string  `env:"BENCH_ONLY" desc:"sections to run, by the words in brackets that the table shows, separated by commas"`
	Ref     string  `env:"REF" desc:"another commit: its programs are built and take turns with these (section against, and no other; or, with BENCH_ONLY=fresh, that one)"`
	Traced  float64 `env:"TRACED" desc:"with REF: the share of payments that this tree traces, and the other commit does not; 1 for all"`
	JSON    string  `env:"BENCH_JSON" envDefault:"bin/bench.json" desc:"where the results go"`
}

const (
	smallRows  = 10_000 // what big tables are compared with
	maxRows    = 10_000_000
	maxClients = 1000
)

func loadSettings(getenv func(string) string) (settings, error) {
	environment := map[string]string{}
	for _, name := range []string{"QUICK", "BENCH_LONG", "BENCH_ROWS", "BENCH_CLIENTS", "BENCH_PSP_MS", "BENCH_ROUNDS",
		"BENCH_SECONDS", "BENCH_ONLY", "REF", "TRACED", "BENCH_JSON"} {
		if v := getenv(name); v != "" {
			environment[name] = v
		}
	}
	var s settings
	if err := env.ParseWithOptions(&s, env.Options{Environment: environment}); err != nil {
		return s, fmt.Errorf("read settings: %w; see bench --help", err)
	}
	if s.Quick {
		s.Rounds, s.Seconds = min(s.Rounds, 3), 1
		if environment["BENCH_CLIENTS"] == "" {
			s.Clients = []int{8, 64}
		}
	}
	if s.Rows < smallRows || s.Rows > maxRows {
		return s, fmt.Errorf("BENCH_ROWS is %d, must be from %d to %d", s.Rows, smallRows, maxRows)
	}
	if s.Rounds < 1 || s.Seconds < 1 || s.PSPms < 0 || s.PSPms > 5000 || len(s.Clients) == 0 {
		return s, fmt.Errorf("BENCH_ROUNDS, BENCH_SECONDS and BENCH_CLIENTS must be positive, BENCH_PSP_MS from 0 to 5000")
	}
	if !(s.Traced >= 0 && s.Traced <= 1) {
		return s, fmt.Errorf("TRACED is %v, must be from 0 to 1", s.Traced)
	}
	for _, n := range s.Clients {
		if n < 1 || n > maxClients {
			return s, fmt.Errorf("BENCH_CLIENTS has %d, must be from 1 to %d", n, maxClients)
		}
	}
	if s.Ref != "" && s.Only == "" {
		s.Only = againstSection
	}
	return s, s.checkOnly()
}

// checkOnly refuses a section that there is not: nothing would be measured, and nobody told.
func (s settings) checkOnly() error {
	for name := range strings.SplitSeq(s.Only, ",") {
		name = strings.TrimSpace(name)
		if name == againstSection && s.Ref == "" {
			return fmt.Errorf("BENCH_ONLY has %q, which needs REF, the commit to measure against", againstSection)
		}
		if name != "" && !slices.ContainsFunc(sections(), func(known section) bool { return known.name == name }) {
			return fmt.Errorf("BENCH_ONLY has %q, which is no section", name)
		}
	}
	return nil
}

// few are enough rounds where slices agree with each other.
func (s settings) few() int { return min(s.Rounds, 3) }

func (s settings) slice() time.Duration { return time.Duration(s.Seconds) * time.Second }

// wants reports whether a section is to be run: those that are named, or else those that belong to a run of this depth.
func (s settings) wants(each section) bool {
	if strings.TrimSpace(s.Only) == "" {
		return each.depth <= s.depth()
	}
	for name := range strings.SplitSeq(s.Only, ",") {
		if strings.TrimSpace(name) == each.name {
			return true
		}
	}
	return false
}

func (s settings) depth() depth {
	switch {
	case s.Quick:
		return quick
	case s.Long:
		return long
	}
	return normal
}

// list is how the report tells them.
func (s settings) list() [][2]string {
	clients := make([]string, len(s.Clients))
	for i, n := range s.Clients {
		clients[i] = strconv.Itoa(n)
	}
	return [][2]string{
		{"rows", strconv.Itoa(s.Rows)}, {"rounds", strconv.Itoa(s.Rounds)}, {"slice", s.slice().String()},
		{"clients", strings.Join(clients, ",")}, {"psp", strconv.Itoa(s.PSPms) + " ms"}, {"depth", s.depth().String()},
	}
}
