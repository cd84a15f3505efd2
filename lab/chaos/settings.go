package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payonce/internal/tenants"
	"payonce/lab/chaos/plan"
	"payonce/lab/program"
	"payonce/lab/world"
)

// settings of a run.
type settings struct {
	Duration time.Duration `env:"DURATION" envDefault:"60s" desc:"how long the storm lasts, from 5s to 24h"`
	Seed     uint64        `env:"SEED" desc:"replays the clients, the blows and the rates of a run; 0: a new one, which is printed"`
	Quick    bool          `env:"QUICK" desc:"1: 45 seconds of storm, without what takes two minutes to heal, and fewer things must have happened"`
	Clients  int           `env:"CLIENTS" envDefault:"16" desc:"merchants' programs, each with four errands at a time"`
	Rate     float64       `env:"RATE" envDefault:"200" desc:"requests per second, of all clients together"`
	Target   string        `env:"TARGET" envDefault:"payonce" desc:"payonce, or naive: step 01 of the course"`
	PSP      string        `env:"PSP" envDefault:"native" desc:"the dialect that the mock PSP speaks: native, or stripe, with payments of two steps and the faults of that dialect"`
	Servers  world.Servers `env:"SERVERS" envDefault:"1" desc:"PostgreSQL servers, 1 or 3: the rows of tenants are spread over two of three, and no key ends in the storm"`
	Programs string        `env:"PROGRAMS" desc:"directory of api, reconciler and mockpsp, instead of building them"`
	Only     string        `env:"ONLY" desc:"blows to strike, separated by commas; then nothing else must have happened"`
	Keep     string        `env:"KEEP" desc:"where history, logs and ledger are kept; default: bin/chaos-SEED, and only of a run that fails"`
	Report   string        `env:"REPORT" envDefault:"bin/chaos.json" desc:"where the report goes, as JSON; with PSP=stripe, bin/chaos-stripe.json"`
}

const (
	payonce = "payonce"
	naive   = "naive"

	quickDuration = 45 * time.Second
	shortest      = 5 * time.Second
	longest       = 24 * time.Hour
	maxClients    = 64
	maxRate       = 5000
)

func loadSettings(getenv func(string) string) (settings, error) {
	s, err := program.Settings[settings]("chaos", getenv)
	if err != nil {
		return s, err
	}
	s.Seed = program.Seed(s.Seed)
	if s.stripe() && getenv("REPORT") == "" {
		s.Report = "bin/chaos-stripe.json"
	}
	if s.Quick && getenv("DURATION") == "" {
		s.Duration = quickDuration
	}
	if s.Duration < shortest || s.Duration > longest {
		return s, fmt.Errorf("DURATION is %s, must be from %s to %s", s.Duration, shortest, longest)
	}
	if s.Clients < 1 || s.Clients > maxClients || s.Rate < 1 || s.Rate > maxRate {
		return s, fmt.Errorf("CLIENTS must be from 1 to %d, RATE from 1 to %d", maxClients, maxRate)
	}
	if !slices.Contains([]string{payonce, naive}, s.Target) {
		return s, fmt.Errorf("TARGET is %q, must be payonce or naive", s.Target)
	}
	if s.PSP != string(tenants.Native) && s.PSP != string(tenants.Stripe) {
		return s, fmt.Errorf("PSP is %q, must be native or stripe", s.PSP)
	}
	if s.stripe() && (!s.Servers.Can(world.ChangeProvider) || s.Target != payonce) {
		return s, errors.New("PSP=stripe is for TARGET=payonce on one server: all others are at the native PSP")
	}
	_, err = s.without()
	return s, err
}

// The times of keys. Clients use a key in the first part of its retention, and again when it is over: see package
// crowd.
const (
	retention = 24 * time.Second
	// audit is how long an expired key is kept before it is deleted
	audit = 4 * time.Second
	// not longer than the retention, and longer than the grace period and the longest pause between two lookups
	pspMemory = 18 * time.Second
)

// lasting is the retention where no key is to end, as what ends could not be kept for the verdict.
const lasting = 48 * time.Hour

// retention is how long a key is kept.
func (s settings) retention() time.Duration {
	if !s.Servers.Can(world.EndKeys) {
		return lasting
	}
	return retention
}

// memory is how long the PSP remembers a key. It must end within the run: a key whose record at the PSP always names
// another key is resolved only then.
func (s settings) memory() time.Duration {
	if !s.Servers.Can(world.EndKeys) {
		return 2 * pspMemory
	}
	return pspMemory
}

// slowest is how long a statement may take between the two readings of the clock that a line of a timeline is judged
// by, where lines come later than rows.
const slowest = 1500 * time.Millisecond

// toldRetention is what expiries are judged by. By lines of timelines they cannot be where those come later than the
// rows.
func (s settings) toldRetention() time.Duration {
	if !s.Servers.Can(world.DateLines) {
		return 0
	}
	return retention
}

// window is the least time between the lines of a key that became unknown and was given back.
func (s settings) window() time.Duration {
	if !s.Servers.Can(world.DateLines) {
		return world.GracePeriod - slowest
	}
	return world.GracePeriod
}

// stripe reports whether the PSP speaks that dialect.
func (s settings) stripe() bool { return s.PSP == string(tenants.Stripe) }

// plan is what the seed decides.
func (s settings) plan() plan.Plan {
	return plan.Plan{Seed: s.Seed, Clients: s.Clients, Stripe: s.stripe()}
}

// without lists the blows that are left out: those that were not chosen, and those that there is nothing for.
func (s settings) without() ([]plan.BlowKind, error) {
	var out []plan.BlowKind
	if s.Only != "" {
		out = plan.BlowKinds()
		for name := range strings.SplitSeq(s.Only, ",") {
			kind := plan.BlowKind(strings.TrimSpace(name))
			if !slices.Contains(plan.BlowKinds(), kind) {
				return nil, fmt.Errorf("ONLY has %q, which is no blow; there are %v", kind, plan.BlowKinds())
			}
			out = slices.DeleteFunc(out, func(k plan.BlowKind) bool { return k == kind })
		}
	}
	if !s.Servers.Can(world.MoveTenants) {
		out = append(out, plan.OfParts()...)
	}
	if !s.stripe() {
		out = append(out, plan.OfStripe()...)
	}
	if s.Target == naive {
		out = append(out, plan.KillReconciler, plan.PauseReconciler, plan.StopReconciler)
	}
	if s.Quick && s.Only == "" {
		// A job that dies with its reconciler is rescued after 90 seconds.
		out = append(out, plan.KillReconciler)
	}
	return out, nil
}

// keep is where a run leaves what it has found.
func (s settings) keep() string {
	dir := s.Keep
	if dir == "" {
		dir = filepath.Join("bin", fmt.Sprintf("chaos-%d", s.Seed))
		if s.stripe() {
			dir += "-stripe"
		}
	}
	return dir
}
