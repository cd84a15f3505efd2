package report

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files of this package")

// invented is a report with one of everything. No machine has ever measured it.
func invented() Report {
	ratio := PairUp("replay ÷ GET /livez", []float64{9000, Dropped(), 9300, 9200},
		[]float64{12000, 12400, 12400, 11500})
	payments := Line{Name: "new payments, 64 clients", Unit: "payments/s", Better: Higher,
		Samples: []float64{8862, 8700.5, 9011.25}, Dropped: 1}
	return Report{
		Taken: "2026-01-02T03:04:05Z",
		Machine: Machine{
			CPU: "Invented Processor 3000", Cores: 2, Memory: 16 << 30, System: "linux/amd64", Kernel: "6.1.0-invented",
			Go: "go1.26.0", PostgreSQL: "15.18", Commit: "0123456789abcdef0123456789abcdef01234567", Dirty: true,
			PostgreSQLSettings: []Setting{{"jit", "off"}, {"max_connections", "300"}, {"shared_buffers", "32MB"},
				{"synchronous_commit", "on"},
				{"wal_level", "replica"}, {"autovacuum_naptime", "10s"}, {"checkpoint_timeout", "1h"},
				{"max_wal_size", "4GB"}},
		},
		Settings: []Setting{{"rounds", "4"}, {"slice", "5s"}},
		Sections: []Section{
			{
				Name: "new payments", Note: "Closed loop; the load generator and PostgreSQL share the cores with the API.",
				Lines: []Line{
					payments,
					{Name: "PostgreSQL CPU", Unit: "µs/payment", Better: Lower,
						Samples: []float64{89.4, 91, 0.5, 88.96}},
					{Name: "resident at rest", Unit: "MiB", Better: Lower, Samples: []float64{41}},
				},
				Bars: []Bar{
					Bar{What: "new payments at 64 clients", Op: AtLeast, Value: 8500, Unit: "payments/s",
						Prototype: "8 862 by sharing commits"}.
						Of(payments.Samples),
					Bar{What: "PostgreSQL CPU", Op: AtMost, Value: 80, Unit: "µs/payment",
						Prototype: "89"}.Of([]float64{89.4, 91, 0.5, 88.96}),
				},
			},
			{
				Name:   "replay",
				Ratios: []Ratio{ratio},
				Lines:  []Line{{Name: "replay under faults", Unit: "payments/s", Better: Higher, Dropped: 4}},
				Bars: []Bar{
					Bar{What: "replay ÷ what HTTP alone can do", Op: AtLeast, Value: 0.75,
						Prototype: "0.8 | 0.9 by Redis"}.Of(ratio.Samples()),
					{What: "200 racers on one key ÷ 200 on 200 keys, time until all of them are answered", Op: AtMost,
						Value: 1.5, Unit: "",
						Prototype: "not tried on a prototype, as far as anybody remembers"},
				},
			},
		},
	}
}

func TestReportReadsAsTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer) error{
		"report.txt": invented().Table, "report.json": invented().JSON,
		"report.bench": invented().Benchmarks, "report.md": invented().Markdown,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("if that is right: go test -C lab ./bench/report -update\n%s", diff)
			}
		})
	}
}

func TestTableFitsATerminalOf140Columns(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	if err := invented().Table(&table); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 140 {
			t.Errorf("%d columns: %s", width, line)
		}
	}
}

// benchstat puts results into separate tables, without a comparison, as soon as a key differs.
func TestCommitsAndVersionsDoNotKeepReportsFromBeingCompared(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := invented().Benchmarks(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if key, _, found := strings.Cut(line, ": "); found && !slices.Contains([]string{"goos", "goarch", "cpu"}, key) {
			t.Errorf("%s is a key", key)
		}
	}
}

func TestReportReadBackIsTheSame(t *testing.T) {
	t.Parallel()
	var first, second, direct, converted bytes.Buffer
	if err := invented().JSON(&first); err != nil {
		t.Fatal(err)
	}
	again, err := Read(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.JSON(&second), invented().Benchmarks(&direct),
		Convert(bytes.NewReader(first.Bytes()), &converted)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.String(), second.String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(direct.String(), converted.String()); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyReportListsNothingAsNothing(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	r := Report{Sections: []Section{{Lines: []Line{{Unit: "s", Better: Lower}}, Ratios: []Ratio{{}},
		Bars: []Bar{{Op: AtMost}}}, {}}}
	if err := r.JSON(&text); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		name, value, _ := strings.Cut(line, ": ")
		if strings.HasPrefix(value, "null") && !strings.Contains(`"median" "low" "high"`, strings.TrimSpace(name)) {
			t.Errorf("%s is null, want []", strings.TrimSpace(name))
		}
	}
	if r.Sections[1].Lines != nil {
		t.Error("writing the report has changed it")
	}
}

func TestWhatOthersWroteIsNotRead(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a later schema": `{"schema": 2}`, "no schema": `{}`, "no JSON": `goos: linux`,
		"a bar on no side": `{"schema": 1, "sections": [{"bars": [{"op": "=="}]}]}`,
	} {
		if err := Convert(strings.NewReader(text), io.Discard); err == nil {
			t.Errorf("%s is taken for a report", name)
		}
	}
}

func TestReportThatItsReadersWouldTripOverIsNotWritten(t *testing.T) {
	t.Parallel()
	fine := Line{Name: "l", Unit: "payments/s", Better: Higher, Samples: []float64{1}}
	for name, section := range map[string]Section{
		"no number":          {Lines: []Line{{Unit: "s", Better: Lower, Samples: []float64{math.NaN()}}}},
		"no end":             {Lines: []Line{{Unit: "s", Better: Lower, Samples: []float64{math.Inf(1)}}}},
		"no unit":            {Lines: []Line{{Better: Lower}}},
		"two units":          {Lines: []Line{{Unit: "payments s", Better: Lower}}},
		"the unit of ratios": {Lines: []Line{{Unit: "ratio", Better: Lower}}},
		"no direction":       {Lines: []Line{{Unit: "s"}}},
		"two directions":     {Lines: []Line{fine, {Unit: "payments/s", Better: Lower}}},
		"no side":            {Bars: []Bar{{Op: "=="}}},
		"no bound":           {Bars: []Bar{{Op: AtMost, Value: math.NaN()}}},
		"no quotient":        {Ratios: []Ratio{{Rounds: []Pair{{1, 0}}}}},
	} {
		r := Report{Sections: []Section{{Lines: []Line{fine}}, section}}
		if r.JSON(io.Discard) == nil || r.Benchmarks(io.Discard) == nil {
			t.Errorf("%s is written", name)
		}
		if err := r.Table(io.Discard); err != nil {
			t.Errorf("%s keeps the rest from the table: %v", name, err)
		}
	}
}
