package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"payonce/lab/bench/report"
	"payonce/lab/program"
	"payonce/lab/world"
)

// costSettings are those of the part cost.
type costSettings struct {
	Rounds   int    `env:"ROUNDS" envDefault:"6" desc:"of cost: each has one server and Citus in turn; the median counts"`
	Payments int64  `env:"PAYMENTS" envDefault:"4000" desc:"of cost: in each measurement"`
	Keep     string `env:"KEEP" envDefault:"bin/citus-cost" desc:"of cost: where logs are kept if an answer was not 201"`
}

// costCase is who pays at once, and what Citus may cost then. The bars are of CPU on all servers, and of the median of
// what clients wait; one server is 1.
type costCase struct {
	name             string
	clients, tenants int
	bar              float64
}

const (
	barP50 = 2.5
	// slack is for what a server does for itself now and then. It is not a payment's.
	slack = 0.01
)

func costCases() []costCase {
	return []costCase{
		{"1 client of one tenant", 1, 1, 3.2},
		{"16 clients of one tenant", 16, 1, 2.8},
		{"16 clients of eight tenants, on both workers", 16, manyTenants, 3.3},
	}
}

// errMissed is for the exit status; the table says what.
var errMissed = errors.New("a bar is missed")

// cost prints what a new payment takes on Citus and on one server: the CPU of all servers, and how long a client waits.
// All share this machine, so the ratios say what Citus costs, and nothing says how fast it is. The two take turns, so
// that whatever else the machine does slows down both.
func cost(ctx context.Context, root string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	s, err := program.Settings[costSettings]("citus", getenv)
	if err != nil {
		return err
	}
	if s.Rounds < 1 || s.Payments < 1 {
		return errors.New("ROUNDS and PAYMENTS must be positive")
	}
	dir, err := program.TempDir("citus")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs, err := world.Build(ctx, root, filepath.Join(dir, "bin"), nil)
	if err != nil {
		return err
	}
	var sides []*side
	defer func() {
		for _, each := range sides {
			err = errors.Join(err, each.close())
		}
	}()
	say := func(line string) { fmt.Fprintln(stderr, line) }
	for i, servers := range []world.Servers{1, 3} {
		each, err := openSide(ctx, []string{"one server", "Citus"}[i], world.Options{Programs: programs,
			Dir: filepath.Join(dir, fmt.Sprint(servers)), Servers: servers, Say: say})
		if err != nil {
			return err
		}
		sides = append(sides, each)
	}
	err = measure(ctx, sides, s, say)
	for _, each := range sides {
		err = errors.Join(err, each.keepLogs(s.Keep, say))
	}
	if err != nil {
		return err
	}
	return tellCost(stdout, sides[0], sides[1])
}

// measure has the sides take turns. Before the first round, statements are prepared and new tables get statistics.
func measure(ctx context.Context, sides []*side, s costSettings, say func(string)) error {
	for round := range 1 + s.Rounds {
		for i, c := range costCases() {
			for _, each := range sides {
				err := each.pay(ctx, c, (s.Payments+4)/5) // by itself: the connections of this case are open then
				switch {
				case err == nil && round == 0:
					_, err = each.w.DB.Exec(ctx, "ANALYZE")
				case err == nil:
					err = each.measure(ctx, i, c, s.Payments)
				}
				if err != nil {
					return fmt.Errorf("%s, %s: %w", each.name, c.name, err)
				}
			}
		}
		say(fmt.Sprintf("round %d of %d is over", round, s.Rounds))
	}
	return nil
}

// tellCost prints the table. It is an error if a bar is missed.
func tellCost(stdout io.Writer, one, many *side) error {
	var sections []report.Section
	for i, c := range costCases() {
		a, b := many.measured[i], one.measured[i]
		section := report.Section{Name: c.name, Figures: []report.Figure{
			{What: "one server", Unit: "ms-CPU", Rounds: b.total},
			{What: "Citus", Unit: "ms-CPU", Rounds: a.total},
		}}
		for _, name := range many.names() {
			section.Figures = append(section.Figures,
				report.Figure{What: "Citus, " + name, Unit: "ms-CPU", Rounds: a.cpu[name]})
		}
		section.Figures = append(section.Figures,
			report.Ratio("CPU per payment, Citus ÷ one server", a.total, b.total, report.AtMost(c.bar)),
			report.Figure{What: "one server, p50", Unit: "ms", Rounds: b.p50},
			report.Figure{What: "Citus, p50", Unit: "ms", Rounds: a.p50},
			report.Ratio("p50, Citus ÷ one server", a.p50, b.p50, report.AtMost(barP50)),
			report.Figure{What: "prepared transactions per payment", Rounds: a.prepared, Bar: report.AtMost(slack)},
		)
		sections = append(sections, section)
	}
	var answers report.Section
	answers.Name = "answers"
	for _, each := range []*side{one, many} {
		for _, status := range each.statuses() {
			n := float64(each.answers[status])
			answers.Figures = append(answers.Figures, report.Figure{
				What: fmt.Sprintf("%s, status %d", each.name, status), Rounds: []float64{n}})
		}
		answers.Figures = append(answers.Figures, report.Figure{What: each.name + ", not 201",
			Rounds: []float64{float64(each.odd())}, Bar: report.AtMost(0)})
	}
	sections = append(sections, answers)
	if err := report.Table(stdout, []string{"CPU of all PostgreSQL servers per payment"}, sections); err != nil {
		return err
	}
	missed := slices.ContainsFunc(sections, func(s report.Section) bool {
		return slices.ContainsFunc(s.Figures, func(f report.Figure) bool { return cmp.Or(f.Verdict(), "met") != "met" })
	})
	if missed {
		return errMissed
	}
	return nil
}
